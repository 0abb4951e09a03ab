"""Pairs by category of training difference: errors, gains and conversion, as in Gontijo-Lopes et al. 2021, Figs 1 and 2."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from diversity import measures
from diversity._pair_rows import probabilities
from diversity.categories import CATEGORIES, category
from diversity.ensembled import ensemble, from_split_cells, split_cells
from diversity.intervals import interval
from diversity.tables import ErrorTable, cell_of, error_tables
from zoo.core import arrays
from zoo.core.arrays import Array
from zoo.errors import InputError
from zoo.outputs.outputs import Outputs, Runs

if TYPE_CHECKING:
    import pandas

CHUNK = 512
SAME = 1e-12  # numbers of size 1 that differ by less differ by rounding alone


@dataclass(frozen=True)
class Line:
    """A least-squares line through points, with Pearson's correlation of them; NaN where all y are the same."""

    slope: float
    intercept: float
    correlation: float
    points: int

    @property
    def interval(self) -> tuple[float, float]:
        """95% interval of the correlation of points drawn independently, by Fisher's z; NaN where it is not defined.

        Pairs of one model with others are such points. All pairs among some models are not: they would need more room.
        """
        if self.points < 4:
            return np.nan, np.nan
        with np.errstate(divide="ignore"):  # of points on a line z is infinite, and the interval that correlation itself
            z, half = np.arctanh(self.correlation), 1.959964 / np.sqrt(self.points - 3)
        return float(np.tanh(z - half)), float(np.tanh(z + half))

    def __str__(self) -> str:
        if np.isnan(self.correlation):
            return "r is not defined: all points have the same height"
        return f"r = {self.correlation:.{2 if abs(self.correlation) < 0.995 else 3}f}"  # not "1.00" of what is less


def regression(x: Any, y: Any) -> Line:
    """The line y = slope x + intercept through N points; those with a value missing are left out.

    >>> regression([0.0, 1.0, 2.0], [1.0, 3.0, 5.0])
    Line(slope=2.0, intercept=1.0, correlation=1.0, points=3)
    """
    from scipy.stats import linregress

    a, b = np.asarray(x, np.float64), np.asarray(y, np.float64)
    if a.shape != b.shape or a.ndim != 1:
        raise InputError(f"regression: expected two lists of one length, found shapes {a.shape} and {b.shape}")
    known = np.isfinite(a) & np.isfinite(b)
    a, b = a[known], b[known]
    if _same(a):
        raise InputError(f"regression: expected at least two different values of x, found {min(len(a), 1)}")
    if _same(b):
        return Line(0.0, float(b.mean()), np.nan, len(a))
    found = linregress(a, b)
    return Line(float(found.slope), float(found.intercept), float(found.rvalue), len(a))


def pair_frame(runs: Runs | Mapping[str, Outputs], base: str | None = None) -> "pandas.DataFrame":
    """One row per pair: its category, both accuracies, every measure of its errors and of its ensemble.

    The pairs are `base` with every other model, as in the paper, or all pairs. Probabilities are those of
    `.probabilities`, so calibrate first; each model's are computed once, in chunks of rows. Where a model has predictions
    only, the columns about ensembles are left out.

    >>> z = np.random.default_rng(0).normal(size=(3, 50, 4))
    >>> runs = Runs(Outputs.from_arrays(n, logits=x, labels=np.arange(50) % 4) for n, x in zip("abc", z, strict=True))
    >>> pair_frame(runs, base="a")[["first", "second"]].values.tolist()
    [['a', 'b'], ['a', 'c']]
    """
    import pandas

    runs = Runs(runs).aligned()
    names = runs.names
    labels = torch.from_numpy(runs.labels)
    if len(names) < 2:
        raise InputError(f"expected at least two models to make pairs of, found {len(names)}")
    if base is None:
        pairs = [(i, j) for i in range(len(names)) for j in range(i + 1, len(names))]
    else:
        pairs = [(names.index(runs[base].name), j) for j in range(len(names)) if names[j] != runs[base].name]
    together = all(outputs.kind in ("logits", "probabilities") for outputs in runs.values())
    table = (_ensemble_tables if together else _error_tables)(list(runs.values()), pairs, labels)
    columns: dict[str, Any] = {
        "first": [names[i] for i, _ in pairs],
        "second": [names[j] for _, j in pairs],
        "category": [_category(runs[names[i]], runs[names[j]]) for i, j in pairs],
    }
    shown = measures.names("errors", "ensemble") if together else measures.names("errors")
    return pandas.DataFrame(columns | {name: getattr(table, name) for name in shown})


def by_condition(pred_a: Array, pred_b: Array, labels: Array, conditions: Sequence[Any]) -> "pandas.DataFrame":
    """The errors of two models condition by condition (Geirhos et al. 2020), one row per condition as they first occur.

    Predicted classes [N], -1 for no answer, against labels [N]; `conditions` [N] name each example's. Columns: condition,
    examples, accuracy_first, accuracy_second, inconsistency, kappa and the ends of its interval. Kappa within conditions is
    free of what pooling adds: errors that coincide because the same conditions are hard for both.

    >>> frame = by_condition([0, 1, 1, -1], [0, 1, 0, 0], [0, 1, 1, 0], ["clean", "clean", "noisy", "noisy"])
    >>> frame[["condition", "accuracy_first", "accuracy_second", "kappa"]].values.tolist()
    [['clean', 1.0, 1.0, 1.0], ['noisy', 0.5, 0.5, -1.0]]
    """
    import pandas

    group, names = pandas.factorize(pandas.Series(list(conditions)))
    if len(group) != len(labels) or (group < 0).any():
        raise InputError(f"conditions: expected {len(labels)}, one per example and none missing, found {len(group)}")
    table = error_tables(pred_a, pred_b, labels, group, len(names))
    low, high = interval(table, "kappa")
    shown = {name: getattr(table, name) for name in ("accuracy_first", "accuracy_second", "inconsistency", "kappa")}
    counted = {"condition": list(names), "examples": table.examples.astype(int)}
    return pandas.DataFrame(counted | shown | {"kappa_low": low, "kappa_high": high})


def by_category(frame: "pandas.DataFrame") -> "pandas.DataFrame":
    """The means of `pair_frame` by category, from the least difference in training to the greatest, with standard errors.

    Columns: category, pairs, and for each of the measures of Figs 1 and 2 its mean and `_se` standard error. Pairs without
    a category are left out, and so are measures that `frame` lacks.

    >>> import pandas
    >>> frame = pandas.DataFrame({"category": ["dataset", "reinit", "reinit"], "inconsistency": [0.20, 0.08, 0.10]})
    >>> by_category(frame).round(3)
      category  pairs  inconsistency  inconsistency_se
    0   reinit      2           0.09              0.01
    1  dataset      1           0.20               NaN
    """
    import pandas

    kept = [name for name, measure in measures.MEASURES.items() if measure.by_category and name in frame]
    grouped = frame.dropna(subset=["category"]).groupby("category", sort=False)
    rows = []
    for kind in CATEGORIES:
        if kind not in grouped.groups:
            continue
        group = grouped.get_group(kind)
        row: dict[str, Any] = {"category": kind, "pairs": len(group)}
        for name in kept:
            row[name] = group[name].mean()
            row[f"{name}_se"] = group[name].sem()
        rows.append(row)
    return pandas.DataFrame(rows, columns=["category", "pairs", *(f"{n}{end}" for n in kept for end in ("", "_se"))])


def _error_tables(runs: list[Outputs], pairs: list[tuple[int, int]], labels: Tensor) -> ErrorTable:
    """[pairs, 5] of predictions alone."""
    said = [torch.from_numpy(outputs.predictions) for outputs in runs]
    counts = torch.stack([torch.bincount(cell_of(said[i], said[j], labels), minlength=5) for i, j in pairs])
    return ErrorTable(arrays.to_numpy(counts).astype(np.float64))


def _ensemble_tables(runs: list[Outputs], pairs: list[tuple[int, int]], labels: Tensor) -> ErrorTable:
    """[pairs, 5], with what the ensemble of each pair makes of them."""
    counts: Tensor | None = None
    used = sorted({i for pair in pairs for i in pair})
    # A model's answers come from its own numbers: sigmoids at a low temperature round to 1 for several classes at once.
    said = {i: torch.from_numpy(runs[i].predictions) for i in used}
    for start in range(0, len(labels), CHUNK):
        rows = slice(start, min(start + CHUNK, len(labels)))
        probs = {i: probabilities(runs[i], rows) for i in used}
        device = next(iter(probs.values())).device
        y = labels[rows].to(device)
        top = {i: said[i][rows].to(device) for i in used}
        found = torch.stack([split_cells(top[i], top[j], ensemble(probs[i], probs[j]), y) for i, j in pairs])
        counts = found if counts is None else counts + found
    if counts is None:
        raise InputError("expected at least one example, found none")
    return from_split_cells(arrays.to_numpy(counts))


def _same(values: np.ndarray) -> bool:
    return not len(values) or bool(np.ptp(values) <= SAME * max(1.0, np.abs(values).max()))


def _category(a: Outputs, b: Outputs) -> str | None:
    return None if a.card is None or b.card is None else category(a.card, b.card)
