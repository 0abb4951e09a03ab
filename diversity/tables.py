"""Right and wrong together: the table of two models' errors, and every measure that follows from it.

The 2x2 table of correctness has its both-wrong corner split by whether the two name the same wrong class, which makes five
cells. All measures are functions of the five, elementwise, so that one pair, a matrix of pairs and a thousand resamples of
either are the same code.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from zoo.core import arrays
from zoo.core.arrays import Array
from zoo.errors import InputError

CELLS = ("both_right", "only_first", "only_second", "same_wrong", "different_wrong")


@dataclass(frozen=True, eq=False)
class ErrorTable:
    """Counts [..., 5] of examples: both right, only the first, only the second, both wrong alike, both wrong differently.

    A measure that has nothing to count (agreement on errors of models that make none) is NaN, except that models which are
    never or always wrong together have kappa 1.

    >>> table = ErrorTable(np.array([70.0, 8.0, 6.0, 10.0, 6.0]))
    >>> float(table.inconsistency), float(table.wrong_agreement)
    (0.14, 0.625)
    """

    cells: Array

    @property
    def both_right(self) -> Any:
        return self.cells[..., 0]

    @property
    def only_first(self) -> Any:
        return self.cells[..., 1]

    @property
    def only_second(self) -> Any:
        return self.cells[..., 2]

    @property
    def same_wrong(self) -> Any:
        """Both wrong, with the same class."""
        return self.cells[..., 3]

    @property
    def both_wrong(self) -> Any:
        return self.cells[..., 3] + self.cells[..., 4]

    @property
    def inconsistent(self) -> Any:
        """Exactly one of the two is right."""
        return self.only_first + self.only_second

    @property
    def first_wrong(self) -> Any:
        return self.only_second + self.both_wrong

    @property
    def second_wrong(self) -> Any:
        return self.only_first + self.both_wrong

    @property
    def examples(self) -> Any:
        return self.cells.sum(-1)

    @property
    def accuracy_first(self) -> Any:
        return (self.both_right + self.only_first) / self.examples

    @property
    def accuracy_second(self) -> Any:
        return (self.both_right + self.only_second) / self.examples

    @property
    def inconsistency(self) -> Any:
        """Share of examples that exactly one of the two gets right: the error inconsistency of Gontijo-Lopes et al. 2021."""
        return self.inconsistent / self.examples

    @property
    def kappa(self) -> Any:
        """Error consistency: Cohen's kappa of the two correctnesses (Geirhos et al. 2020)."""
        first, second = self.accuracy_first, self.accuracy_second
        by_chance = first * (1 - second) + second * (1 - first)  # inconsistency of independent errors
        return 1 - ratio(self.inconsistency, by_chance, empty=0.0)

    @property
    def agreement(self) -> Any:
        """Share of examples with the same top-1 class."""
        return (self.both_right + self.same_wrong) / self.examples

    @property
    def disagreement(self) -> Any:
        """Share of examples with different top-1 classes."""
        return 1 - self.agreement

    @property
    def error_agreement(self) -> Any:
        """Share of examples that both get right or both get wrong."""
        return 1 - self.inconsistency

    @property
    def wrong_agreement(self) -> Any:
        """Of the examples both get wrong, the share where they name the same class."""
        return ratio(self.same_wrong, self.both_wrong)

    @property
    def dominance(self) -> Any:
        """P(second right | first wrong): what the first misses and the second sees (Mania et al. 2019)."""
        return ratio(self.only_second, self.first_wrong)

    @property
    def dominated(self) -> Any:
        """P(first right | second wrong)."""
        return ratio(self.only_first, self.second_wrong)

    @property
    def q(self) -> Any:
        """Yule's Q of the correctnesses: 0 for independent errors, 1 for nested ones."""
        alike, unlike = self.both_right * self.both_wrong, self.only_first * self.only_second
        return ratio(alike - unlike, alike + unlike)

    @property
    def correlation(self) -> Any:
        """Pearson's correlation of the correctnesses (phi)."""
        first, second = self.accuracy_first, self.accuracy_second
        spread = (first * (1 - first) * second * (1 - second)) ** 0.5
        return ratio(self.both_right / self.examples - first * second, spread)

    @property
    def double_fault(self) -> Any:
        """Share of examples both get wrong."""
        return self.both_wrong / self.examples

    @property
    def mcnemar(self) -> Any:
        """Exact two-sided p-value of equal accuracies: the discordant examples as tosses of a fair coin."""
        from scipy.stats import binom  # SciPy's binomtest takes one table at a time

        first, second = on_host(self.only_first), on_host(self.only_second)
        p = np.minimum(1.0, 2 * binom.cdf(np.minimum(first, second), first + second, 0.5))
        return torch.as_tensor(p).to(self.cells) if isinstance(self.cells, Tensor) else p


def error_table(pred_a: Array, pred_b: Array, labels: Array) -> ErrorTable:
    """The table of two models' predicted classes [N], -1 for no answer, against the labels [N].

    >>> error_table([0, 1, 2, 2], [0, 1, 1, 0], [0, 0, 2, 1]).cells
    array([1., 1., 0., 1., 1.])
    """
    return ErrorTable(arrays.to_numpy(torch.bincount(_cells(pred_a, pred_b, labels), minlength=5)).astype(np.float64))


def error_tables(pred_a: Array, pred_b: Array, labels: Array, group: np.ndarray, count: int) -> ErrorTable:
    """The tables [count, 5] of the examples of each group; `group` [N] numbers them."""
    cells = arrays.to_numpy(_cells(pred_a, pred_b, labels))
    return ErrorTable(np.bincount(group * 5 + cells, minlength=5 * count).reshape(count, 5).astype(np.float64))


def cell_of(a: Tensor, b: Tensor, y: Tensor) -> Tensor:
    """[N] which of the five cells each example falls in."""
    first, second = a == y, b == y
    wrong = torch.where((a == b) & (a != arrays.NO_PREDICTION), 3, 4)
    return torch.where(first, torch.where(second, 0, 1), torch.where(second, 2, wrong))


def _cells(pred_a: Array, pred_b: Array, labels: Array) -> Tensor:
    a = arrays.optional_predictions(pred_a, name="first predictions")
    b = arrays.optional_predictions(pred_b, rows=len(a), name="second predictions").to(a.device)
    y = arrays.labels(labels, rows=len(a)).to(a.device)
    if not len(a):
        raise InputError("predictions: expected at least one example, found none")
    return cell_of(a, b, y)


def error_inconsistency(pred_a: Array, pred_b: Array, labels: Array) -> float:
    """Share of examples that exactly one of two models gets right; 0 to 1, symmetric.

    >>> error_inconsistency([0, 1, 2, 2], [0, 1, 1, 0], [0, 0, 2, 1])
    0.25
    """
    return float(error_table(pred_a, pred_b, labels).inconsistency)


def error_consistency(pred_a: Array, pred_b: Array, labels: Array) -> float:
    """Cohen's kappa of the two correctnesses: 1 for the same errors, 0 for independent ones.

    >>> error_consistency([0, 1, 2, 2], [0, 1, 1, 0], [0, 0, 2, 1])
    0.5
    """
    return float(error_table(pred_a, pred_b, labels).kappa)


def agreement(pred_a: Array, pred_b: Array) -> float:
    """Share of examples on which two models name the same class; needs no labels.

    >>> agreement([0, 1, 2, 2], [0, 1, 1, 0])
    0.5
    """
    a = arrays.optional_predictions(pred_a, name="first predictions")
    # Against labels that are always the first's own predictions, agreeing is being right.
    return float(error_table(a, pred_b, a.clamp(min=0)).agreement)


def mcnemar(pred_a: Array, pred_b: Array, labels: Array) -> float:
    """Exact two-sided p-value of McNemar's test that two models are equally accurate.

    >>> mcnemar([0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0])
    0.03125
    """
    return float(error_table(pred_a, pred_b, labels).mcnemar)


def on_host(values: Any) -> np.ndarray:
    """Counts or shares as NumPy's, wherever they are."""
    return arrays.to_numpy(values) if isinstance(values, Tensor) else np.asarray(values)


def ratio(part: Any, whole: Any, empty: float = np.nan) -> Any:
    """part / whole, or `empty` where there is nothing to divide by."""
    if isinstance(whole, Tensor):
        return torch.where(whole == 0, empty, part / whole)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(whole == 0, empty, np.divide(part, whole))[()]
