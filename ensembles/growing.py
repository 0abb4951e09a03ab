"""Growing an ensemble on the selection split: one search, and the average of several on samples of the candidates."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from ensembles.evaluation import curve
from ensembles.ground import Ground
from ensembles.running import TIE, RunningEnsemble
from ensembles.scores import chance_score
from zoo.errors import InputError


@dataclass(frozen=True)
class Rules:
    """How a search goes on. `costs` [M] and `limit`: no ensemble may cost more, a model picked twice costing once."""

    steps: int
    replace: bool = False
    init: int = 1
    stop_early: bool = False
    costs: Sequence[float] | None = None
    limit: float = math.inf
    per_cost: bool = False  # the best gain for its cost, instead of the best gain

    def __post_init__(self) -> None:
        if self.steps < 1:
            raise InputError(f"steps: expected at least 1, found {self.steps}")
        if self.init < 1:
            raise InputError(f"init: expected at least 1, found {self.init}")

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
    weights: list[float] | None = None
    bags: tuple["Found", ...] = ()


def grow(
    ground: Ground,
    rules: Rules,
    candidates: Sequence[int] | None = None,
    ensemble: RunningEnsemble | None = None,
    advance: Callable[[], None] = lambda: None,
) -> Found:
    """One search. `ensemble` is one to use again; `advance` is called after each pick."""
    if rules.init > 1 and ground.base:
        raise InputError(f"init: a sorted start of {rules.init} models leaves no place for a base; give one of the two")
    ensemble = ensemble or ground.ensemble()
    ensemble.reset()
    scores = []
    for model in ground.base:
        scores.append(ensemble.score_with(model))
        ensemble.add(model)
    if rules.spent(ensemble.members) > rules.limit:
        raise InputError(f"budget: the base alone costs {rules.spent(ensemble.members):g}, the limit is {rules.limit:g}")
    left = list(ground.candidates if candidates is None else candidates)
    if not rules.replace:
        left = [model for model in left if model not in ground.base]
    if not left and not ground.base:
        raise InputError("candidates: expected at least one, found none")
    opening = _sorted_start(ensemble, left, min(rules.init, rules.steps)) if rules.init > 1 else []
    for step in range(rules.steps):
        open_to = rules.affordable(left, ensemble.members)
        if not open_to:
            break
        if step < len(opening):
            model = opening[step]
            score = ensemble.score_with(model)
        else:
            model, score = _pick(ground, rules, ensemble, open_to, scores[-1] if scores else None)
            if rules.stop_early and scores and score <= scores[-1] + TIE:
                break
        ensemble.add(model)
        scores.append(score)
        if not rules.replace:
            left.remove(model)
        advance()
    if not scores:
        cheapest = min(rules.spent([model]) for model in left)
        raise InputError(f"budget: the cheapest candidate costs {cheapest:g}, the limit is {rules.limit:g}")
    start = max(1, len(ground.base))
    top = max(scores[start - 1 :])
    best = next(i + 1 for i in range(start - 1, len(scores)) if scores[i] >= top - TIE)
    return Found(list(ensemble.members), scores, start, best)


def _pick(
    ground: Ground, rules: Rules, ensemble: RunningEnsemble, candidates: Sequence[int], current: float | None
) -> tuple[int, float]:
    if not rules.per_cost or rules.costs is None:
        return ensemble.best(candidates)
    before = chance_score(ground.objective, ground.library.num_classes) if current is None else current
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


def _sorted_start(ensemble: RunningEnsemble, candidates: Sequence[int], count: int) -> list[int]:
    """The `count` best single models, under the search's own rule."""
    alone = ensemble.scores(candidates, every=True)
    order: list[int] = []
    while alone and len(order) < count:
        order.append(ensemble.first(alone))
        del alone[order[-1]]
    return order


def grow_bags(
    ground: Ground, rules: Rules, bags: int, fraction: float, seed: int, advance: Callable[[], None] = lambda: None
) -> Found:
    """Several searches on samples of the candidates, their weights averaged; members by falling weight, then by name."""
    if bags < 1 or not 0 < fraction <= 1:
        raise InputError(f"bags: expected at least 1, of a bag_fraction in (0, 1], found {bags} and {fraction}")
    names, rng, ensemble = ground.library.names, np.random.default_rng(seed), ground.ensemble()
    pool = sorted(ground.candidates, key=lambda model: names[model])  # the draw must not depend on the order given
    size = max(1, round(fraction * len(pool)))
    found = []
    for _ in range(bags):
        sample = [pool[i] for i in rng.choice(len(pool), size, replace=False)]
        found.append(grow(ground, rules, sample, ensemble, advance))
    share: dict[int, float] = {}
    for one in found:
        for model in one.members[: one.best]:
            share[model] = share.get(model, 0) + 1 / (one.best * bags)
    # Shares that differ by rounding alone are equal, so that names decide.
    members = sorted(share, key=lambda model: (-round(share[model], 12), names[model]))
    weights = [share[model] for model in members]
    scores = [ground.objective.sign * score for score in curve(ground.library, members, ground.objective, weights).score]
    return Found(members, scores, 1, len(members), weights, tuple(found))
