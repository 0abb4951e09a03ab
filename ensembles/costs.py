"""Costs of models (parameters, FLOPs, latency or custom) and budgets."""

import math
import re
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, cast

import torch

from ensembles.model_library import ModelLibrary
from zoo.core.units import UNITS
from zoo.errors import InputError

if TYPE_CHECKING:
    from zoo.models.model import Model

Cost: TypeAlias = "Literal['params', 'flops', 'latency'] | Mapping[Any, float] | Sequence[float] | Callable[[Any], float]"
Budget: TypeAlias = float | str

COST_TITLES = {"params": "parameters", "flops": "FLOPs", "latency": "milliseconds per image"}
LATENCY_REPEATS = 5
_BUDGET = re.compile(r"(\d+\.?\d*|\.\d+)\s*([kKMGBT])")
_BUDGET_UNITS = UNITS | {"K": UNITS["k"], "B": UNITS["G"]}


def parse_budget(budget: Budget | None, argument: str = "budget") -> float:
    """Return a budget as a number: text such as "2M", "1.5G" or "300k" is converted, None is no limit.

    >>> parse_budget("2M"), parse_budget("300k"), parse_budget(5), parse_budget(None)
    (2000000.0, 300000.0, 5.0, inf)
    """
    if budget is None:
        return math.inf
    match = _BUDGET.fullmatch(budget.strip()) if isinstance(budget, str) else None
    try:
        number = float(match[1]) * _BUDGET_UNITS[match[2]] if match else float(budget)
    except (TypeError, ValueError):
        number = math.nan
    if not number >= 0:
        raise InputError(argument=argument, expected="a number of at least 0, such as 5000000, 2M or 1.5G", found=budget)
    return number


def member_costs(library: ModelLibrary, cost: Cost) -> list[float]:
    """Return the cost [M] of each model.

    Args:
        library: the models.
        cost: `params` (number of parameters), `flops` (floating-point operations for one image), `latency` (median
            milliseconds for one image, measured now on this machine), or custom: a mapping by name, [M] numbers, or a
            function of the name.
    """
    if isinstance(cost, str):
        if cost not in _MEASURES:
            expected = f"{', '.join(_MEASURES)}, a mapping, {len(library)} numbers or a function"
            raise InputError(argument="cost", expected=expected, found=cost)
        costs: list[Any] = [_measured(library, model, cost) for model in range(len(library))]
    elif isinstance(cost, Mapping):
        missing = [name for name in library.names if name not in cost]
        if missing:
            problem = f"has no cost for {missing[0]!r} ({len(missing)} of {len(library)} models are missing)"
            raise InputError(problem, argument="cost")
        costs = [cost[name] for name in library.names]
    else:
        costs = [cost(name) for name in library.names] if callable(cost) else list(cost)
        if len(costs) != len(library):
            raise InputError(argument="cost", expected=f"{len(library)} numbers, one per model", found=len(costs))
    return [_checked(one, library.describe(model)) for model, one in enumerate(costs)]


def _checked(cost: Any, where: str) -> float:
    try:
        number = float(cost)
    except (TypeError, ValueError):
        number = math.nan
    if not (math.isfinite(number) and number >= 0):
        raise InputError(where=where, argument="cost", expected="a finite number of at least 0", found=cost)
    return number


def _measured(library: ModelLibrary, model: int, cost: str) -> float:
    if library.runs is None:
        raise InputError(
            f"{cost} can be measured for models only, not for arrays",
            argument="cost",
            found=cost,
            hint="Pass one number per model",
        )
    name = str(library.names[model])
    outputs = library.runs[name]
    imported = outputs.details.get(cost) or (outputs.card and outputs.card.details.get(cost))
    if isinstance(imported, (int, float)):
        return float(imported)
    from zoo.models import registry

    if not registry.is_name(name):
        raise InputError(
            f"{cost} is unknown, because only outputs were imported",
            where=name,
            argument="cost",
            hint=f"Import them with a table that has a column {cost}: `zoo import --meta TABLE`",
        )
    return _MEASURES[cost](registry.load(name, pretrained=False))


def count_parameters(model: "Model") -> float:
    """Return the number of parameters of a model."""
    return float(model.num_parameters)


def count_flops(model: "Model") -> float:
    """Return the floating-point operations of a model for one image; a multiplication and an addition are two."""
    from torch.utils.flop_counter import FlopCounterMode

    with FlopCounterMode(display=False) as counter:
        model.forward(_one_image(model))
    return float(counter.get_total_flops())


def measure_latency(model: "Model") -> float:
    """Return the median milliseconds that a model takes for one image, after two to warm up."""
    batch, times = _one_image(model), []
    for repeat in range(LATENCY_REPEATS + 2):
        start = time.perf_counter()
        outputs = model.forward(batch)
        next(x for x in outputs if x is not None).cpu()  # waits for an accelerator, which computes asynchronously
        if repeat >= 2:
            times.append((time.perf_counter() - start) * 1000)
    return statistics.median(times)


def _one_image(model: "Model") -> torch.Tensor:
    return torch.zeros((1, *cast(Any, model.transform).size), device=model.device)


_MEASURES: dict[str, Callable[["Model"], float]] = {
    "params": count_parameters, "flops": count_flops, "latency": measure_latency,
}  # fmt: skip
