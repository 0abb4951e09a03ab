"""Ensembles as sets of models: best partners, all pairs, best and random subsets, budgets and the Pareto front.

Where possible every subset is tried. That shows how close greedy search comes to the best subset, and how far it is above
random ones.
"""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ensembles.costs import Budget, Cost, member_costs, parse_budget
from ensembles.greedy_search import Rules, search
from ensembles.growing_ensemble import TIE, GrowingEnsemble
from ensembles.inputs import Name, check_counts
from ensembles.path import categories
from ensembles.scores import score_prefixes
from ensembles.search_setup import SearchSetup
from zoo.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

ScoredSubsets: TypeAlias = dict[tuple[int, ...], float]

# Maximum number of subsets of one size to try: about a minute for 5,000 examples of 1,000 classes.
MAX_SUBSETS = 20_000
# A search within a budget tries every subset up to these limits on subsets and on subsets x examples x classes: seconds.
MAX_BUDGET_SUBSETS = 5_000
MAX_BUDGET_WORK = 2e10
# Budgets for which the two greedy rules search the Pareto front, evenly spaced on a logarithmic scale.
FRONT_BUDGETS = 12


@dataclass(frozen=True)
class Subset:
    """An ensemble of equally weighted models, chosen among many."""

    members: tuple[Name, ...]
    score: float  # on the selection split, which chose it
    test_score: float | None  # None without a test split
    method: str  # how it was found
    tried: int  # number of ensembles that were scored
    cost: float | None = None

    @classmethod
    def of(
        cls, setup: SearchSetup, members: Sequence[int], score: float, method: str, tried: int, cost: float | None = None
    ) -> "Subset":
        """Return a subset by name. `score` is the search's: higher is better."""
        names = tuple(setup.library.names[model] for model in members)
        return cls(names, setup.objective.sign * score, setup.test_score(members), method, tried, cost)


def best_partners(setup: SearchSetup, bases: Sequence[Name] | None, resamples: int) -> "pd.DataFrame":
    """Return one row per base: the candidate that scores best with it."""
    import pandas as pd

    names, sign, ensemble = setup.library.names, setup.objective.sign, setup.empty_ensemble()
    starts = range(len(names)) if bases is None else [setup.library.position(name, "bases") for name in bases]
    rows = []
    for base in starts:
        others = [model for model in setup.candidates if model != base]
        if not others:
            raise InputError(f"no candidate is left besides the base {names[base]!r}", argument="candidates")
        alone = ensemble.score_of([base])
        ensemble.add(base)
        partner, pair = ensemble.best(others)
        row: dict[str, Any] = {
            "base": names[base],
            "partner": names[partner],
            "category": categories([names[base], names[partner]], setup.library.runs)[1],
            "alone": sign * alone,
            "pair": sign * pair,
        }
        if setup.test is not None:
            prefixes = score_prefixes(setup.test, [base, partner], setup.objective, custom_parts={0, 1})
            row |= {
                "test_alone": prefixes.score[0],
                "test_pair": prefixes.score[1],
                "gain": prefixes.gains(0)[1],
                "interval": prefixes.gain_intervals(0, resamples, setup.seed)[1],
            }
        rows.append(row)
    return pd.DataFrame(rows)


def pair_scores(setup: SearchSetup) -> "pd.DataFrame":
    """Return the scores [M, M] of every pair of models, with single models on the diagonal."""
    import pandas as pd

    names, ensemble = setup.library.names, setup.empty_ensemble()
    scores = np.zeros((len(names), len(names)))
    for first, second in itertools.combinations_with_replacement(range(len(names)), 2):
        pair = setup.by_name({first, second})
        scores[first, second] = scores[second, first] = setup.objective.sign * ensemble.score_of(pair)
    return pd.DataFrame(scores, index=list(names), columns=list(names))


def best_subset(setup: SearchSetup, size: int) -> Subset:
    """Return the best of all subsets of `size` candidates, each with the base added."""
    pool = _pool(setup, size)
    count = math.comb(len(pool), size)
    if count > MAX_SUBSETS:
        raise InputError(
            f"{count} subsets of {size} among {len(pool)} candidates are more than {MAX_SUBSETS}",
            argument="size",
            found=size,
            hint="Use greedy",
        )
    members: tuple[int, ...] = ()
    ensemble, best, lowest_nll, tried = setup.empty_ensemble(), -math.inf, math.inf, 0
    for start, last in _by_last_model(setup, ensemble, size):
        scores = ensemble.scores(last, at_least=best)
        tried += len(last)
        if not scores:
            continue
        model = ensemble.break_ties(scores)
        loss = ensemble.nll_with(model)
        if scores[model] > best + TIE or (scores[model] > best - TIE and loss < lowest_nll - TIE):
            best, lowest_nll, members = scores[model], loss, (*start, model)
    return Subset.of(setup, members, best, f"all {count} subsets of {size}", tried)


def random_subsets(setup: SearchSetup, size: int, draws: int) -> "pd.DataFrame":
    """Return one row per random subset of `size` candidates, each with the base added."""
    import pandas as pd

    pool = _pool(setup, size)
    check_counts(draws=draws)
    rng, ensemble, rows = np.random.default_rng(setup.seed), setup.empty_ensemble(), []
    for _ in range(draws):
        members = [*setup.base, *setup.by_name(pool[i] for i in rng.choice(len(pool), size, replace=False))]
        subset = Subset.of(setup, members, ensemble.score_of(members), "random", 1)
        rows.append({"members": subset.members, "selection": subset.score, "test": subset.test_score})
    return pd.DataFrame(rows)


def _pool(setup: SearchSetup, size: int) -> list[int]:
    check_counts(size=size)
    if size > len(setup.pool):
        raise InputError(argument="size", expected=f"at most the number of candidates, {len(setup.pool)}", found=size)
    return setup.pool


def _by_last_model(setup: SearchSetup, ensemble: GrowingEnsemble, size: int) -> Iterator[tuple[tuple[int, ...], list[int]]]:
    """Iterate over all subsets of `size`, grouped by all but their last model, which the ensemble then holds."""
    pool = setup.pool
    for start in itertools.combinations(pool, size - 1):
        last = pool[pool.index(start[-1]) + 1 :] if start else pool
        if last:
            ensemble.reset([*setup.base, *start])
            yield (*setup.base, *start), last


def best_within(setup: SearchSetup, budget: Budget, cost: Cost, max_size: int) -> Subset:
    """Return the best ensemble whose members cost at most `budget` in total."""
    check_counts(max_size=max_size)
    limit, costs = parse_budget(budget), member_costs(setup.library, cost)
    cost_of = Rules(1, costs=costs).cost_of
    scored, method = _every_subset(setup, max_size), "every subset"
    if scored is None:
        by_gain = _greedy_prefixes(setup, Rules(max_size, costs=costs, budget=limit))
        per_cost = _greedy_prefixes(setup, Rules(max_size, costs=costs, budget=limit, per_cost=True))
        better = max(per_cost.values()) > max(by_gain.values()) + TIE
        scored, method = by_gain | per_cost, "greedy by gain per cost" if better else "greedy by gain"
    allowed = {members: score for members, score in scored.items() if cost_of(members) <= limit}
    if not allowed:
        cheapest = min(map(cost_of, scored))
        raise InputError(argument="budget", expected=f"at least the cheapest ensemble's cost, {cheapest:g}", found=budget)
    top = max(allowed.values())
    # Ties go to the cheapest ensemble, then to the smallest, then to the first by name.
    best = min(
        (members for members, score in allowed.items() if score >= top - TIE),
        key=lambda members: (cost_of(members), len(members), [setup.library.names[m] for m in members]),
    )
    return Subset.of(setup, best, allowed[best], method, len(scored), cost_of(best))


def pareto_front(setup: SearchSetup, cost: Cost, max_size: int) -> "pd.DataFrame":
    """Return one row per ensemble of the Pareto front of cost and score, by ascending cost."""
    import pandas as pd

    check_counts(max_size=max_size)
    costs = member_costs(setup.library, cost)
    cost_of = Rules(1, costs=costs).cost_of
    scored, method = _every_subset(setup, max_size), "every subset"
    if scored is None:
        scored, method = {}, f"greedy by gain and by gain per cost, for {FRONT_BUDGETS} budgets"
        lowest = max(min(cost_of([*setup.base, model]) for model in setup.candidates), 1e-300)
        for budget in np.geomspace(lowest, max(lowest, cost_of(range(len(costs)))), FRONT_BUDGETS):
            for per_cost in (False, True):
                # The last budget must not be below the cost of all models because of rounding.
                rules = Rules(max_size, costs=costs, budget=float(budget) * (1 + 1e-9), per_cost=per_cost)
                scored |= _greedy_prefixes(setup, rules)
    rows, best = [], -math.inf
    for members in sorted(scored, key=lambda one: (cost_of(one), -scored[one], len(one), one)):
        if scored[members] > best + TIE:
            best = scored[members]
            subset = Subset.of(setup, members, best, method, len(scored), cost_of(members))
            test = np.nan if subset.test_score is None else subset.test_score
            rows.append((subset.cost, subset.members, len(members), subset.score, test))
    frame = pd.DataFrame(rows, columns=["cost", "members", "size", "selection", "test"])
    frame.attrs |= {"method": method, "tried": len(scored), "cost": cost if isinstance(cost, str) else "cost"}
    return frame


def _every_subset(setup: SearchSetup, max_size: int) -> ScoredSubsets | None:
    """Return the scores of the base and of every subset of up to `max_size` candidates; None if that is too much work."""
    pool = len(setup.pool)
    max_size = min(max_size, pool)
    subsets = sum(math.comb(pool, size) for size in range(1, max_size + 1))
    work = subsets * len(setup.library.labels) * setup.library.num_classes
    if subsets > MAX_BUDGET_SUBSETS or work > MAX_BUDGET_WORK:
        return None
    ensemble = setup.empty_ensemble()
    scores = {tuple(setup.base): ensemble.score_of(setup.base)} if setup.base else {}
    for size in range(1, max_size + 1):
        for start, last in _by_last_model(setup, ensemble, size):
            scores |= {(*start, model): score for model, score in ensemble.scores(last, every=True).items()}
    return scores


def _greedy_prefixes(setup: SearchSetup, rules: Rules) -> ScoredSubsets:
    """Return the score of every ensemble that a greedy search passes through."""
    result = search(setup, rules)
    return {tuple(result.members[:size]): result.scores[size - 1] for size in range(result.start, len(result.members) + 1)}
