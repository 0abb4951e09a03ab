"""Ensembles that cost no more than they may: the best under a limit, and the Pareto front of cost and score."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ensembles.choice import Choice, choice
from ensembles.costs import Cost, member_costs
from ensembles.exhaustive import all_subsets, subset_score
from ensembles.ground import Ground, survey
from ensembles.growing import Rules, grow
from ensembles.running import TIE
from zoo.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

# Up to so many subsets, and so many numbers in them (subsets x examples x classes), every one is tried: seconds on a core.
MOST_SUBSETS = 5_000
MOST_WORK = 2e10
# Limits at which the two greedy rules are run for the front, evenly spaced on a logarithmic scale.
FRONT_LIMITS = 12

Scored = dict[tuple[int, ...], float]


def best_within(
    probs: Any, labels: Any = None, *, limit: float, cost: Cost = "params", max_size: int = 10, **options: Any
) -> Choice:
    """The best ensemble of up to `max_size` models whose costs sum to no more than `limit`.

    `probs` [M, N, K] or Runs, and `labels` [N]. Few enough models: every subset is tried. Else the better of two greedy
    searches, by gain and by gain for its cost; `method` says which. `cost` is params, flops, latency, a mapping, a sequence
    or a function (see `member_costs`); `options` are those of `greedy`: base, candidates, objective, test_fraction, split,
    seed, device, progress.

    >>> right = np.array([[0.9, 0.8, 0.4, 0.4], [0.8, 0.9, 0.4, 0.4], [0.3, 0.4, 0.9, 0.7]])  # [M, N], for class 0
    >>> probs = np.stack([right, 1 - right], 2)
    >>> for limit in (3, 5):
    ...     best = best_within(probs, [0] * 4, limit=limit, cost=[3, 2, 3], test_fraction=0)
    ...     print(best.members, best.cost, best.score, best.method)
    (1,) 2.0 0.5 every subset
    (1, 2) 5.0 1.0 every subset
    """
    ground = survey(probs, labels, **options)
    costs = member_costs(ground.library, cost)
    spent = Rules(1, costs=costs).spent
    scored, method = _every_subset(ground, max_size), "every subset"
    if scored is None:
        by_gain = _on_the_way(ground, Rules(max_size, costs=costs, limit=limit))
        by_rate = _on_the_way(ground, Rules(max_size, costs=costs, limit=limit, per_cost=True))
        better = max(by_rate.values()) > max(by_gain.values()) + TIE
        scored, method = by_gain | by_rate, "greedy by gain for its cost" if better else "greedy by gain"
    allowed = {members: score for members, score in scored.items() if spent(members) <= limit}
    if not allowed:
        cheapest = min(costs[model] for model in ground.candidates)
        raise InputError(f"limit: nothing costs as little as {limit:g}; the cheapest candidate costs {cheapest:g}")
    top = max(allowed.values())
    # Of equally good ensembles the cheapest, then the smallest, then by name.
    best = min(
        (members for members, score in allowed.items() if score >= top - TIE),
        key=lambda members: (spent(members), len(members), [ground.library.names[m] for m in members]),
    )
    return choice(ground, best, allowed[best], method, len(scored), spent(best))


def pareto(probs: Any, labels: Any = None, *, cost: Cost = "params", max_size: int = 10, **options: Any) -> "pd.DataFrame":
    """The ensembles for which no other is both cheaper and better on the selection split, from cheap to dear.

    Columns: cost, members, size, selection, test. `frame.attrs["method"]` says whether every subset was tried or what the
    greedy searches met under a range of limits. Arguments as in `best_within`.

    >>> right = np.array([[0.9, 0.8, 0.4, 0.4], [0.8, 0.9, 0.4, 0.4], [0.3, 0.4, 0.9, 0.7]])  # [M, N], for class 0
    >>> probs = np.stack([right, 1 - right], 2)
    >>> front = pareto(probs, [0] * 4, cost=[3, 2, 3], test_fraction=0)
    >>> front[["cost", "members", "selection"]].values.tolist()
    [[2.0, (1,), 0.5], [5.0, (1, 2), 1.0]]
    """
    import pandas as pd

    ground = survey(probs, labels, **options)
    costs = member_costs(ground.library, cost)
    spent = Rules(1, costs=costs).spent
    scored, method = _every_subset(ground, max_size), "every subset"
    if scored is None:
        scored, method = {}, f"greedy by gain and by gain for its cost, under {FRONT_LIMITS} limits"
        least = max(min(spent([*ground.base, model]) for model in ground.candidates), 1e-300)
        for limit in np.geomspace(least, max(least, spent(range(len(costs)))), FRONT_LIMITS):
            for per_cost in (False, True):
                # The last limit must not fall short of the whole by rounding.
                rules = Rules(max_size, costs=costs, limit=float(limit) * (1 + 1e-9), per_cost=per_cost)
                scored |= _on_the_way(ground, rules)
    front: list[Choice] = []
    best = -math.inf
    for members in sorted(scored, key=lambda one: (spent(one), -scored[one], len(one), one)):
        if scored[members] > best + TIE:
            best = scored[members]
            front.append(choice(ground, members, best, method, len(scored), spent(members)))
    frame = pd.DataFrame(
        {
            "cost": [one.cost for one in front],
            "members": [one.members for one in front],
            "size": [len(one.members) for one in front],
            "selection": [one.score for one in front],
            "test": [np.nan if one.test_score is None else one.test_score for one in front],
        }
    )
    frame.attrs |= {"method": method, "tried": len(scored), "cost": cost if isinstance(cost, str) else "cost"}
    return frame


def _every_subset(ground: Ground, largest: int) -> Scored | None:
    """Every subset's score, the base alone among them, or None where that is too much work."""
    pool = len(set(ground.candidates) - set(ground.base))
    subsets = sum(math.comb(pool, size) for size in range(1, min(largest, pool) + 1))
    if subsets > MOST_SUBSETS or subsets * len(ground.library.labels) * ground.library.num_classes > MOST_WORK:
        return None
    ensemble = ground.ensemble()
    scored = all_subsets(ground, ensemble, min(largest, pool))
    if ground.base:
        scored[tuple(ground.base)] = subset_score(ensemble, ground.base)
    return scored


def _on_the_way(ground: Ground, rules: Rules) -> Scored:
    """Every ensemble a greedy search passes through."""
    found = grow(ground, rules)
    return {tuple(found.members[:size]): found.scores[size - 1] for size in range(found.start, len(found.members) + 1)}
