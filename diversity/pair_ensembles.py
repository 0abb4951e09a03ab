"""The ensemble of two models: its accuracy, its gain, and on which examples it is correct.

The ensemble averages the two models' calibrated probabilities. Its number of correct examples is counted for each cell of
the error table.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from diversity.tables import ErrorTable, cell_of, ratio
from zoo.core import arrays, checks
from zoo.core.arrays import Array
from zoo.core.backend import backend, cast, dtype_name, zeros
from zoo.errors import InputError

CHUNK = 2048


@dataclass(frozen=True, eq=False)
class Outcomes:
    """Examples that all, some or none of the members classify correctly, and how many of them the ensemble does.

    >>> table = Outcomes(np.array([70.0, 14.0, 16.0]), np.array([70.0, 11.0, 1.0]))
    >>> float(table.accuracy), round(float(table.conversion_rate), 4), float(table.all_wrong_gained)
    (0.82, 0.7857, 0.0625)
    """

    examples: Array  # [..., 3]: all, some, none
    right: Array  # [..., 3] number that the ensemble classifies correctly

    @property
    def accuracy(self) -> Any:
        return self.right.sum(-1) / self.examples.sum(-1)

    @property
    def inconsistency(self) -> Any:
        """Fraction of examples that some members get right and some get wrong."""
        return self.examples[..., 1] / self.examples.sum(-1)

    @property
    def conversion_rate(self) -> Any:
        """Of the examples that some members get right and some get wrong, the fraction that the ensemble gets right."""
        return self._fraction_right(1)

    @property
    def all_right_lost(self) -> Any:
        """Of the examples that all members get right, the fraction that the ensemble gets wrong."""
        return 1 - self._fraction_right(0)

    @property
    def all_wrong_gained(self) -> Any:
        """Of the examples that all members get wrong, the fraction that the ensemble gets right."""
        return self._fraction_right(2)

    def _fraction_right(self, which: int) -> Any:
        return ratio(self.right[..., which], self.examples[..., which])


def outcomes(right: np.ndarray, members: np.ndarray) -> Outcomes:
    """Return the outcomes of an ensemble.

    Args:
        right: [N] whether the ensemble is correct.
        members: [M, N] whether each member is correct.

    >>> outcomes(np.array([True, True, False]), np.array([[True, True, False], [True, False, False]])).right
    array([1., 1., 0.])
    """
    which = np.where(members.all(0), 0, np.where(members.any(0), 1, 2))
    return Outcomes(*(np.bincount(which, weights, 3) for weights in (np.ones(len(right)), right.astype(float))))


@dataclass(frozen=True, eq=False)
class EnsembleTable(ErrorTable):
    """An error table with the number of examples per cell that the ensemble classifies correctly, `right` [..., 5].

    If only predictions are known, `right` and every measure of the ensemble are None. The gain over the mean member has
    three parts, as fractions of all examples, with inconsistency d and conversion rate c:
    gain_over_mean = d (c - 1/2) - loss_both_right + gain_both_wrong.

    >>> table = EnsembleTable(np.array([70.0, 8.0, 6.0, 10.0, 6.0]), np.array([70.0, 6.0, 5.0, 0.0, 1.0]))
    >>> float(table.ensemble_accuracy), round(float(table.conversion_rate), 4), round(float(table.gain_over_best), 4)
    (0.82, 0.7857, 0.04)
    """

    right: Array | None = None

    @property
    def outcomes(self) -> Outcomes | None:
        """The outcomes of the ensemble of two members: both, one or none of them correct."""
        if self.right is None:
            return None
        return Outcomes(_all_some_none(self.cells), _all_some_none(self.right))

    @property
    def ensemble_accuracy(self) -> Any:
        return None if self.outcomes is None else self.outcomes.accuracy

    @property
    def gain_over_mean(self) -> Any:
        """Accuracy of the ensemble minus the mean accuracy of its members."""
        mean = (self.accuracy_first + self.accuracy_second) / 2
        return None if self.right is None else self.ensemble_accuracy - mean

    @property
    def gain_over_best(self) -> Any:
        """Accuracy of the ensemble minus that of the better member."""
        if self.right is None:
            return None
        first, second = self.accuracy_first, self.accuracy_second
        return self.ensemble_accuracy - backend(first).maximum(first, second)

    @property
    def conversion_rate(self) -> Any:
        """Of the examples that exactly one member gets right, the fraction that the ensemble gets right."""
        return None if self.outcomes is None else self.outcomes.conversion_rate

    @property
    def both_right_lost(self) -> Any:
        """Of the examples that both members get right, the fraction that the ensemble gets wrong."""
        return None if self.outcomes is None else self.outcomes.all_right_lost

    @property
    def both_wrong_gained(self) -> Any:
        """Of the examples that both members get wrong, the fraction that the ensemble gets right."""
        return None if self.outcomes is None else self.outcomes.all_wrong_gained

    @property
    def gain_from_conversion(self) -> Any:
        """First part of the gain over the mean: d (c - 1/2), which is 0 if no example is inconsistent."""
        found = self.outcomes
        return None if found is None else (found.right[..., 1] - found.examples[..., 1] / 2) / self.examples

    @property
    def loss_both_right(self) -> Any:
        """Second part: fraction of all examples that both members get right and the ensemble gets wrong."""
        found = self.outcomes
        return None if found is None else (found.examples[..., 0] - found.right[..., 0]) / self.examples

    @property
    def gain_both_wrong(self) -> Any:
        """Third part: fraction of all examples that both members get wrong and the ensemble gets right."""
        found = self.outcomes
        return None if found is None else found.right[..., 2] / self.examples


def _all_some_none(cells: Array) -> Array:
    """Return the counts [..., 3] of both right, one right and none right, from the five cells."""
    parts: list[Any] = [cells[..., 0], cells[..., 1] + cells[..., 2], cells[..., 3] + cells[..., 4]]
    stacked: Array = backend(cells).stack(parts, -1)
    return stacked


def ensemble_table(probs_a: ArrayLike | Array, probs_b: ArrayLike | Array, labels: ArrayLike | Array) -> EnsembleTable:
    """Return the error table of two models and their ensemble.

    Args:
        probs_a: [N, K] calibrated probabilities of the first model.
        probs_b: [N, K] calibrated probabilities of the second model.
        labels: [N] true classes.

    >>> p, q = [[0.6, 0.4], [0.3, 0.7]], [[0.1, 0.9], [0.2, 0.8]]
    >>> float(ensemble_table(p, q, [0, 1]).ensemble_accuracy)
    0.5
    """
    a, b = checks.probabilities(probs_a, "probs_a"), checks.probabilities(probs_b, "probs_b")
    if a.shape != b.shape:
        raise InputError(argument="probs_b", expected=f"of the shape of probs_a, {list(a.shape)}", found=list(b.shape))
    a = arrays.by_size(a, math.prod(a.shape))
    y, b = arrays.like(checks.labels(labels, a.shape[1], len(a)), a), arrays.like(b, a)
    counts = zeros((10,), y)
    for start in range(0, len(y), CHUNK):
        rows = slice(start, start + CHUNK)
        counts += split_cells(a[rows].argmax(1), b[rows].argmax(1), ensemble(a[rows], b[rows]), y[rows])
    return from_split_cells(arrays.to_numpy(counts))


def ensemble(probs_a: Any, probs_b: Any) -> Any:
    """Return the class with the highest mean probability [N]; ties go to the first class."""
    if dtype_name(probs_a) in ("float16", "bfloat16"):
        probs_a = cast(probs_a, "float32")
    return (probs_a + probs_b).argmax(1)


def split_cells(a: Any, b: Any, joint: Any, y: Any) -> Any:
    """Return the counts of the five cells where the ensemble is correct, then of those where it is wrong: [10].

    Args:
        a: [N] predictions of the first model.
        b: [N] predictions of the second model.
        joint: [N] predictions of the ensemble.
        y: [N] labels.
    """
    return backend(y).bincount(cell_of(a, b, y) + 5 * (joint != y), minlength=10)


def from_split_cells(counts: np.ndarray) -> EnsembleTable:
    """Return the table of counts [..., 10] from `split_cells`."""
    right, wrong = counts[..., :5].astype(np.float64), counts[..., 5:].astype(np.float64)
    return EnsembleTable(right + wrong, right)
