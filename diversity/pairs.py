"""Every pair of M models at once: one matrix product of correctness gives all the 2x2 tables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from diversity import measures
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

# Columns of a product whose counts float32 still holds exactly, and few enough for the converted block to stay small.
BLOCK = 2**16


@dataclass(frozen=True, eq=False)
class Pairwise(ErrorTable):
    """The error tables of all pairs, `cells` [M, M, 5]; every measure is then a matrix [M, M], first model by row.

    `dominance[i, j]` is P(j right | i wrong); the other measures are symmetric.
    """

    names: tuple[str, ...]
    unanswered: tuple[int, ...] = ()  # examples to which each model gave no answer

    @property
    def accuracy(self) -> Array:
        """[M]"""
        return self.accuracy_first[:, 0]

    def matrix(self, measure: str) -> "pandas.DataFrame":
        """A measure as a table with the models' names on both sides."""
        import pandas

        return pandas.DataFrame(on_host(self.measure(measure)), index=list(self.names), columns=list(self.names))

    def measure(self, name: str) -> Any:
        """[M, M] of a measure by its name."""
        return getattr(self, measures.find(name, "errors").name)

    def interval(self, measure: str, resamples: int = RESAMPLES, level: float = LEVEL, seed: int = 0) -> tuple[Array, Array]:
        """[M, M] lower and upper ends of a measure's interval."""
        return interval(self, measure, resamples, level, seed)

    def tree(self, measure: str = "kappa", method: Method = "average") -> Dendrogram:
        """The models grouped by how alike, or by how different, a measure says that two of them are."""
        greater = measures.find(measure, "errors").greater
        values = np.array(on_host(self.measure(measure)), dtype=np.float64)
        if greater not in ("more diverse", "less diverse") or not np.allclose(values, values.T, equal_nan=True):
            raise InputError(f"measure {measure!r} does not say how alike two models are; kappa, agreement, ... do")
        alike = 1 - values if greater == "more diverse" else values
        np.fill_diagonal(alike, 1)
        return cluster(alike, self.names, method)

    def to_frame(self) -> "pandas.DataFrame":
        """One row per pair (first before second), one column per measure."""
        import pandas

        first, second = np.triu_indices(len(self.names), 1)
        models = np.array(self.names, object)
        columns = {"first": models[first], "second": models[second]}
        measured = {name: on_host(self.measure(name))[first, second] for name in measures.names("errors")}
        return pandas.DataFrame(columns | measured)


def pairwise(
    preds: "Array | Sequence[Array] | Runs | Mapping[str, Outputs]",
    labels: Array | None = None,
    names: Sequence[str] | None = None,
) -> Pairwise:
    """All pairs of M models: predicted classes [M, N], -1 for no answer, against labels [N], or the runs of M models.

    >>> m = pairwise([[0, 1, 2, 2], [0, 1, 1, 0], [0, 0, 2, 1]], [0, 0, 2, 1], names=["a", "b", "c"])
    >>> m.inconsistency
    array([[0.  , 0.25, 0.5 ],
           [0.25, 0.  , 0.75],
           [0.5 , 0.75, 0.  ]])
    >>> m.accuracy
    array([0.5 , 0.25, 1.  ])
    """
    if isinstance(preds, Mapping):
        runs = Runs(preds).aligned()
        names = names or runs.names
        labels = runs.labels if labels is None else labels
        preds = [run.predictions for run in runs.values()]
    if labels is None:
        raise InputError("labels: expected the true classes [N], found none")
    p = _stacked(preds)
    y = arrays.labels(labels, rows=p.shape[1]).to(p.device)
    names = tuple(str(i) for i in range(len(p))) if names is None else tuple(names)
    if len(names) != len(p):
        raise InputError(f"names: expected {len(p)}, one per model, found {len(names)}")
    check_unique(names, "names")
    like = preds if isinstance(preds, (np.ndarray, Tensor)) else preds[0]
    silent = _counts(p == arrays.NO_PREDICTION)
    return Pairwise(arrays.like_input(_cells(p, y, silent), like), names, tuple(arrays.to_numpy(silent).tolist()))


def _stacked(preds: Any) -> Tensor:
    if not isinstance(preds, (np.ndarray, Tensor)):
        rows = [arrays.optional_predictions(row, name=f"predictions of model {i}") for i, row in enumerate(preds)]
        if len({len(row) for row in rows}) > 1:
            raise InputError(
                f"predictions: expected as many examples of every model, found {sorted({len(r) for r in rows})}"
            )
        preds = torch.stack(rows) if rows else np.empty((0, 0), int)
    p = arrays.tensor(preds, "predictions")
    if p.ndim != 2 or not p.numel():
        raise InputError(f"predictions: expected shape [M, N] with at least one model and example, found {list(p.shape)}")
    return arrays.optional_predictions(p.reshape(-1)).reshape(p.shape)


def _counts(true: Tensor) -> Tensor:
    """[M] how many of each row of [M, N]: seen as bytes and summed into int32, booleans add up in two thirds of the time."""
    return true.view(torch.uint8).sum(1, dtype=torch.int32)


def _cells(p: Tensor, y: Tensor, silent: Tensor) -> Tensor:
    """[M, M, 5] counts. With C the correctness, both right is C C'; the rest of the 2x2 table follows from the diagonal.

    `silent` [M] are how many examples a model has no answer for.
    """
    models, examples = p.shape
    wide = arrays.accumulation_dtype(p.device)
    both_right = p.new_zeros(models, models, dtype=wide)
    same_wrong = p.new_zeros(models, models, dtype=wide)
    all_answer = not bool(silent.any())
    # Every answer is read M times: in the narrowest integers that hold all classes, and one of each model's own.
    span = max(int(p.max()), models)
    narrow = next(kind for kind in (torch.int8, torch.int16, torch.int32, torch.int64) if span <= torch.iinfo(kind).max)
    for start in range(0, examples, BLOCK):
        block, truth = p[:, start : start + BLOCK], y[start : start + BLOCK]
        right = block == truth
        correctness = right.float()
        both_right += correctness @ correctness.T
        # A right answer, or none, becomes a class of that model's own, so that what is equal is equally wrong.
        own = -1 - torch.arange(models, device=p.device)[:, None]
        said = torch.where(right if all_answer else right | (block == arrays.NO_PREDICTION), own, block).to(narrow)
        same_wrong += _equal(said)
    hits = both_right.diagonal()
    wrong_class = examples - hits - silent
    same_wrong = same_wrong + same_wrong.T + torch.diag(wrong_class)
    only_first, only_second = hits[:, None] - both_right, hits[None, :] - both_right
    both_wrong = examples - both_right - only_first - only_second
    return torch.stack([both_right, only_first, only_second, same_wrong, both_wrong - same_wrong], 2)


def _equal(said: Tensor) -> Tensor:
    """[M, M] in how many columns of [M, N] two rows are equal, above the diagonal.

    On the host NumPy goes through the pairs: two rows stay in the nearest cache, and it takes a fifth of torch's time.
    """
    models = len(said)
    found = said.new_zeros(models, models, dtype=torch.int32)
    if said.device.type == "cpu":
        rows, counts = said.numpy(), found.numpy()
        for i in range(models):
            counts[i, i + 1 :] = [np.count_nonzero(rows[i] == other) for other in rows[i + 1 :]]
    else:
        for i in range(models - 1):
            found[i, i + 1 :] = _counts(said[i] == said[i + 1 :])
    return found
