"""What class separation, collapse and centroids are made of: a count, a sum of vectors and of squared norms per class."""

from typing import Any

import torch
from torch.nn.functional import embedding_bag, pad

from diversity._activations import CHUNK, chunks, column_means, matrix, nonzero_norms, row_norms
from zoo.core import arrays
from zoo.errors import InputError


class ClassSums:
    """Class sums over a stream of batches, in float64; K x D numbers are kept, whatever the number of examples.

    `unit` sums the rows divided by their norms, after `centre` [D] was taken off where it is given. Plain sums are taken
    about a mean of the first rows (`means` puts it back), so that variances do not drown in a mean far from zero. After
    `update` `counts` are [K], `sums` [K, D] and `squares`, of the norms, [K]: enough for eq. 11 of Kornblith et al. 2021.

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

    def update(self, x: Any, labels: Any) -> None:
        """Take a batch of activations [n, ...] with their class indices [n]."""
        rows = matrix(x, self.name)
        y = arrays.labels(labels, rows=len(rows)).to(rows.device)
        self._make_room(int(y.max()) + 1, rows)
        if self.centre is None and not self.unit:
            self.centre = column_means(rows[:CHUNK], self.name)
        # Long chunks touch the [K, D] sums rarely; the float32 sum of one class in one chunk stays short.
        size = min(max(8192, 64 * len(self.counts)), 65536)
        for start, part in chunks(rows, size):
            self._add(part, y[start : start + size], self.rows + start)
        self.rows += len(rows)

    def _add(self, x: torch.Tensor, y: torch.Tensor, first_row: int) -> None:
        norms = (nonzero_norms if self.unit else row_norms)(x, self.name, first_row, self.centre)
        centre = self.centre
        if centre is not None and centre.norm() > 64 * norms.median():
            # Far from zero the sums below would lose their digits when the centre comes off; a copy without it keeps them.
            x, centre = x - centre.to(x.dtype), None
        classes = len(self.counts)
        counts = y.bincount(minlength=classes)
        # Examples of one class, gathered by one kernel made for exactly this: a bag of rows and their weighted sum.
        order = y.argsort()
        weights = norms.reciprocal() if self.unit else None
        ordered = None if weights is None else weights[order]
        found = embedding_bag(order, x, counts.cumsum(0) - counts, mode="sum", per_sample_weights=ordered)
        if first_row == 0:
            self.sums.copy_(found)  # adding to zeros would widen a copy first
        else:
            self.sums += found
        if centre is not None:  # sum of w (x - c) = sum of w x - c times the sum of w
            totals = counts if weights is None else y.bincount(weights.to(self.sums.dtype), minlength=classes)
            self.sums.addr_(totals.to(self.sums.dtype), centre.to(x.dtype).to(self.sums.dtype), alpha=-1)
        self.counts += counts
        self.squares += counts if self.unit else y.bincount(norms.to(self.squares.dtype).square(), minlength=classes)

    def _make_room(self, classes: int, x: torch.Tensor) -> None:
        if self.rows == 0:
            self.counts, self.squares = torch.zeros(2, 0, dtype=arrays.accumulation_dtype(x.device), device=x.device)
            self.sums = torch.zeros(0, x.shape[1], dtype=arrays.accumulation_dtype(x.device), device=x.device)
            self.dtype = x.dtype
        elif x.shape[1] != self.sums.shape[1]:
            raise InputError(
                f"{self.name}: expected {self.sums.shape[1]} features as in the first batch, found {x.shape[1]}"
            )
        missing = classes - len(self.counts)
        if missing > 0:
            self.counts, self.squares = (pad(kept, (0, missing)) for kept in (self.counts, self.squares))
            self.sums = pad(self.sums, (0, 0, 0, missing))

    @property
    def present(self) -> torch.Tensor:
        """The classes that have examples, as indices."""
        return self.counts.nonzero().squeeze(1)

    @property
    def rounding(self) -> float:
        """The variance that rounding alone leaves to activations which are all the same."""
        size = 4 * torch.finfo(self.dtype).eps
        return size if self.unit or self.centre is None else (size * float(self.centre.norm())) ** 2

    def means(self) -> torch.Tensor:
        """[K present, D] mean vector of each class that has examples."""
        means = self.sums[self.present] / self.counts[self.present, None]
        return means if self.unit or self.centre is None else means + self.centre.to(self.dtype)
