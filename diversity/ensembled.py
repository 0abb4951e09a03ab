"""Members and their ensemble: what it makes of examples that all, some or none of them get right.

Of a pair, whose ensemble is the mean of the two models' calibrated probabilities, it is kept for each cell of its table.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from diversity.tables import ErrorTable, cell_of, ratio
from zoo.core import arrays
from zoo.core.arrays import Array
from zoo.errors import InputError

ENSEMBLE_MEASURES = (
    "ensemble_accuracy", "gain_over_mean", "gain_over_best", "conversion_rate", "both_right_lost", "both_wrong_gained",
)  # fmt: skip
CHUNK = 2048


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Numbers of examples that all, some and none of the members get right [..., 3], and how many the ensemble does.

    >>> table = Outcomes(np.array([70.0, 14.0, 16.0]), np.array([70.0, 11.0, 1.0]))
    >>> float(table.accuracy), round(float(table.conversion_rate), 4), float(table.all_wrong_gained)
    (0.82, 0.7857, 0.0625)
    """

    examples: Array
    right: Array

    @property
    def accuracy(self) -> Any:
        return self.right.sum(-1) / self.examples.sum(-1)

    @property
    def inconsistency(self) -> Any:
        """The share of examples that some members get right and some wrong."""
        return self.examples[..., 1] / self.examples.sum(-1)

    @property
    def conversion_rate(self) -> Any:
        """Of the examples that some members get right and some wrong, the share the ensemble gets right."""
        return self._share_right(1)

    @property
    def all_right_lost(self) -> Any:
        """Of the examples all members get right, the share the ensemble gets wrong."""
        return 1 - self._share_right(0)

    @property
    def all_wrong_gained(self) -> Any:
        """Of the examples all members get wrong, the share the ensemble gets right."""
        return self._share_right(2)

    def _share_right(self, which: int) -> Any:
        return ratio(self.right[..., which], self.examples[..., which])


def outcomes(right: np.ndarray, members: np.ndarray) -> Outcomes:
    """The outcomes of an ensemble that is `right` [N] where its members are right [M, N], or not.

    >>> outcomes(np.array([True, True, False]), np.array([[True, True, False], [True, False, False]])).right
    array([1., 1., 0.])
    """
    which = np.where(members.all(0), 0, np.where(members.any(0), 1, 2))
    return Outcomes(*(np.bincount(which, kept, 3) for kept in (np.ones(len(right)), right.astype(float))))


@dataclass(frozen=True, eq=False)
class EnsembleTable(ErrorTable):
    """An error table that also knows how many examples of each cell the ensemble gets right, `right` [..., 5].

    `right` may be None, where all there is are predictions; what follows from it is then None too.

    >>> table = EnsembleTable(np.array([70.0, 8.0, 6.0, 10.0, 6.0]), np.array([70.0, 6.0, 5.0, 0.0, 1.0]))
    >>> float(table.ensemble_accuracy), round(float(table.conversion_rate), 4), round(float(table.gain_over_best), 4)
    (0.82, 0.7857, 0.04)
    """

    right: Array | None = None

    @property
    def outcomes(self) -> Outcomes | None:
        """The same of all (both), some (one) and none of the two members."""
        if self.right is None:
            return None
        return Outcomes(_all_some_none(self.cells), _all_some_none(self.right))

    @property
    def ensemble_accuracy(self) -> Any:
        return None if self.outcomes is None else self.outcomes.accuracy

    @property
    def gain_over_mean(self) -> Any:
        """The ensemble's accuracy less the mean of its members'."""
        mean = (self.accuracy_first + self.accuracy_second) / 2
        return None if self.right is None else self.ensemble_accuracy - mean

    @property
    def gain_over_best(self) -> Any:
        """The ensemble's accuracy less that of the better member."""
        if self.right is None:
            return None
        first, second = self.accuracy_first, self.accuracy_second
        best = torch.maximum(first, second) if isinstance(first, Tensor) else np.maximum(first, second)
        return self.ensemble_accuracy - best

    @property
    def conversion_rate(self) -> Any:
        """Of the examples that exactly one member gets right, the share the ensemble gets right."""
        return None if self.outcomes is None else self.outcomes.conversion_rate

    @property
    def both_right_lost(self) -> Any:
        """Of the examples both members get right, the share the ensemble gets wrong."""
        return None if self.outcomes is None else self.outcomes.all_right_lost

    @property
    def both_wrong_gained(self) -> Any:
        """Of the examples both members get wrong, the share the ensemble gets right."""
        return None if self.outcomes is None else self.outcomes.all_wrong_gained


def _all_some_none(cells: Array) -> Array:
    """[..., 3] of the five cells: both right, one right, none right."""
    parts: list[Any] = [cells[..., 0], cells[..., 1] + cells[..., 2], cells[..., 3] + cells[..., 4]]
    return torch.stack(parts, -1) if isinstance(cells, Tensor) else np.stack(parts, -1)


def ensemble_table(probs_a: Array, probs_b: Array, labels: Array) -> EnsembleTable:
    """The table of two models and their ensemble, from calibrated probabilities [N, K] and labels [N].

    >>> p, q = [[0.6, 0.4], [0.3, 0.7]], [[0.1, 0.9], [0.2, 0.8]]
    >>> float(ensemble_table(p, q, [0, 1]).ensemble_accuracy)
    0.5
    """
    a, b = arrays.probabilities(probs_a, "first probabilities"), arrays.probabilities(probs_b, "second probabilities")
    if a.shape != b.shape:
        raise InputError(f"second probabilities: expected shape {list(a.shape)}, found {list(b.shape)}")
    y = arrays.labels(labels, a.shape[1], len(a)).to(a.device)
    b = b.to(a.device)
    counts = y.new_zeros(10)
    for start in range(0, len(y), CHUNK):
        rows = slice(start, start + CHUNK)
        counts += split_cells(a[rows].argmax(1), b[rows].argmax(1), ensemble(a[rows], b[rows]), y[rows])
    return from_split_cells(arrays.to_numpy(counts))


def ensemble(probs_a: Tensor, probs_b: Tensor) -> Tensor:
    """[N] the class with the greatest mean probability, the first of equals."""
    if probs_a.dtype in (torch.float16, torch.bfloat16):
        probs_a = probs_a.float()
    return (probs_a + probs_b).argmax(1)


def split_cells(a: Tensor, b: Tensor, joint: Tensor, y: Tensor) -> Tensor:
    """[10] counts of predictions in the five cells, first where the ensemble is right, then where it is wrong."""
    return torch.bincount(cell_of(a, b, y) + 5 * (joint != y), minlength=10)


def from_split_cells(counts: np.ndarray) -> EnsembleTable:
    """The table of counts [..., 10] as `split_cells` gives them."""
    right, wrong = counts[..., :5].astype(np.float64), counts[..., 5:].astype(np.float64)
    return EnsembleTable(right + wrong, right)
