"""Pairs by category of training difference: errors, gains and conversion, as in Gontijo-Lopes et al. 2021, Figs 1 and 2."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from diversity.categories import CATEGORIES, category
from diversity.ensembled import ENSEMBLE_MEASURES, ensemble, from_split_cells, split_cells
from diversity.pair_rows import probabilities
from diversity.tables import MEASURES
from zoo import arrays
from zoo.errors import InputError
from zoo.outputs import Outputs, Runs

if TYPE_CHECKING:
    import pandas

CHUNK = 512
_SUMMARISED = ("inconsistency", "double_fault", "ensemble_accuracy", "gain_over_mean", "gain_over_best", "conversion_rate")


@dataclass(frozen=True)
class Line:
    """A least-squares line through points, with Pearson's correlation of them."""

    slope: float
    intercept: float
    correlation: float
    points: int


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
    if len(np.unique(a)) < 2:
        raise InputError(f"regression: expected at least two different values of x, found {len(np.unique(a))}")
    found = linregress(a, b)
    return Line(float(found.slope), float(found.intercept), float(found.rvalue), len(a))


def pair_frame(runs: Runs | Mapping[str, Outputs], base: str | None = None) -> "pandas.DataFrame":
    """A row a pair: its category, both accuracies, every measure of its errors and of its ensemble.

    The pairs are `base` with every other model, as in the paper, or all pairs. Probabilities are those of
    `.probabilities()`, so calibrate first; each model's are computed once, in chunks of rows.

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
    counts = _counts(list(runs.values()), pairs, labels)
    table = from_split_cells(arrays.host(counts))
    columns: dict[str, Any] = {
        "first": [names[i] for i, _ in pairs],
        "second": [names[j] for _, j in pairs],
        "category": [_category(runs[names[i]], runs[names[j]]) for i, j in pairs],
    }
    measures = ("accuracy_first", "accuracy_second", *MEASURES, *ENSEMBLE_MEASURES)
    return pandas.DataFrame(columns | {name: getattr(table, name) for name in measures})


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

    kept = [name for name in _SUMMARISED if name in frame]
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


def _counts(runs: list[Outputs], pairs: list[tuple[int, int]], labels: Tensor) -> Tensor:
    """[pairs, 10] as `split_cells`."""
    counts: Tensor | None = None
    used = sorted({i for pair in pairs for i in pair})
    for start in range(0, len(labels), CHUNK):
        rows = slice(start, min(start + CHUNK, len(labels)))
        probs = {i: probabilities(runs[i], rows) for i in used}
        device = next(iter(probs.values())).device
        y = labels[rows].to(device)
        top = {i: p.argmax(1) for i, p in probs.items()}
        found = torch.stack([split_cells(top[i], top[j], ensemble(probs[i], probs[j]), y) for i, j in pairs])
        counts = found if counts is None else counts + found
    if counts is None:
        raise InputError("expected at least one example, found none")
    return counts


def _category(a: Outputs, b: Outputs) -> str | None:
    return None if a.card is None or b.card is None else category(a.card, b.card)
