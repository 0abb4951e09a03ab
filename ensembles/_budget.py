"""What members cost, and ensembles that cost no more than they may: the best under a limit, the front of cost and score."""

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import torch

from ensembles._ensemble import TIE
from ensembles._greedy import Rules, grow
from ensembles._library import Library
from ensembles._setup import Setup, at_least_one
from ensembles._subsets import Choice, up_to_size
from zoo.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

Cost: TypeAlias = "Literal['params', 'flops', 'latency'] | Mapping[Any, float] | Sequence[float] | Callable[[Any], float]"

# Up to so many subsets, and so many numbers in them (subsets x examples x classes), every one is tried: seconds on a core.
MOST_SUBSETS = 5_000
MOST_WORK = 2e10
# Limits at which the two greedy rules are run for the front, evenly spaced on a logarithmic scale.
FRONT_LIMITS = 12
LATENCY_REPEATS = 5

Scored = dict[tuple[int, ...], float]


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
    if subsets > MOST_SUBSETS or subsets * len(setup.library.labels) * setup.library.num_classes > MOST_WORK:
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
    import zoo

    return MEASURES[cost](zoo.load(name, weights=False))


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
