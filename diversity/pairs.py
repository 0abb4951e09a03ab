"""Error tables of every pair of M models at once, from one matrix product of correctness."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from diversity import measures
from diversity._checks import class_indices
from diversity.bootstrap import LEVEL, RESAMPLES
from diversity.clustering import Dendrogram, Method, cluster
from diversity.intervals import interval
from diversity.tables import ErrorTable, on_host
from zoo.core import arrays, checks
from zoo.core.arrays import Array
from zoo.core.backend import backend, cast, is_tensor, to_accumulation_dtype, zeros
from zoo.core.text import check_unique
from zoo.errors import InputError
from zoo.outputs.outputs import Outputs, Runs

if TYPE_CHECKING:
    import pandas

# Columns per matrix product: float32 counts are exact up to this many, and the converted block stays small.
BLOCK = 2**16


@dataclass(frozen=True, eq=False)
class Pairwise(ErrorTable):
    """Error tables of all pairs, `cells` [M, M, 5]; every measure is a matrix [M, M] with the first model by row.

    `dominance[i, j]` is P(j correct | i wrong). `dominated` is its transpose; all other measures except the accuracies are
    symmetric.
    """

    names: tuple[str, ...]
    unanswered: tuple[int, ...] = ()  # number of examples without a prediction, by model

    @property
    def accuracy(self) -> Array:
        """[M] accuracies."""
        return self.accuracy_first[:, 0]

    def matrix(self, measure: str) -> "pandas.DataFrame":
        """Return a measure as a table, with the models' names as rows and columns."""
        import pandas

        return pandas.DataFrame(on_host(self.measure(measure)), index=list(self.names), columns=list(self.names))

    def measure(self, name: str) -> Any:
        """Return a measure [M, M] by its name."""
        return getattr(self, measures.find(name, "errors").name)

    def interval(self, measure: str, resamples: int = RESAMPLES, level: float = LEVEL, seed: int = 0) -> tuple[Array, Array]:
        """Return the ends [M, M] of a measure's confidence intervals. Arguments as in `intervals.interval`."""
        return interval(self, measure, resamples, level, seed)

    def tree(self, measure: str = "kappa", method: Method = "average") -> Dendrogram:
        """Return the dendrogram of the models by a symmetric measure of similarity or difference.

        Args:
            measure: such as kappa, agreement or inconsistency.
            method: how to measure the distance of two clusters, as in `cluster`.
        """
        greater = measures.find(measure, "errors").greater
        values = np.array(on_host(self.measure(measure)), dtype=np.float64)
        if greater not in ("more diverse", "less diverse") or not np.allclose(values, values.T, equal_nan=True):
            expected = "a symmetric measure of similarity, such as kappa, agreement or inconsistency"
            raise InputError(argument="measure", expected=expected, found=measure)
        similarity = 1 - values if greater == "more diverse" else values
        np.fill_diagonal(similarity, 1)
        return cluster(similarity, self.names, method)

    def _repr_html_(self) -> str:
        from zoo.core import notebook

        return notebook.heatmap(self.names, np.asarray(on_host(self.inconsistency)).tolist(), "error inconsistency")

    def to_frame(self) -> "pandas.DataFrame":
        """Return one row per pair, with one column per measure."""
        import pandas

        first, second = np.triu_indices(len(self.names), 1)
        models = np.array(self.names, object)
        columns = {"first": models[first], "second": models[second]}
        measured = {name: on_host(self.measure(name))[first, second] for name in measures.names("errors")}
        return pandas.DataFrame(columns | measured)


def pairwise(
    preds: ArrayLike | Array | Sequence[ArrayLike | Array] | Runs | Mapping[str, Outputs],
    labels: ArrayLike | Array | None = None,
    names: Sequence[str] | None = None,
) -> Pairwise:
    """Return the error tables of all pairs of M models.

    Args:
        preds: runs of M models, or predicted classes [M, N] with -1 for an example without a prediction.
        labels: [N] true classes; default: the labels of the runs.
        names: [M] the models' names; default: the names of the runs, or numbers.

    >>> m = pairwise([[0, 1, 2, 2], [0, 1, 1, 0], [0, 0, 2, 1]], [0, 0, 2, 1], names=["a", "b", "c"])
    >>> m.inconsistency
    array([[0.  , 0.25, 0.5 ],
           [0.25, 0.  , 0.75],
           [0.5 , 0.75, 0.  ]])
    >>> m.accuracy
    array([0.5 , 0.25, 1.  ])
    """
    values: Any = preds
    if isinstance(preds, Mapping):
        runs = Runs(preds).aligned()
        names = names or runs.names
        labels = runs.labels if labels is None else labels
        values = [run.predictions for run in runs.values()]
    if labels is None:
        raise InputError(argument="labels", expected="the true classes [N]", found="none")
    p = _stack(values)
    y = arrays.like(class_indices(labels, p.shape[1]), p)
    names = tuple(str(i) for i in range(len(p))) if names is None else tuple(names)
    if len(names) != len(p):
        raise InputError(argument="names", expected=f"{len(p)} names, one per model", found=len(names))
    check_unique(names, "names")
    like = values if isinstance(values, np.ndarray) or is_tensor(values) else values[0]
    missing = _counts(p == arrays.NO_PREDICTION)
    return Pairwise(arrays.like_input(_cells(p, y, missing), like), names, tuple(arrays.to_numpy(missing).tolist()))


def _stack(preds: Any) -> Any:
    if not (isinstance(preds, np.ndarray) or is_tensor(preds)):
        rows = [checks.optional_predictions(row, name=f"preds[{i}]") for i, row in enumerate(preds)]
        lengths = sorted({len(row) for row in rows})
        if len(lengths) > 1:
            raise InputError(argument="preds", expected="of the same number of examples for every model", found=lengths)
        preds = backend(rows[0]).stack(rows) if rows else np.empty((0, 0), int)
    p = checks.array(preds, "preds")
    p = arrays.by_size(p, math.prod(p.shape))
    if p.ndim != 2 or not math.prod(p.shape):
        expected = "of shape [M, N] with at least one model and one example"
        raise InputError(argument="preds", expected=expected, found=list(p.shape))
    return checks.optional_predictions(p.reshape(-1), name="preds").reshape(p.shape)


def _counts(true: Any) -> Any:
    """Return the number of true entries [M] in each row of [M, N].

    Summing booleans as bytes into int32 takes two thirds of the time.
    """
    xp = backend(true)
    return true.view(xp.uint8).sum(1, dtype=xp.int32)


def _cells(p: Any, y: Any, missing: Any) -> Any:
    """Return the counts [M, M, 5]; `missing` [M] is each model's number of examples without a prediction.

    With correctness C [M, N], both right is C C'. The rest of the 2x2 table follows from the diagonal of that product.
    """
    models, examples = p.shape
    xp = backend(p)
    both_right, same_wrong = (to_accumulation_dtype(zeros((models, models), p, "float32")) for _ in range(2))
    none_missing = not bool(missing.any())
    # Every prediction is read M times, so use the narrowest integer type for all classes and one extra class per model.
    highest = max(int(p.max()), models)
    narrow = next(kind for kind in ("int8", "int16", "int32", "int64") if highest <= np.iinfo(kind).max)
    # A correct or missing prediction becomes a class that only this model has, so that equal entries are equal errors.
    unique = arrays.like(-1 - np.arange(models)[:, None], p)
    for start in range(0, examples, BLOCK):
        block, truth = p[:, start : start + BLOCK], y[start : start + BLOCK]
        right = block == truth
        correctness = cast(right, "float32")
        both_right += correctness @ correctness.T
        own = right if none_missing else right | (block == checks.NO_PREDICTION)
        same_wrong += _equal(cast(xp.where(own, unique, block), narrow))
    hits = both_right.diagonal()
    wrong_class = examples - hits - missing
    same_wrong = same_wrong + same_wrong.T + xp.diag(wrong_class)
    only_first, only_second = hits[:, None] - both_right, hits[None, :] - both_right
    both_wrong = examples - both_right - only_first - only_second
    return xp.stack([both_right, only_first, only_second, same_wrong, both_wrong - same_wrong], 2)


def _equal(errors: Any) -> Any:
    """Return the number of columns of [M, N] in which two rows are equal, [M, M] above the diagonal.

    On the CPU, NumPy compares pair by pair: two rows stay in the nearest cache, which takes a fifth of torch's time.
    """
    models = len(errors)
    found = zeros((models, models), errors, "int32")
    if not is_tensor(errors) or errors.device.type == "cpu":
        rows, counts = np.asarray(errors), np.asarray(found)
        for i in range(models):
            counts[i, i + 1 :] = [np.count_nonzero(rows[i] == other) for other in rows[i + 1 :]]
    else:
        for i in range(models - 1):
            found[i, i + 1 :] = _counts(errors[i] == errors[i + 1 :])
    return found
