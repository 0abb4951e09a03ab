"""Sets of models, chosen by trying everything where that is possible: pairs, subsets of a size, all that one can pay for.

They show what greedy search is worth: how near it comes to the best, and how far it is above what chance would have chosen.
And what members cost: the best ensemble under a limit, the front of cost and score.
"""

import itertools
import math
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import torch

from ensembles._ensemble import TIE, GrowingEnsemble
from ensembles._greedy import Rules, grow
from ensembles._library import Library, Name
from ensembles._path import categories
from ensembles._scores import curve
from ensembles._setup import Setup, at_least_one
from zoo.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

Cost: TypeAlias = "Literal['params', 'flops', 'latency'] | Mapping[Any, float] | Sequence[float] | Callable[[Any], float]"
Scored: TypeAlias = dict[tuple[int, ...], float]

# Subsets of a size tried at most: about a minute for 5,000 examples of 1,000 classes.
MOST_SUBSETS = 20_000
# Up to so many subsets, and so many numbers in them (subsets x examples x classes), every one is priced and tried: seconds.
MOST_PRICED = 5_000
MOST_WORK = 2e10
# Limits at which the two greedy rules are run for the front, evenly spaced on a logarithmic scale.
FRONT_LIMITS = 12
LATENCY_REPEATS = 5


@dataclass(frozen=True)
class Choice:
    """One ensemble among many that were tried: a set of models with equal shares, and what it scores and costs.

    `score` is on the selection split, which the choice has fitted; `test_score` on the other, None without one.
    """

    members: tuple[Name, ...]
    score: float
    test_score: float | None
    method: str  # how it was found, in words
    tried: int  # ensembles whose score was known in the end
    cost: float | None = None

    @classmethod
    def of(
        cls, setup: Setup, members: Sequence[int], score: float, method: str, tried: int, cost: float | None = None
    ) -> "Choice":
        """A choice by name; `score` counts more as better, as searches do."""
        names = tuple(setup.library.names[model] for model in members)
        return cls(names, setup.objective.sign * score, setup.test_score(members), method, tried, cost)


def partners(setup: Setup, bases: Sequence[Name] | None, resamples: int) -> "pd.DataFrame":
    """One row per base: the partner that scores best with it."""
    import pandas as pd

    names, sign, ensemble = setup.library.names, setup.objective.sign, setup.ensemble()
    starts = range(len(names)) if bases is None else [setup.library.position(name, "base") for name in bases]
    rows = []
    for base in starts:
        others = [model for model in setup.candidates if model != base]
        if not others:
            raise InputError(f"candidates: none is left beside the base {names[base]!r}")
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
            seen = curve(setup.test, [base, partner], setup.objective, keep={0, 1})
            interval = seen.gain_intervals(0, resamples, setup.seed)[1]
            row |= {"test_alone": seen.score[0], "test_pair": seen.score[1], "gain": seen.gains(0)[1], "interval": interval}
        rows.append(row)
    return pd.DataFrame(rows)


def pairs(setup: Setup) -> "pd.DataFrame":
    """[M, M] scores of every two models together, and of each alone."""
    import pandas as pd

    names, ensemble = setup.library.names, setup.ensemble()
    scores = np.zeros((len(names), len(names)))
    for first, second in itertools.combinations_with_replacement(range(len(names)), 2):
        pair = setup.by_name({first, second})
        scores[first, second] = scores[second, first] = setup.objective.sign * ensemble.score_of(pair)
    return pd.DataFrame(scores, index=list(names), columns=list(names))


def best_of_size(setup: Setup, size: int) -> Choice:
    """The best of all subsets of `size`, joined to the base."""
    pool = _pool(setup, size)
    count = math.comb(len(pool), size)
    if count > MOST_SUBSETS:
        raise InputError(
            f"size: {count} subsets of {size} among {len(pool)} are too many (limit {MOST_SUBSETS}); use greedy"
        )
    chosen: tuple[int, ...] = ()
    ensemble, best, least_loss, tried = setup.ensemble(), -math.inf, math.inf, 0
    for start, later in _all_but_one(setup, ensemble, size):
        scores = ensemble.scores(later, at_least=best)
        tried += len(later)
        if not scores:
            continue
        model = ensemble.first(scores)
        loss = ensemble.log_loss_with(model)
        if scores[model] > best + TIE or (scores[model] > best - TIE and loss < least_loss - TIE):
            best, least_loss, chosen = scores[model], loss, (*start, model)
    return Choice.of(setup, chosen, best, f"all {count} subsets of {size}", tried)


def up_to_size(setup: Setup, largest: int) -> dict[tuple[int, ...], float]:
    """The scores of every set of up to `largest` candidates, each joined to the base, and of the base alone."""
    ensemble = setup.ensemble()
    scores = {tuple(setup.base): ensemble.score_of(setup.base)} if setup.base else {}
    for size in range(1, largest + 1):
        for start, later in _all_but_one(setup, ensemble, size):
            scores |= {(*start, model): score for model, score in ensemble.scores(later, every=True).items()}
    return scores


def _all_but_one(setup: Setup, ensemble: GrowingEnsemble, size: int) -> Iterator[tuple[tuple[int, ...], list[int]]]:
    """All subsets of `size`, as those that have all but their last model in common: the ensemble then holds these."""
    pool = setup.pool
    for start in itertools.combinations(pool, size - 1):
        later = pool[pool.index(start[-1]) + 1 :] if start else pool
        if later:
            ensemble.reset([*setup.base, *start])
            yield (*setup.base, *start), later


def draws_of_size(setup: Setup, size: int, draws: int) -> "pd.DataFrame":
    """One row per random subset of `size`, joined to the base."""
    import pandas as pd

    pool = _pool(setup, size)
    at_least_one(draws=draws)
    rng, ensemble, rows = np.random.default_rng(setup.seed), setup.ensemble(), []
    for _ in range(draws):
        drawn = [*setup.base, *setup.by_name(pool[i] for i in rng.choice(len(pool), size, replace=False))]
        one = Choice.of(setup, drawn, ensemble.score_of(drawn), "random", 1)
        rows.append({"members": one.members, "selection": one.score, "test": one.test_score})
    return pd.DataFrame(rows)


def _pool(setup: Setup, size: int) -> list[int]:
    if not 1 <= size <= len(setup.pool):
        raise InputError(f"size: expected 1 to {len(setup.pool)}, the number of candidates, found {size}")
    return setup.pool


def best_under(setup: Setup, limit: float, cost: Cost, max_size: int) -> Choice:
    """The best ensemble whose costs sum to no more than `limit`."""
    at_least_one(max_size=max_size)
    costs = member_costs(setup.library, cost)
    spent = Rules(1, costs=costs).spent
    scored, method = _every_subset(setup, max_size), "every subset"
    if scored is None:
        by_gain = _on_the_way(setup, Rules(max_size, costs=costs, limit=limit))
        by_rate = _on_the_way(setup, Rules(max_size, costs=costs, limit=limit, per_cost=True))
        better = max(by_rate.values()) > max(by_gain.values()) + TIE
        scored, method = by_gain | by_rate, "greedy by gain for its cost" if better else "greedy by gain"
    allowed = {members: score for members, score in scored.items() if spent(members) <= limit}
    if not allowed:
        cheapest = min(costs[model] for model in setup.candidates)
        raise InputError(f"limit: nothing costs as little as {limit:g}; the cheapest candidate costs {cheapest:g}")
    top = max(allowed.values())
    # Of equally good ensembles the cheapest, then the smallest, then by name.
    best = min(
        (members for members, score in allowed.items() if score >= top - TIE),
        key=lambda members: (spent(members), len(members), [setup.library.names[m] for m in members]),
    )
    return Choice.of(setup, best, allowed[best], method, len(scored), spent(best))


def front(setup: Setup, cost: Cost, max_size: int) -> "pd.DataFrame":
    """One row per ensemble for which no other is both cheaper and better, from the cheapest on."""
    import pandas as pd

    at_least_one(max_size=max_size)
    costs = member_costs(setup.library, cost)
    spent = Rules(1, costs=costs).spent
    scored, method = _every_subset(setup, max_size), "every subset"
    if scored is None:
        scored, method = {}, f"greedy by gain and by gain for its cost, under {FRONT_LIMITS} limits"
        least = max(min(spent([*setup.base, model]) for model in setup.candidates), 1e-300)
        for limit in np.geomspace(least, max(least, spent(range(len(costs)))), FRONT_LIMITS):
            for per_cost in (False, True):
                # The last limit must not fall short of the whole by rounding.
                rules = Rules(max_size, costs=costs, limit=float(limit) * (1 + 1e-9), per_cost=per_cost)
                scored |= _on_the_way(setup, rules)
    rows, best = [], -math.inf
    for members in sorted(scored, key=lambda one: (spent(one), -scored[one], len(one), one)):
        if scored[members] > best + TIE:
            best = scored[members]
            one = Choice.of(setup, members, best, method, len(scored), spent(members))
            test = np.nan if one.test_score is None else one.test_score
            rows.append((one.cost, one.members, len(members), one.score, test))
    frame = pd.DataFrame(rows, columns=["cost", "members", "size", "selection", "test"])
    frame.attrs |= {"method": method, "tried": len(scored), "cost": cost if isinstance(cost, str) else "cost"}
    return frame


def _every_subset(setup: Setup, largest: int) -> Scored | None:
    """Every subset's score, or None where that is too much work."""
    pool = len(setup.pool)
    subsets = sum(math.comb(pool, size) for size in range(1, min(largest, pool) + 1))
    if subsets > MOST_PRICED or subsets * len(setup.library.labels) * setup.library.num_classes > MOST_WORK:
        return None
    return up_to_size(setup, min(largest, pool))


def _on_the_way(setup: Setup, rules: Rules) -> Scored:
    """Every ensemble a greedy search passes through."""
    found = grow(setup, rules)
    return {tuple(found.members[:size]): found.scores[size - 1] for size in range(found.start, len(found.members) + 1)}


def member_costs(library: Library, cost: Cost) -> list[float]:
    """[M] cost of each model.

    `params`: number of parameters. `flops`: floating-point operations for one image. `latency`: median milliseconds for
    one image, on this machine, now. Else a mapping by name, a sequence [M], or a function of the name.
    """
    if isinstance(cost, str):
        return [float(_measured(library, model, cost)) for model in range(len(library))]
    if isinstance(cost, Mapping):
        missing = [name for name in library.names if name not in cost]
        if missing:
            raise InputError(f"cost: none given for {missing[0]!r} ({len(missing)} of {len(library)} models)")
        costs = [float(cost[name]) for name in library.names]
    elif callable(cost):
        costs = [float(cost(name)) for name in library.names]
    else:
        costs = [float(one) for one in cost]
        if len(costs) != len(library):
            raise InputError(f"cost: expected {len(library)} figures, one per model, found {len(costs)}")
    for name, one in zip(library.names, costs, strict=True):
        if not (math.isfinite(one) and one >= 0):
            raise InputError(f"cost: that of {name!r} is {one}, expected a finite number, not negative")
    return costs


def _measured(library: Library, model: int, cost: str) -> float:
    if cost not in MEASURES:
        raise InputError(f"cost: expected one of {', '.join(MEASURES)}, a mapping, a sequence or a function, found {cost!r}")
    if library.runs is None:
        raise InputError(f"cost {cost!r} is measured on models, but the library is arrays; pass figures of your own")
    name = str(library.names[model])
    outputs = library.runs[name]
    known = outputs.details.get(cost) or (outputs.card and outputs.card.details.get(cost))  # told when it was imported
    if isinstance(known, (int, float)):
        return float(known)
    from zoo.models import registry

    return MEASURES[cost](registry.load(name, pretrained=False))


def count_parameters(model: Any) -> float:
    """The number of parameters of a zoo.Model."""
    return float(model.num_parameters)


def count_flops(model: Any) -> float:
    """Floating-point operations of a zoo.Model for one image; a multiplication and an addition are two."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        model.forward(_one_image(model))
    return float(counter.get_total_flops())


def measure_latency(model: Any) -> float:
    """Median milliseconds a zoo.Model takes for one image, after two to warm up."""
    batch, times = _one_image(model), []
    for repeat in range(LATENCY_REPEATS + 2):
        start = time.perf_counter()
        outputs = model.forward(batch)
        next(x for x in outputs if x is not None).cpu()  # an accelerator answers before it has finished
        if repeat >= 2:
            times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times)


def _one_image(model: Any) -> torch.Tensor:
    return torch.zeros((1, *model.transform.size), device=model.device)


MEASURES: dict[str, Callable[[Any], float]] = {
    "params": count_parameters, "flops": count_flops, "latency": measure_latency,
}  # fmt: skip
