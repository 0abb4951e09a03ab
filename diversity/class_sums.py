"""The count, vector sum and sum of squared norms of each class: enough for class separation, collapse and centroids."""

import torch
from numpy.typing import ArrayLike
from torch.nn.functional import embedding_bag, pad

from diversity._activations import CHUNK, chunks, column_means, matrix, nonzero_norms, row_norms
from diversity._checks import class_indices
from zoo.core import arrays
from zoo.core.arrays import Array
from zoo.errors import InputError


class ClassSums:
    """Class sums over a stream of batches, in float64. Memory is K x D, independent of the number of examples.

    After `update`: `counts` [K], `sums` [K, D] and `squares` [K], the sums of squared norms. Eq. 11 of Kornblith et
    al. 2021 needs these. Without `unit`, rows are summed about the mean of the first rows, so that variances keep
    their precision if the mean is far from zero; `means` adds that mean back.

    Args:
        unit: divide each row by its norm, after subtracting `centre`.
        centre: [D], subtracted from every row.
        name: the name of the activations in error messages.

    >>> sums = ClassSums()
    >>> sums.update(torch.tensor([[1.0, 0.0], [3.0, 0.0]]), [0, 0])
    >>> sums.update(torch.tensor([[5.0, 1.0]]), [2])  # class 1 has no example
    >>> sums.counts.tolist(), sums.present.tolist(), sums.means().tolist()
    ([2.0, 0.0, 1.0], [0, 2], [[2.0, 0.0], [5.0, 1.0]])
    """

    def __init__(self, unit: bool = False, centre: torch.Tensor | None = None, name: str = "x") -> None:
        self.unit = unit
        self.centre = centre
        self.name = name
        self.rows = 0
        self.dtype = torch.float64  # of the activations
        self.counts = torch.zeros(0)  # [K]
        self.sums = torch.zeros(0, 0)  # [K, D]
        self.squares = torch.zeros(0)  # [K]

    def update(self, x: ArrayLike | Array, labels: ArrayLike | Array) -> None:
        """Add a batch of activations [n, ...] with class indices [n]."""
        rows = matrix(x, self.name)
        y = arrays.like(class_indices(labels, len(rows)), rows)
        self._allocate(int(y.max()) + 1, rows)
        if self.centre is None and not self.unit:
            self.centre = column_means(rows[:CHUNK], self.name)
        # Long chunks read and write the [K, D] sums rarely. Float32 sums of one class in one chunk are still short.
        size = min(max(8192, 64 * len(self.counts)), 65536)
        for start, part in chunks(rows, size):
            self._add(part, y[start : start + size], self.rows + start)
        self.rows += len(rows)

    def _add(self, x: torch.Tensor, y: torch.Tensor, first_row: int) -> None:
        norms = (nonzero_norms if self.unit else row_norms)(x, self.name, first_row, self.centre)
        centre = self.centre
        if centre is not None and centre.norm() > 64 * norms.median():
            # Far from zero, subtracting the centre from the sums below would lose digits: subtract it from a copy first.
            x, centre = x - centre.to(x.dtype), None
        classes = len(self.counts)
        counts = y.bincount(minlength=classes)
        # `embedding_bag` sums the (weighted) rows of each class in one kernel.
        order = y.argsort()
        weights = norms.reciprocal() if self.unit else None
        ordered = None if weights is None else weights[order]
        batch_sums = embedding_bag(order, x, counts.cumsum(0) - counts, mode="sum", per_sample_weights=ordered)
        if first_row == 0:
            self.sums.copy_(batch_sums)  # adding to zeros would first make a float64 copy
        else:
            self.sums += batch_sums
        if centre is not None:  # sum of w (x - c) = sum of w x - c times the sum of w
            totals = counts if weights is None else y.bincount(weights.to(self.sums.dtype), minlength=classes)
            self.sums.addr_(totals.to(self.sums.dtype), centre.to(x.dtype).to(self.sums.dtype), alpha=-1)
        self.counts += counts
        self.squares += counts if self.unit else y.bincount(norms.to(self.squares.dtype).square(), minlength=classes)

    def _allocate(self, classes: int, x: torch.Tensor) -> None:
        """Extend the sums to `classes` classes."""
        if self.rows == 0:
            wide = arrays.accumulation_dtype(x.device)
            self.counts, self.squares = torch.zeros(2, 0, dtype=wide, device=x.device)
            self.sums = torch.zeros(0, x.shape[1], dtype=wide, device=x.device)
            self.dtype = x.dtype
        elif x.shape[1] != self.sums.shape[1]:
            expected = f"{self.sums.shape[1]} features, as in the first batch"
            raise InputError(where=self.name, expected=expected, found=x.shape[1])
        missing = classes - len(self.counts)
        if missing > 0:
            self.counts, self.squares = (pad(values, (0, missing)) for values in (self.counts, self.squares))
            self.sums = pad(self.sums, (0, 0, 0, missing))

    @property
    def present(self) -> torch.Tensor:
        """Indices of the classes that have examples."""
        return self.counts.nonzero().squeeze(1)

    @property
    def rounding(self) -> float:
        """The variance that rounding errors alone give to activations that are all equal."""
        size = 4 * torch.finfo(self.dtype).eps
        return size if self.unit or self.centre is None else (size * float(self.centre.norm())) ** 2

    def means(self) -> torch.Tensor:
        """Return the mean vector of each class that has examples, [number of such classes, D]."""
        means = self.sums[self.present] / self.counts[self.present, None]
        return means if self.unit or self.centre is None else means + self.centre.to(self.dtype)
