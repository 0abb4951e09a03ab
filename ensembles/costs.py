"""What a member costs: parameters, FLOPs, measured latency, or a figure of one's own."""

import math
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, TypeAlias

from ensembles.library import Library, Name
from zoo.errors import InputError

CostName: TypeAlias = Literal["params", "flops", "latency"]
Cost: TypeAlias = "CostName | Mapping[Any, float] | Sequence[float] | Callable[[Any], float]"

LATENCY_REPEATS = 5


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
            raise InputError(f"cost: expected {len(library)} figures, one a model, found {len(costs)}")
    for name, one in zip(library.names, costs, strict=True):
        if not (math.isfinite(one) and one >= 0):
            raise InputError(f"cost: that of {name!r} is {one}, expected a finite number, not negative")
    return costs


def _measured(library: Library, model: int, cost: str) -> float:
    if cost not in MEASURES:
        raise InputError(f"cost: expected one of {', '.join(MEASURES)}, a mapping, a sequence or a function, found {cost!r}")
    name: Name = library.names[model]
    if library.runs is None:
        raise InputError(f"cost {cost!r} is measured on models, but the library is arrays; pass figures of your own")
    outputs = library.runs[str(name)]
    known = outputs.details.get(cost) or (outputs.card and outputs.card.details.get(cost))  # told when it was imported
    if isinstance(known, (int, float)):
        return float(known)
    import zoo

    return MEASURES[cost](zoo.load(str(name), weights=False))


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


def _one_image(model: Any) -> Any:
    import torch

    return torch.zeros((1, *model.transform.size), device=model.device)


MEASURES: dict[str, Callable[[Any], float]] = {
    "params": count_parameters, "flops": count_flops, "latency": measure_latency,
}  # fmt: skip
