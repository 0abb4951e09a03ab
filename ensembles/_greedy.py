"""Growing an ensemble on the selection split: one search, and the average of several on samples of the candidates."""

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ensembles._ensemble import TIE, GrowingEnsemble
from ensembles._library import Library
from ensembles._path import Path
from ensembles._scores import chance_score, curve
from ensembles._setup import Setup
from zoo.core.progress import Bar
from zoo.errors import InputError, ZooWarning


@dataclass(frozen=True)
class Rules:
    """How a search goes on. `costs` [M] and `limit`: no ensemble may cost more, a model picked twice costing once."""

    picks: int  # the base is not one of them
    replace: bool = False
    init: int = 1
    stop_early: bool = False
    costs: Sequence[float] | None = None
    limit: float = math.inf
    per_cost: bool = False  # the best gain for its cost, instead of the best gain

    def spent(self, members: Sequence[int]) -> float:
        """The cost of an ensemble."""
        return 0.0 if self.costs is None else math.fsum(self.costs[model] for model in set(members))

    def affordable(self, candidates: Sequence[int], members: Sequence[int]) -> list[int]:
        """The candidates that leave the ensemble within the limit."""
        if self.costs is None or math.isinf(self.limit):
            return list(candidates)
        return [model for model in candidates if self.spent([*members, model]) <= self.limit]


@dataclass(frozen=True, eq=False)
class Found:
    """Members in order, with their scores on the selection split (more is better), and how many are worth taking."""

    members: list[int]
    scores: list[float]
    start: int
    best: int
    ended: str  # why no more were added: steps, candidates, budget, gain
    weights: list[float] | None = None
    bags: tuple["Found", ...] = ()


def find_path(setup: Setup, rules: Rules, bags: int, fraction: float, resamples: int, settings: dict[str, Any]) -> Path:
    """One search, or the average of `bags`, with its curve on the test split; a gain within noise is warned of."""
    with Bar("searching", max(1, bags) * rules.picks, setup.progress) as bar:
        found = grow_bags(setup, rules, bags, fraction, bar.advance) if bags else grow(setup, rules, advance=bar.advance)
    settings = setup.settings | settings | {"ended": found.ended}
    path = _report(found, setup, setup.test, rules, settings, resamples)
    if path.within_noise:
        warnings.warn(f"{path.noise()}; the picks may only fit the selection split", ZooWarning, stacklevel=4)
    return path


def grow(
    setup: Setup,
    rules: Rules,
    candidates: Sequence[int] | None = None,
    ensemble: GrowingEnsemble | None = None,
    advance: Callable[[], None] = lambda: None,
) -> Found:
    """One search. `ensemble` is one to use again; `advance` is called after each pick."""
    if rules.init > 1 and setup.base:
        raise InputError(f"init: a sorted start of {rules.init} models leaves no place for a base; give one of the two")
    ensemble = ensemble or setup.ensemble()
    ensemble.reset()
    scores = []
    for model in setup.base:
        scores.append(ensemble.score_with(model))
        ensemble.add(model)
    if rules.spent(ensemble.members) > rules.limit:
        raise InputError(f"budget: the base alone costs {rules.spent(ensemble.members):g}, the limit is {rules.limit:g}")
    left = list(setup.candidates if candidates is None else candidates)
    if not rules.replace:
        left = [model for model in left if model not in setup.base]
    opening = _sorted_start(ensemble, left, min(rules.init, rules.picks)) if rules.init > 1 else []
    ended = "steps"
    for pick in range(rules.picks):
        open_to = rules.affordable(left, ensemble.members)
        if not open_to:
            ended = "budget" if left else "candidates"
            break
        if pick < len(opening):
            model = opening[pick]
            score = ensemble.score_with(model)
        else:
            model, score = _pick(setup, rules, ensemble, open_to, scores[-1] if scores else None)
            if rules.stop_early and scores and score <= scores[-1] + TIE:
                ended = "gain"
                break
        ensemble.add(model)
        scores.append(score)
        if not rules.replace:
            left.remove(model)
        advance()
    if not scores:
        cheapest = min(rules.spent([model]) for model in left)
        raise InputError(f"budget: the cheapest candidate costs {cheapest:g}, the limit is {rules.limit:g}")
    start = max(1, len(setup.base))
    top = max(scores[start - 1 :])
    best = next(i + 1 for i in range(start - 1, len(scores)) if scores[i] >= top - TIE)
    return Found(list(ensemble.members), scores, start, best, ended)


def _pick(
    setup: Setup, rules: Rules, ensemble: GrowingEnsemble, candidates: Sequence[int], current: float | None
) -> tuple[int, float]:
    if not rules.per_cost:
        return ensemble.best(candidates)
    before = chance_score(setup.objective, setup.library.num_classes) if current is None else current
    spent = rules.spent(ensemble.members)
    scores = ensemble.scores(candidates, every=True)
    rates = {}
    for model, score in scores.items():
        price = rules.spent([*ensemble.members, model]) - spent
        gain = score - before
        # What costs nothing comes first if it helps; a loss is worth its size, whatever it costs.
        rates[model] = gain if gain <= 0 else math.inf if price <= 0 else gain / price
    model = ensemble.first(rates)
    return model, scores[model]


def _sorted_start(ensemble: GrowingEnsemble, candidates: Sequence[int], count: int) -> list[int]:
    """The `count` best single models, under the search's own rule."""
    alone = ensemble.scores(candidates, every=True)
    order: list[int] = []
    while alone and len(order) < count:
        order.append(ensemble.first(alone))
        del alone[order[-1]]
    return order


def grow_bags(setup: Setup, rules: Rules, bags: int, fraction: float, advance: Callable[[], None] = lambda: None) -> Found:
    """Several searches on samples of the candidates, their weights averaged; members by falling weight, then by name."""
    if bags < 1 or not 0 < fraction <= 1:
        raise InputError(f"bags: expected at least 1, of a bag_fraction in (0, 1], found {bags} and {fraction}")
    names, rng, ensemble = setup.library.names, np.random.default_rng(setup.seed), setup.ensemble()
    pool = setup.by_name(setup.candidates)  # the draw must not depend on the order given
    size = max(1, round(fraction * len(pool)))
    found = []
    for _ in range(bags):
        sample = [pool[i] for i in rng.choice(len(pool), size, replace=False)]
        found.append(grow(setup, rules, sample, ensemble, advance))
    share: dict[int, float] = {}
    for one in found:
        for model in one.members[: one.best]:
            share[model] = share.get(model, 0) + 1 / (one.best * bags)
    # Shares that differ by rounding alone are equal, so that names decide.
    members = sorted(share, key=lambda model: (-round(share[model], 12), names[model]))
    weights = [share[model] for model in members]
    scores = [setup.objective.sign * score for score in curve(setup.library, members, setup.objective, weights).score]
    return Found(members, scores, 1, len(members), "bags", weights, tuple(found))


def _report(
    found: Found, setup: Setup, test: Library | None, rules: Rules, settings: dict[str, Any], resamples: int
) -> Path:
    """What was found, by name, with the test curve and the interval of the gain."""
    names, sign = setup.library.names, setup.objective.sign
    test_score = gains = intervals = None
    if test is not None:
        first, last = found.start - 1, found.best - 1
        seen = curve(test, found.members, setup.objective, found.weights, {first, last})
        test_score, gains = seen.score, seen.gains(first)
        intervals = seen.gain_intervals(first, resamples, setup.seed)
    shares = np.zeros(len(names))
    np.add.at(shares, found.members[: found.best], found.weights or 1.0)
    shares /= shares.sum()
    return Path(
        members=[names[model] for model in found.members],
        score=[sign * score for score in found.scores],
        test_score=test_score,
        weights={str(names[m]): float(shares[m]) for m in np.flatnonzero(shares)} if isinstance(names[0], str) else shares,
        best=found.best,
        start=found.start,
        objective=setup.objective.name,
        test_gains=gains,
        intervals=intervals,
        costs=None if rules.costs is None else [rules.spent(found.members[: i + 1]) for i in range(len(found.members))],
        settings=settings,
        bags=tuple(_report(bag, setup, None, rules, settings, resamples) for bag in found.bags),
        runs=setup.library.runs,
    )
