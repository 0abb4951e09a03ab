"""Fitting a temperature: `fit_temperature` for one model, `fit_temperatures` for many."""

import warnings
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from torch import Tensor

from zoo.calibration.likelihood import MAX_TEMPERATURE, MIN_TEMPERATURE, Likelihood, Point
from zoo.calibration.metrics import bin_counts, binned_error, reliability_frame
from zoo.calibration.minimiser import HIGH, LOW, TOLERANCE, Search, minimum, plateau, vouched_for
from zoo.core import arrays
from zoo.core.arrays import Array
from zoo.core.columns import Column
from zoo.core.links import distributed, log_sigmoid
from zoo.core.types import Link, TemperatureSpace
from zoo.errors import InputError, ZooWarning

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True)
class TemperatureFit:
    """A fitted temperature, with the metrics at T = 1 and at it, on the data it was fitted on."""

    temperature: float
    link: Link
    examples: int
    nll_before: float
    nll_after: float
    ece_before: float
    ece_after: float
    brier_before: float
    brier_after: float
    at_bound: bool = False  # there is no minimum: T stands where a bound stopped it
    note: str = ""  # why the temperature is at a bound, or was left at 1
    passes: int = 0  # over all the data
    temperature_space: TemperatureSpace = "logits"  # what T divides, where the link is a sigmoid
    bins: tuple[Tensor, Tensor] | None = field(default=None, repr=False, compare=False)  # `bin_counts` before and after

    def reliability(self) -> "pandas.DataFrame":
        """The reliability diagrams before and after, one below the other, told apart by the column `when`."""
        import pandas

        if self.bins is None:
            raise InputError("this fit was read from a file, which keeps no reliability diagram; fit again to see one")
        frames = [reliability_frame(counts) for counts in self.bins]
        return pandas.concat(frames, keys=["before", "after"], names=["when", None]).reset_index("when")

    def to_dict(self) -> dict[str, Any]:
        """What a manifest keeps: everything but the diagrams."""
        return {f.name: getattr(self, f.name) for f in fields(self) if f.name != "bins"}


def fit_temperature(
    logits: Array | Column,
    labels: Array,
    link: Link = "softmax",
    name: str = "logits",
    temperature_space: TemperatureSpace = "logits",
    weights: Array | None = None,
) -> TemperatureFit:
    """The temperature T that minimises the mean NLL of `logits` [N, K] / T against `labels` [N], through the link.

    Exact for all the data: a sample gives the start, passes over everything in cache-sized chunks with sums in float64 do
    the rest, usually two. Memory-mapped blocks are streamed. A class may be masked with logits of -inf. `name` is what
    errors call the logits. `temperature_space` says what T divides where the link is a sigmoid: the logits, or the logarithm of the
    distribution that the sigmoids make (p^(1/T), normalised; this one is computed in memory). With `weights` [N], above 0,
    an example counts as often as its weight says, in the fit and in the metrics.

    Some data have no best temperature; T then stops at a bound, with a warning and a `note`. Labels no likelier than by
    chance: 1e4. Every label already on top: where the loss is log((N + 2)/(N + 1)), the most that N examples without an
    error can vouch for by the rule of succession, or T = 1 if it is less there. Sigmoids that saturate with some labels
    wrong: where the plateau begins. A likelihood that is constant, as of constant logits, keeps T = 1.

    >>> import math
    >>> import numpy as np
    >>> z = np.array([[2.0, 0.0], [0.0, 2.0], [2.0, 0.0], [0.0, 2.0]])
    >>> fit = fit_temperature(z, [0, 1, 0, 0])  # right 3 times in 4, so a logit of log 3 would be honest
    >>> round(2 / fit.temperature, 4) == round(math.log(3), 4)
    True
    """
    column = logits if isinstance(logits, Column) else Column([arrays.matrix(logits, name)])
    if column.ndim != 2 or len(column) == 0:
        raise InputError(f"{name}: expected shape [N, K] with at least one row, found {list(column.shape)}")
    if link not in ("softmax", "sigmoid"):
        raise InputError(f"link: expected softmax or sigmoid, found {link!r}")
    y = arrays.labels(labels, column.shape[1], len(column))
    first = column.blocks[0]
    arrays.refuse_probabilities(arrays.tensor(first[:64], name), name)
    y = y.to(first.device) if isinstance(first, Tensor) else y
    counts = None if weights is None else _weights(weights, len(column)).to(y.device, arrays.accumulation_dtype(y.device))
    if distributed(link, temperature_space):
        column = Column([log_sigmoid(arrays.tensor(block, name)) for block in column.blocks])
        likelihood = Likelihood(column, y, "softmax", name, weights=counts)
    else:
        likelihood = Likelihood(column, y, link, name, weights=counts)
    search = minimum(likelihood)
    before = search.before
    after, note, at_bound = _settle(likelihood, search)
    if note:
        warnings.warn(f"{name}: {note}", ZooWarning, stacklevel=2)
    hits = likelihood.hits(before)
    bins = bin_counts(before.confidence, hits, weights=counts), bin_counts(after.confidence, hits, weights=counts)
    return TemperatureFit(
        temperature=_temperature(after),
        link=link,
        examples=len(likelihood),
        nll_before=before.nll,
        nll_after=after.nll,
        ece_before=binned_error(bins[0]),
        ece_after=binned_error(bins[1]),
        brier_before=before.brier,
        brier_after=after.brier,
        at_bound=at_bound,
        note=note,
        passes=search.passes,
        temperature_space=temperature_space if link == "sigmoid" else "logits",
        bins=bins,
    )


def _weights(values: Array, rows: int) -> Tensor:
    found = arrays.tensor(values, "weights").double()
    if tuple(found.shape) != (rows,):
        raise InputError(f"weights: expected shape [{rows}], one per example, found {list(found.shape)}")
    bad = ~(found.isfinite() & (found > 0))
    if bad.any():
        row = int(bad.nonzero()[0])
        raise InputError(
            f"weights: entry {row} is {float(found[row])}, expected finite numbers above 0; leave such rows out"
        )
    return found


def fit_temperatures(
    models: Mapping[str, Array | Column] | Iterable[Array | Column], labels: Array, link: Link = "softmax"
) -> dict[str, TemperatureFit]:
    """`fit_temperature` for many models on the same examples: by name, or by number for a list or an array [M, N, K].

    >>> import numpy as np
    >>> z = np.array([[2.0, 0.0], [0.0, 2.0], [2.0, 0.0], [0.0, 2.0]])
    >>> {name: round(fit.temperature, 3) for name, fit in fit_temperatures({"a": z, "b": 3 * z}, [0, 1, 0, 0]).items()}
    {'a': 1.82, 'b': 5.461}
    """
    named = models if isinstance(models, Mapping) else {str(i): logits for i, logits in enumerate(models)}
    y = arrays.labels(labels)
    return {name: fit_temperature(logits, y, link, f"{name} logits") for name, logits in named.items()}


def _settle(likelihood: Likelihood, search: Search) -> tuple[Point, str, bool]:
    """The point to keep, and where the likelihood has no proper minimum, what there is to say and whether a bound did it."""
    before, after = search.before, search.after
    if search.constant:
        return before, "the likelihood is constant: any temperature is as good; left at 1", False
    if search.saturated:
        right = bool(likelihood.on_top.all())
        point = vouched_for(likelihood, before) if right else likelihood.at(plateau(likelihood))[0]
        if point.log_inverse < HIGH - TOLERANCE:
            if right:
                why = "every label has the greatest logit, so colder always looks better"
                claim = (
                    f"N = {likelihood.examples:g} without an error does not vouch for less than T = {point.temperature:.3g}"
                )
            else:
                why = "the best temperature is the coldest, where every sigmoid is 0 or 1"
                claim = f"nothing is gained below T = {point.temperature:.3g}"
            return point, f"{why}; {claim}", True
        after = point
    if after.log_inverse >= HIGH - TOLERANCE:
        return after, f"the best temperature lies below the least one tried, {MIN_TEMPERATURE:g}: the logits are tiny", True
    if after.log_inverse <= LOW + TOLERANCE:
        why = "labels are no likelier than by chance, or the logits are out of all scale"
        return after, f"the best temperature lies above the greatest one tried, {MAX_TEMPERATURE:g}: {why}", True
    # Within the tolerance T = 1 may be the better of the two; calibration never raises the likelihood it minimises.
    return (before if before.nll < after.nll else after), "", False


def _temperature(point: Point) -> float:
    """The point's temperature; at a bound, the bound itself and not a hair from it."""
    if point.log_inverse >= HIGH - TOLERANCE:
        return MIN_TEMPERATURE
    return MAX_TEMPERATURE if point.log_inverse <= LOW + TOLERANCE else point.temperature
