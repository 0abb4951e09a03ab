"""The error table of two models, and every measure that follows from it.

The table has five cells: the 2x2 table of correctness, with its both-wrong cell split by whether the two models predict the
same wrong class. All measures are elementwise functions of the five cells, so that one pair, a matrix of pairs and a
thousand resamples share the same code.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from diversity._checks import class_indices
from zoo.core import arrays, checks
from zoo.core.arrays import Array
from zoo.core.backend import backend, is_tensor
from zoo.errors import InputError

CELLS = ("both_right", "only_first", "only_second", "same_wrong", "different_wrong")


@dataclass(frozen=True, eq=False)
class ErrorTable:
    """Counts [..., 5] of examples: both correct, only the first, only the second, same wrong class, different wrong classes.

    A measure whose denominator is 0 (agreement on errors of models without errors) is NaN. Kappa is an exception: it is 1 if
    both models are always correct or always wrong.

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
        """Number of examples for which both models predict the same wrong class."""
        return self.cells[..., 3]

    @property
    def both_wrong(self) -> Any:
        return self.cells[..., 3] + self.cells[..., 4]

    @property
    def inconsistent(self) -> Any:
        """Number of examples that exactly one model classifies correctly."""
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
        """Error inconsistency (Gontijo-Lopes et al. 2021): fraction of examples that exactly one model gets right."""
        return self.inconsistent / self.examples

    @property
    def kappa(self) -> Any:
        """Error consistency (Geirhos et al. 2020): Cohen's kappa of the two models' correctness."""
        first, second = self.accuracy_first, self.accuracy_second
        by_chance = first * (1 - second) + second * (1 - first)  # error inconsistency if errors were independent
        return 1 - ratio(self.inconsistency, by_chance, empty=0.0)

    @property
    def agreement(self) -> Any:
        """Fraction of examples with the same top-1 class."""
        return (self.both_right + self.same_wrong) / self.examples

    @property
    def disagreement(self) -> Any:
        """Fraction of examples with different top-1 classes."""
        return 1 - self.agreement

    @property
    def error_agreement(self) -> Any:
        """Fraction of examples that both models get right or both get wrong."""
        return 1 - self.inconsistency

    @property
    def wrong_agreement(self) -> Any:
        """Of the examples that both models get wrong, the fraction with the same predicted class."""
        return ratio(self.same_wrong, self.both_wrong)

    @property
    def dominance(self) -> Any:
        """P(second correct | first wrong), the dominance probability of Mania et al. 2019."""
        return ratio(self.only_second, self.first_wrong)

    @property
    def dominated(self) -> Any:
        """P(first correct | second wrong)."""
        return ratio(self.only_first, self.second_wrong)

    @property
    def q(self) -> Any:
        """Yule's Q of correctness: 0 for independent errors, 1 if one model's errors contain the other's."""
        alike, unlike = self.both_right * self.both_wrong, self.only_first * self.only_second
        return ratio(alike - unlike, alike + unlike)

    @property
    def correlation(self) -> Any:
        """Pearson's correlation (phi) of the two models' correctness."""
        first, second = self.accuracy_first, self.accuracy_second
        spread = (first * (1 - first) * second * (1 - second)) ** 0.5
        return ratio(self.both_right / self.examples - first * second, spread)

    @property
    def double_fault(self) -> Any:
        """Fraction of examples that both models get wrong."""
        return self.both_wrong / self.examples

    @property
    def mcnemar(self) -> Any:
        """Exact two-sided p-value of McNemar's test that both accuracies are equal."""
        from scipy.special import betaincc  # scipy.stats has the same function, and takes a second to import

        first, second = on_host(self.only_first), on_host(self.only_second)
        fewer, more = np.minimum(first, second), np.maximum(first, second)
        # P(X <= k) of X ~ Binomial(n, 1/2) is the regularised incomplete beta function I_{1/2}(n - k, k + 1).
        p = np.minimum(1.0, 2 * np.where(more == 0, 1.0, betaincc(fewer + 1, np.maximum(more, 1), 0.5)))[()]
        cells: Any = self.cells
        return arrays.tensor(p, "p").to(cells) if is_tensor(cells) else p


def error_table(pred_a: ArrayLike | Array, pred_b: ArrayLike | Array, labels: ArrayLike | Array) -> ErrorTable:
    """Return the error table of two models.

    Args:
        pred_a: [N] predicted classes of the first model; -1 for an example without a prediction, which counts as wrong.
        pred_b: [N] predicted classes of the second model.
        labels: [N] true classes.

    >>> error_table([0, 1, 2, 2], [0, 1, 1, 0], [0, 0, 2, 1]).cells
    array([1., 1., 0., 1., 1.])
    """
    cells = _cells(pred_a, pred_b, labels)
    return ErrorTable(arrays.to_numpy(backend(cells).bincount(cells, minlength=5)).astype(np.float64))


def error_tables(
    pred_a: ArrayLike | Array, pred_b: ArrayLike | Array, labels: ArrayLike | Array, group: np.ndarray, count: int
) -> ErrorTable:
    """Return one error table per group of examples, [count, 5]; `group` [N] holds numbers below `count`."""
    cells = arrays.to_numpy(_cells(pred_a, pred_b, labels))
    return ErrorTable(np.bincount(group * 5 + cells, minlength=5 * count).reshape(count, 5).astype(np.float64))


def cell_of(a: Any, b: Any, y: Any) -> Any:
    """Return the cell of each example [N], as an index into `CELLS`."""
    where = backend(a).where
    first, second = a == y, b == y
    wrong = where((a == b) & (a != checks.NO_PREDICTION), 3, 4)
    return where(first, where(second, 0, 1), where(second, 2, wrong))


def _cells(pred_a: ArrayLike | Array, pred_b: ArrayLike | Array, labels: ArrayLike | Array) -> Any:
    a = checks.optional_predictions(pred_a, name="pred_a")
    b = arrays.like(checks.optional_predictions(pred_b, rows=len(a), name="pred_b"), a)
    y = arrays.like(class_indices(labels, len(a)), a)
    if not len(a):
        raise InputError(argument="pred_a", expected="at least one example", found=0)
    return cell_of(a, b, y)


def error_inconsistency(pred_a: ArrayLike | Array, pred_b: ArrayLike | Array, labels: ArrayLike | Array) -> float:
    """Return the error inconsistency: the fraction of examples that exactly one of two models classifies correctly.

    Args:
        pred_a, pred_b, labels: [N], as in `error_table`.

    >>> error_inconsistency([0, 1, 2, 2], [0, 1, 1, 0], [0, 0, 2, 1])
    0.25
    """
    return float(error_table(pred_a, pred_b, labels).inconsistency)


def error_consistency(pred_a: ArrayLike | Array, pred_b: ArrayLike | Array, labels: ArrayLike | Array) -> float:
    """Return the error consistency, Cohen's kappa of correctness: 1 for identical errors, 0 for independent errors.

    Args:
        pred_a, pred_b, labels: [N], as in `error_table`.

    >>> error_consistency([0, 1, 2, 2], [0, 1, 1, 0], [0, 0, 2, 1])
    0.5
    """
    return float(error_table(pred_a, pred_b, labels).kappa)


def agreement(pred_a: ArrayLike | Array, pred_b: ArrayLike | Array) -> float:
    """Return the fraction of examples for which two models predict the same class.

    Args:
        pred_a, pred_b: [N], as in `error_table`; an example without a prediction agrees with nothing.

    >>> agreement([0, 1, 2, 2], [0, 1, 1, 0])
    0.5
    """
    a = checks.optional_predictions(pred_a, name="pred_a")
    # If the first model's predictions are the labels, the second agrees where it is correct.
    return float(error_table(a, pred_b, backend(a).clip(a, 0, None)).agreement)


def mcnemar(pred_a: ArrayLike | Array, pred_b: ArrayLike | Array, labels: ArrayLike | Array) -> float:
    """Return the exact two-sided p-value of McNemar's test that two models are equally accurate.

    Args:
        pred_a, pred_b, labels: [N], as in `error_table`.

    >>> mcnemar([0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 1, 1], [0, 0, 0, 0, 0, 0])
    0.03125
    """
    return float(error_table(pred_a, pred_b, labels).mcnemar)


def on_host(values: Any) -> np.ndarray:
    """Return a number, array or tensor as a NumPy array."""
    return arrays.to_numpy(values) if is_tensor(values) else np.asarray(values)


def ratio(part: Any, whole: Any, empty: float = np.nan) -> Any:
    """Return part / whole elementwise, or `empty` where `whole` is 0."""
    if is_tensor(whole):
        return backend(whole).where(whole == 0, empty, part / whole)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.where(whole == 0, empty, np.divide(part, whole))[()]
