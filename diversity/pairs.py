"""Error tables of every pair of M models at once, from one matrix product of correctness."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from diversity import measures
from diversity._checks import class_labels
from diversity.bootstrap import LEVEL, RESAMPLES
from diversity.clustering import Dendrogram, Method, cluster
from diversity.intervals import interval
from diversity.tables import ErrorTable, on_host
from zoo.core import arrays
from zoo.core.arrays import Array
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
        """Return the ends [M, M] of a measure's confidence intervals; the arguments are those of `intervals.interval`."""
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
        labels: [N] true classes; default: those of the runs.
        names: [M] the models' names; default: those of the runs, or numbers.

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
    y = class_labels(labels, p.shape[1]).to(p.device)
    names = tuple(str(i) for i in range(len(p))) if names is None else tuple(names)
    if len(names) != len(p):
        raise InputError(argument="names", expected=f"{len(p)} names, one per model", found=len(names))
    check_unique(names, "names")
    like = values if isinstance(values, (np.ndarray, Tensor)) else values[0]
    missing = _counts(p == arrays.NO_PREDICTION)
    return Pairwise(arrays.like_input(_cells(p, y, missing), like), names, tuple(arrays.to_numpy(missing).tolist()))


def _stack(preds: Any) -> Tensor:
    if not isinstance(preds, (np.ndarray, Tensor)):
        rows = [arrays.optional_predictions(row, name=f"preds[{i}]") for i, row in enumerate(preds)]
        lengths = sorted({len(row) for row in rows})
        if len(lengths) > 1:
            raise InputError(argument="preds", expected="of the same number of examples for every model", found=lengths)
        preds = torch.stack(rows) if rows else np.empty((0, 0), int)
    p = arrays.tensor(preds, "preds")
    if p.ndim != 2 or not p.numel():
        expected = "of shape [M, N] with at least one model and one example"
        raise InputError(argument="preds", expected=expected, found=list(p.shape))
    return arrays.optional_predictions(p.reshape(-1), name="preds").reshape(p.shape)


def _counts(true: Tensor) -> Tensor:
    """Return the number of true entries [M] in each row of [M, N].

    Viewed as bytes and summed into int32, booleans are added in two thirds of the time.
    """
    return true.view(torch.uint8).sum(1, dtype=torch.int32)


def _cells(p: Tensor, y: Tensor, missing: Tensor) -> Tensor:
    """Return the counts [M, M, 5]; `missing` [M] is each model's number of examples without a prediction.

    With correctness C [M, N], both right is C C'. The rest of the 2x2 table follows from the diagonal of that product.
    """
    models, examples = p.shape
    wide = arrays.accumulation_dtype(p.device)
    both_right = p.new_zeros(models, models, dtype=wide)
    same_wrong = p.new_zeros(models, models, dtype=wide)
    none_missing = not bool(missing.any())
    # Every prediction is read M times, so use the narrowest integers for all classes and one extra class per model.
    highest = max(int(p.max()), models)
    narrow = next(kind for kind in (torch.int8, torch.int16, torch.int32, torch.int64) if highest <= torch.iinfo(kind).max)
    for start in range(0, examples, BLOCK):
        block, truth = p[:, start : start + BLOCK], y[start : start + BLOCK]
        right = block == truth
        correctness = right.float()
        both_right += correctness @ correctness.T
        # A correct or missing prediction becomes a class that only this model has, so that equal entries are equal errors.
        unique = -1 - torch.arange(models, device=p.device)[:, None]
        errors = torch.where(right if none_missing else right | (block == arrays.NO_PREDICTION), unique, block).to(narrow)
        same_wrong += _equal(errors)
    hits = both_right.diagonal()
    wrong_class = examples - hits - missing
    same_wrong = same_wrong + same_wrong.T + torch.diag(wrong_class)
    only_first, only_second = hits[:, None] - both_right, hits[None, :] - both_right
    both_wrong = examples - both_right - only_first - only_second
    return torch.stack([both_right, only_first, only_second, same_wrong, both_wrong - same_wrong], 2)


def _equal(errors: Tensor) -> Tensor:
    """Return the number of columns of [M, N] in which two rows are equal, [M, M] above the diagonal.

    On the CPU, NumPy compares pair by pair: two rows stay in the nearest cache, which takes a fifth of torch's time.
    """
    models = len(errors)
    found = errors.new_zeros(models, models, dtype=torch.int32)
    if errors.device.type == "cpu":
        rows, counts = errors.numpy(), found.numpy()
        for i in range(models):
            counts[i, i + 1 :] = [np.count_nonzero(rows[i] == other) for other in rows[i + 1 :]]
    else:
        for i in range(models - 1):
            found[i, i + 1 :] = _counts(errors[i] == errors[i + 1 :])
    return found
