"""Greedy search on the selection split: one search, or the average of several on samples of the candidates."""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ensembles.ensemble_temperature import WeightedEnsemble
from ensembles.growing_ensemble import TIE, GrowingEnsemble
from ensembles.path import Path
from ensembles.scores import chance_score, score_prefixes
from ensembles.search_setup import SearchSetup
from zoo.core import arrays
from zoo.core.progress import Bar
from zoo.errors import InputError, ZooWarning


@dataclass(frozen=True)
class Rules:
    """How a search proceeds."""

    picks: int  # models to add at most, not counting the base
    replace: bool = False
    init: int = 1
    stop_early: bool = False
    costs: Sequence[float] | None = None  # [M]
    budget: float = math.inf  # maximum cost of the ensemble; a model that is picked twice counts once
    per_cost: bool = False  # whether to pick the best gain divided by cost, instead of the best gain

    def cost_of(self, members: Sequence[int]) -> float:
        """Return the cost of an ensemble."""
        return 0.0 if self.costs is None else math.fsum(self.costs[model] for model in set(members))

    def affordable(self, candidates: Sequence[int], members: Sequence[int]) -> list[int]:
        """Return the candidates that keep the ensemble within the budget."""
        if self.costs is None or math.isinf(self.budget):
            return list(candidates)
        return [model for model in candidates if self.cost_of([*members, model]) <= self.budget]


@dataclass(frozen=True, eq=False)
class SearchResult:
    """Members in order, by position, with their scores on the selection split (higher is better)."""

    members: list[int]
    scores: list[float]
    start: int  # number of members at the start
    best: int  # number of members of the best ensemble
    ended: str  # why no more members were added: steps, candidates, budget, gain, bags
    weights: list[float] | None = None
    bags: tuple["SearchResult", ...] = ()


def find_path(
    setup: SearchSetup, rules: Rules, bags: int, bag_fraction: float, resamples: int, settings: dict[str, Any]
) -> Path:
    """Return the path of one search, or of the average of `bags` searches. Warn if its gain on the test split is noise."""
    with Bar("searching", max(1, bags) * rules.picks, setup.progress) as bar:
        if bags:
            result = search_bags(setup, rules, bags, bag_fraction, bar.advance)
        else:
            result = search(setup, rules, advance=bar.advance)
    path = _to_path(result, setup, rules, setup.settings | settings | {"ended": result.ended}, resamples)
    if path.within_noise:
        warnings.warn(f"{path.noise()}; the search may have fitted the selection split only", ZooWarning, stacklevel=4)
    return path


def search(
    setup: SearchSetup,
    rules: Rules,
    candidates: Sequence[int] | None = None,
    ensemble: GrowingEnsemble | None = None,
    advance: Callable[[], None] = lambda: None,
) -> SearchResult:
    """Return the result of one search. `ensemble` is reused if given; `advance` is called after each pick."""
    if rules.init > 1 and setup.base:
        raise InputError("cannot be combined with a base", argument="init", found=rules.init, hint="Leave one of them out")
    ensemble = ensemble or setup.empty_ensemble()
    ensemble.reset()
    scores = []
    for model in setup.base:
        scores.append(ensemble.score_with(model))
        ensemble.add(model)
    if rules.cost_of(ensemble.members) > rules.budget:
        expected = f"at least the cost of the base, {rules.cost_of(ensemble.members):g}"
        raise InputError(argument="budget", expected=expected, found=rules.budget)
    remaining = list(setup.candidates if candidates is None else candidates)
    if not rules.replace:
        remaining = [model for model in remaining if model not in setup.base]
    opening = _best_single_models(ensemble, remaining, min(rules.init, rules.picks)) if rules.init > 1 else []
    ended = "steps"
    for pick in range(rules.picks):
        affordable = rules.affordable(remaining, ensemble.members)
        if not affordable:
            ended = "budget" if remaining else "candidates"
            break
        if pick < len(opening):
            model = opening[pick]
            score = ensemble.score_with(model)
        else:
            model, score = _pick(setup, rules, ensemble, affordable, scores[-1] if scores else None)
            if rules.stop_early and scores and score <= scores[-1] + TIE:
                ended = "gain"
                break
        ensemble.add(model)
        scores.append(score)
        if not rules.replace:
            remaining.remove(model)
        advance()
    if not scores:
        cheapest = min(rules.cost_of([model]) for model in remaining)
        expected = f"at least the cost of the cheapest candidate, {cheapest:g}"
        raise InputError(argument="budget", expected=expected, found=rules.budget)
    start = max(1, len(setup.base))
    top = max(scores[start - 1 :])
    best = next(i + 1 for i in range(start - 1, len(scores)) if scores[i] >= top - TIE)
    return SearchResult(list(ensemble.members), scores, start, best, ended)


def _pick(
    setup: SearchSetup, rules: Rules, ensemble: GrowingEnsemble, candidates: Sequence[int], current: float | None
) -> tuple[int, float]:
    if not rules.per_cost:
        return ensemble.best(candidates)
    before = chance_score(setup.objective, setup.library.num_classes) if current is None else current
    cost_before = rules.cost_of(ensemble.members)
    scores = ensemble.scores(candidates, every=True)
    rates = {}
    for model, score in scores.items():
        added_cost = rules.cost_of([*ensemble.members, model]) - cost_before
        gain = score - before
        # A free model that helps comes first. Models that do not help are ranked by their gain alone.
        rates[model] = gain if gain <= 0 else math.inf if added_cost <= 0 else gain / added_cost
    model = ensemble.break_ties(rates)
    return model, scores[model]


def _best_single_models(ensemble: GrowingEnsemble, candidates: Sequence[int], count: int) -> list[int]:
    """Return the `count` best single models in order, with ties broken as in the search."""
    scores = ensemble.scores(candidates, every=True)
    order: list[int] = []
    while scores and len(order) < count:
        order.append(ensemble.break_ties(scores))
        del scores[order[-1]]
    return order


def search_bags(
    setup: SearchSetup, rules: Rules, bags: int, bag_fraction: float, advance: Callable[[], None] = lambda: None
) -> SearchResult:
    """Return the averaged weights of searches on samples of the candidates; members by descending weight, then by name."""
    if not 0 < bag_fraction <= 1:
        raise InputError(argument="bag_fraction", expected="above 0 and at most 1", found=bag_fraction)
    names, rng, ensemble = setup.library.names, np.random.default_rng(setup.seed), setup.empty_ensemble()
    pool = setup.by_name(setup.candidates)  # the samples must not depend on the order of the models
    size = max(1, round(bag_fraction * len(pool)))
    results = []
    for _ in range(bags):
        sample = [pool[i] for i in rng.choice(len(pool), size, replace=False)]
        results.append(search(setup, rules, sample, ensemble, advance))
    weight: dict[int, float] = {}
    for one in results:
        for model in one.members[: one.best]:
            weight[model] = weight.get(model, 0) + 1 / (one.best * bags)
    # Weights that differ by rounding only are equal, so that names decide.
    members = sorted(weight, key=lambda model: (-round(weight[model], 12), names[model]))
    weights = [weight[model] for model in members]
    prefixes = score_prefixes(setup.library, members, setup.objective, weights)
    scores = [setup.objective.sign * score for score in prefixes.score]
    return SearchResult(members, scores, 1, len(members), "bags", weights, tuple(results))


def _to_path(
    result: SearchResult,
    setup: SearchSetup,
    rules: Rules,
    settings: dict[str, Any],
    resamples: int,
    evaluate: bool = True,
) -> Path:
    """Return a search's result by name. With `evaluate`, it is scored on the test split, if any, and can be calibrated."""
    names, members = setup.library.names, result.members
    weights = np.zeros(len(names))
    np.add.at(weights, members[: result.best], result.weights or 1.0)
    weights /= math.fsum(weights)  # exact, so that the order of the models does not matter
    return Path(
        members=[names[model] for model in members],
        score=[setup.objective.sign * score for score in result.scores],
        weights={str(names[m]): float(weights[m]) for m in np.flatnonzero(weights)}
        if isinstance(names[0], str)
        else weights,
        best=result.best,
        start=result.start,
        objective=setup.objective.name,
        costs=None if rules.costs is None else [rules.cost_of(members[: i + 1]) for i in range(len(members))],
        settings=settings,
        bags=tuple(_to_path(bag, setup, rules, settings, resamples, evaluate=False) for bag in result.bags),
        runs=setup.library.runs,
        best_ensemble=_best_ensemble(result, setup) if evaluate else None,
        **(_evaluate(result, setup, resamples) if evaluate and setup.test is not None else {}),
    )


def _best_ensemble(result: SearchResult, setup: SearchSetup) -> WeightedEnsemble:
    weights = (result.weights or [1.0] * result.best)[: result.best]
    return WeightedEnsemble(setup.library, setup.test, result.members[: result.best], weights, setup.seed)


def _evaluate(result: SearchResult, setup: SearchSetup, resamples: int) -> dict[str, Any]:
    """Return the fields of a path that come from the test split."""
    test, first, last = setup.test, result.start - 1, result.best - 1
    assert test is not None
    prefixes = score_prefixes(test, result.members, setup.objective, result.weights, {first, last})
    return {
        "test_score": prefixes.score,
        "test_gains": prefixes.gains(first),
        "intervals": prefixes.gain_intervals(first, resamples, setup.seed),
        "test_correct": arrays.to_numpy(prefixes.correct),
        "ece": prefixes.ece,
    }
