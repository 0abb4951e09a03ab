"""Fitting a temperature: `fit_temperature` for one model, `fit_temperatures` for many."""

import math
import os
import warnings
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any, get_args

from zoo.calibration.likelihood import MAX_TEMPERATURE, MIN_TEMPERATURE, Evaluation, Likelihood, Point, solve
from zoo.calibration.metrics import bin_counts, binned_error, reliability_frame
from zoo.calibration.minimiser import (
    HIGH,
    LOW,
    SMALL_TOLERANCE,
    TOLERANCE,
    Bracket,
    Minimum,
    descend,
    minimum,
    plateau,
    rule_of_succession,
)
from zoo.core import arrays, checks
from zoo.core.arrays import Array
from zoo.core.backend import MAX_NUMPY, backend, cast, is_tensor, to_accumulation_dtype
from zoo.core.columns import Column
from zoo.core.links import distributed, log_sigmoid
from zoo.core.threads import threads_for
from zoo.core.types import Link, TemperatureSpace
from zoo.errors import InputError, ZooWarning

if TYPE_CHECKING:
    import pandas as pd
    import torch

# Logits of all models of a call up to this size are copied to an accelerator once; larger ones are streamed in every pass.
MAX_RESIDENT_BYTES = 2**31


@dataclass(frozen=True)
class TemperatureFit:
    """A fitted temperature, with the metrics at T = 1 (before) and at this temperature (after) on the data of the fit."""

    temperature: float
    link: Link
    examples: int
    nll_before: float
    nll_after: float
    ece_before: float
    ece_after: float
    brier_before: float
    brier_after: float
    at_bound: bool = False  # the NLL has no minimum, and the temperature is where a bound stopped the search
    note: str = ""  # why the temperature is at a bound, or was left at 1
    passes: int = 0  # over all the data
    temperature_space: TemperatureSpace = "logits"  # what the temperature divides if the link is a sigmoid
    bins: tuple[Any, Any] | None = field(default=None, repr=False, compare=False)  # `bin_counts` before and after

    def reliability(self) -> "pd.DataFrame":
        """Return the reliability diagrams before and after as one table; the column `when` tells them apart."""
        import pandas as pd

        if self.bins is None:
            raise InputError("this fit was read from a file, which has no reliability diagram", hint="Fit again")
        frames = [reliability_frame(counts) for counts in self.bins]
        return pd.concat(frames, keys=["before", "after"], names=["when", None]).reset_index("when")

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the reliability diagrams, as stored in a manifest."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "bins"}


def fit_temperature(
    logits: Array | Column,
    labels: Array,
    link: Link = "softmax",
    name: str = "logits",
    temperature_space: TemperatureSpace = "logits",
    weights: Array | None = None,
    device: "torch.device | str | None" = None,
) -> TemperatureFit:
    """Return the temperature T that minimises the mean NLL of `logits` / T.

    The result is exact for all the data: a sample gives the start, and usually two passes over everything do the rest, in
    chunks that fit the cache and with sums in float64. Memory-mapped blocks are streamed.

    Some data have no best temperature. T then stops at a bound, with a warning and a `note`:

    - labels that are no likelier than chance: 10,000;
    - every label has the highest logit: where the NLL is log((N + 2)/(N + 1)), the lowest that N examples without an error
      support by the rule of succession, or T = 1 if the NLL is lower there;
    - sigmoids that saturate with some labels wrong: where the plateau begins;
    - a constant NLL, as of constant logits: T = 1.

    Args:
        logits: [N, K]. Minus infinity marks a masked class.
        labels: [N] true class indices.
        link: how logits become probabilities.
        name: the name of the logits in error messages.
        temperature_space: what T divides if the link is a sigmoid: the logits, or the logarithm of the distribution that the
            sigmoids make, which gives p^(1/T), normalised.
        weights: [N] weight of each example in the fit and in the metrics, above 0; default 1.
        device: where to compute; default: where the logits are. NumPy computes up to 2^20 logits that are not a tensor.

    >>> import math
    >>> import numpy as np
    >>> z = np.array([[2.0, 0.0], [0.0, 2.0], [2.0, 0.0], [0.0, 2.0]])
    >>> fit = fit_temperature(z, [0, 1, 0, 0])  # right in 3 of 4 cases, so that log 3 is the calibrated logit
    >>> round(2 / fit.temperature, 4) == round(math.log(3), 4)
    True
    """
    with threads_for(_elements(logits)):
        (fit,) = solve([_Problem(logits, labels, link, name, temperature_space, weights, device).fit()])
    if fit.note:
        warnings.warn(f"{name}: {fit.note}", ZooWarning, stacklevel=2)
    return fit


def fit_temperatures(
    models: Mapping[str, Array | Column] | Iterable[Array | Column],
    labels: Array,
    link: Link | Mapping[str, Link] = "softmax",
    temperature_space: TemperatureSpace = "logits",
    device: "torch.device | str | None" = None,
) -> dict[str, TemperatureFit]:
    """Return `fit_temperature` of many models on the same examples.

    All models are fitted together: each iteration waits for an accelerator once, and on the CPU the models share the cores.

    Args:
        models: logits [N, K] by name, or a list or array [M, N, K], whose models are named by number.
        labels: [N] true class indices.
        link: how logits become probabilities, for all models or by name.
        temperature_space: as in `fit_temperature`.
        device: as in `fit_temperature`.

    >>> import numpy as np
    >>> z = np.array([[2.0, 0.0], [0.0, 2.0], [2.0, 0.0], [0.0, 2.0]])
    >>> {name: round(fit.temperature, 3) for name, fit in fit_temperatures({"a": z, "b": 3 * z}, [0, 1, 0, 0]).items()}
    {'a': 1.82, 'b': 5.461}
    """
    named = models if isinstance(models, Mapping) else {str(i): logits for i, logits in enumerate(models)}
    y = checks.labels(labels)
    links = dict.fromkeys(named, link) if isinstance(link, str) else link
    problems = [
        _Problem(logits, y, links[name], f"{name} logits", temperature_space, device=device, models=len(named))
        for name, logits in named.items()
    ]
    fits = _solve_all(problems)
    for name, fit in zip(named, fits, strict=True):
        if fit.note:
            warnings.warn(f"{name}: {fit.note}", ZooWarning, stacklevel=2)
    return dict(zip(named, fits, strict=True))


def refit_temperature(
    logits: Array | Column, labels: Array, fit: TemperatureFit, device: "torch.device | str | None" = None
) -> float:
    """Return the temperature fitted to a part of the data of `fit`, starting Newton's method from that fit.

    If the part moves the temperature by a factor of two or more, or has no proper minimum, the search starts afresh.
    """
    problem = _Problem(logits, labels, fit.link, "logits", fit.temperature_space, device=device)
    with threads_for(_elements(logits)):
        if not fit.note:
            start = -math.log(fit.temperature)
            near = Bracket(start - math.log(2), start + math.log(2))
            (found,) = solve([descend(problem.likelihood(), start, SMALL_TOLERANCE, near)])
            if near.first < found < near.last:
                return math.exp(-found)
        (again,) = solve([problem.fit()])
        return again.temperature


def _solve_all(problems: "list[_Problem]") -> list[TemperatureFit]:
    """Solve the problems in lockstep, or large ones on the CPU in parallel threads of one core each."""
    on_cpu = not any(_on_accelerator(one.logits) or not _is_cpu(one.device) for one in problems)
    elements = max((_elements(one.logits) for one in problems), default=0)
    if not (on_cpu and elements > MAX_NUMPY and len(problems) > 1):
        with threads_for(elements):
            return solve([problem.fit() for problem in problems])
    import torch

    workers = min(len(problems), torch.get_num_threads(), os.cpu_count() or 1)
    with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
        return [fits[0] for fits in pool.map(lambda problem: solve([problem.fit()]), problems)]


def _on_accelerator(logits: Array | Column) -> bool:
    first = logits.blocks[0] if isinstance(logits, Column) else logits
    return is_tensor(first) and not _is_cpu(first.device)


def _is_cpu(device: "torch.device | str | None") -> bool:
    return str(device or "cpu").startswith("cpu")


def _elements(logits: Array | Column) -> int:
    shape = getattr(logits, "shape", (0,))
    return int(shape[0]) * int(shape[-1])


@dataclass(frozen=True)
class _Problem:
    """The checked arguments of one fit."""

    logits: Array | Column
    labels: Array
    link: Link
    name: str
    temperature_space: TemperatureSpace
    weights: Array | None = None
    device: "torch.device | str | None" = None
    models: int = 1  # number of models that are fitted together, and share the memory of an accelerator

    def fit(self) -> "Evaluation[TemperatureFit]":
        """Return `fit_temperature` as a generator for `solve`."""
        likelihood = self.likelihood()
        found = yield from minimum(likelihood)
        before = found.before
        after, note, at_bound = yield from _settle(likelihood, found)
        correct = likelihood.correct(after)
        bins = [bin_counts(point.confidence, correct, weights=likelihood.weights) for point in (before, after)]
        return TemperatureFit(
            temperature=_temperature(after),
            link=self.link,
            examples=len(likelihood),
            nll_before=before.nll,
            nll_after=after.nll,
            ece_before=binned_error(bins[0]),
            ece_after=binned_error(bins[1]),
            brier_before=before.brier,
            brier_after=after.brier,
            at_bound=at_bound,
            note=note,
            passes=found.passes,
            temperature_space=self.temperature_space if self.link == "sigmoid" else "logits",
            bins=(bins[0], bins[1]),
        )

    def likelihood(self) -> Likelihood:
        """Return the likelihood, on the device that computes."""
        name = self.name
        column = self.logits if isinstance(self.logits, Column) else Column([checks.matrix(self.logits, name)])
        if column.ndim != 2 or len(column) == 0:
            raise InputError(argument=name, expected="of shape [N, K] with at least one row", found=list(column.shape))
        if self.link not in get_args(Link):
            raise InputError(argument="link", expected=" or ".join(get_args(Link)), found=self.link)
        y = checks.labels(self.labels, column.shape[1], len(column))
        first = column.blocks[0]
        checks.refuse_probabilities(checks.array(first[:64], name), name)
        y = arrays.like(y, first) if is_tensor(first) else y
        if self.device is not None and (is_tensor(y) or not _is_cpu(self.device)):
            y = arrays.tensor(y, "labels").to(self.device)
        y = arrays.by_size(y, _elements(column))
        weights = (
            None if self.weights is None else to_accumulation_dtype(arrays.like(_weights(self.weights, len(column)), y))
        )
        if is_tensor(y) and not _is_cpu(y.device) and not _on_accelerator(column):
            rows = [arrays.tensor(block, name) for block in column.blocks]
            if sum(block.nbytes for block in rows) <= MAX_RESIDENT_BYTES // self.models:
                column = Column([block.to(y.device) for block in rows])
        if distributed(self.link, self.temperature_space):
            column = Column([log_sigmoid(arrays.like(checks.array(block, name), y)) for block in column.blocks])
            return Likelihood(column, y, "softmax", name, weights=weights)
        return Likelihood(column, y, self.link, name, weights=weights)


def _weights(values: Array, rows: int) -> Any:
    weights = cast(checks.array(values, "weights"), "float64")
    if tuple(weights.shape) != (rows,):
        raise InputError(argument="weights", expected=f"of shape [{rows}], one per example", found=list(weights.shape))
    bad = ~(backend(weights).isfinite(weights) & (weights > 0))
    if bad.any():
        row = int(backend(bad).where(bad)[0][0])
        raise InputError(
            f"entry {row} is {float(weights[row])}",
            argument="weights",
            expected="finite numbers above 0",
            hint="Drop examples without weight",
        )
    return weights


def _settle(likelihood: Likelihood, found: Minimum) -> "Evaluation[tuple[Point, str, bool]]":
    """Return the point to use, a note if the NLL has no proper minimum, and whether a bound stopped the search."""
    before, after = found.before, found.after
    if found.constant:
        return before, "the NLL is the same at every temperature, which was left at 1", False
    if found.saturated:
        all_correct = bool(likelihood.label_is_highest.all())
        if all_correct:
            point = yield from rule_of_succession(likelihood, before)
            note = (
                "every label has the highest logit, so that a lower temperature always gives a lower NLL; "
                f"stopped at T = {point.temperature:.3g}, which {likelihood.examples:g} examples without an error support"
            )
        else:
            start = yield from plateau(likelihood)
            (point,) = yield from likelihood.at(start)
            note = f"every sigmoid saturates at 0 or 1, and the NLL is constant below T = {point.temperature:.3g}"
        if point.log_inverse < HIGH - TOLERANCE:
            return point, note, True
        after = point
    if after.log_inverse >= HIGH - TOLERANCE:
        return after, f"the best temperature is below the lower bound {MIN_TEMPERATURE:g}; the logits are tiny", True
    if after.log_inverse <= LOW + TOLERANCE:
        reason = "the labels are no likelier than chance, or the logits are extremely large"
        return after, f"the best temperature is above the upper bound {MAX_TEMPERATURE:,.0f}; {reason}", True
    # Within the tolerance T = 1 may be the better one; calibration never raises the NLL that it minimises.
    return (before if before.nll < after.nll else after), "", False


def _temperature(point: Point) -> float:
    """Return the point's temperature; at a bound, exactly the bound."""
    if point.log_inverse >= HIGH - TOLERANCE:
        return MIN_TEMPERATURE
    return MAX_TEMPERATURE if point.log_inverse <= LOW + TOLERANCE else point.temperature
