"""Class separation: the fraction of an embedding's variance that is between classes (Kornblith et al. 2021, 3.3, E.1)."""

from dataclasses import dataclass
from typing import Literal

import torch
from numpy.typing import ArrayLike

from diversity._activations import Batches, matrix
from diversity._checks import class_indices
from diversity.class_sums import ClassSums
from zoo.core import arrays
from zoo.core.arrays import Array
from zoo.core.class_spread import ClassSpread
from zoo.core.columns import Column
from zoo.errors import InputError

Metric = Literal["cosine", "centered-cosine", "euclidean"]
METRICS: tuple[Metric, ...] = ("cosine", "centered-cosine", "euclidean")


@dataclass(frozen=True)
class ClassVariances:
    """Variances summed over dimensions, with equal weight for every class; for the cosine metrics, of unit vectors.

    Half of a mean squared distance over pairs is a variance (eq. 17), and 1 - sim(x, y) = ||u - v||^2 / 2 for unit vectors
    u, v. So `within` and `total` are also the mean distances of eq. 11.
    """

    within: float
    between: float

    @property
    def total(self) -> float:
        return self.within + self.between

    @property
    def r2(self) -> float:
        """Class separation R^2 = 1 - within / total (eq. 11, eq. 20)."""
        return self.between / self.total


def class_separation(x: ArrayLike | Array | Column, labels: ArrayLike | Array, metric: Metric = "cosine") -> float:
    """Return the class separation R^2 = 1 - d_within / d_total: 0 for none, 1 for complete separation.

    Every class has equal weight. All pairs of examples count, including each example with itself, so a class of one example
    has within-class distance 0. With balanced classes, one-hot labels Y and the centred cosine Gram matrix G of x, R^2
    equals CKA(Y, x; cosine kernel) times sqrt((K - 1) / r), where r = tr(G)^2 / ||G||_F^2 is the effective dimension of x.
    The two are equal if the variance is spread evenly over K - 1 dimensions.

    Args:
        x: activations [N, ...]; memory maps and columns of outputs are read in batches.
        labels: [N] class indices.
        metric: `cosine` is eq. 11, `centered-cosine` subtracts the mean activation first, `euclidean` uses the squared
            distance (*our reading* of Table E.1: only then do cosine and Euclidean agree for embeddings of equal length, as
            they do there for cosine softmax).

    >>> import numpy as np
    >>> x = np.array([[1.0, 0.1], [1.0, -0.1], [-1.0, 0.1], [-1.0, -0.1]])
    >>> round(class_separation(x, np.array([0, 0, 1, 1])), 4)
    0.9901
    """
    return class_variances(x, labels, metric).r2


def class_variances(x: ArrayLike | Array | Column, labels: ArrayLike | Array, metric: Metric = "cosine") -> ClassVariances:
    """Return the variances whose ratio is `class_separation`. Arguments as there.

    >>> import numpy as np
    >>> x = np.array([[1.0, 0.1], [1.0, -0.1], [-1.0, 0.1], [-1.0, -0.1]])
    >>> found = class_variances(x, np.array([0, 0, 1, 1]), "euclidean")
    >>> [round(value, 4) for value in (found.within, found.between, found.total, found.r2)]
    [0.01, 1.0, 1.01, 0.9901]
    """
    batches = Batches(x)
    centre = batches.means() if metric == "centered-cosine" else None
    sums = separation_sums(metric, centre)
    y = class_indices(labels, len(batches))
    for span, rows in batches:
        sums.update(rows, y[span])
    return variances(sums)


def separation_sums(metric: Metric, centre: torch.Tensor | None = None, name: str = "x") -> ClassSums:
    """Return the empty class sums of a metric, to be updated batch by batch and passed to `variances`.

    Args:
        metric: as in `class_separation`.
        centre: [D] mean activation; `centered-cosine` needs it before the first batch.
        name: the name of the activations in error messages.
    """
    if metric not in METRICS:
        raise InputError(argument="metric", expected=f"one of {', '.join(METRICS)}", found=metric)
    if metric == "centered-cosine" and centre is None:
        raise InputError(
            "centered-cosine needs the mean activation before the first batch",
            where=name,
            argument="centre",
            hint="Compute it in an earlier pass",
        )
    return ClassSums(unit=metric != "euclidean", centre=centre if metric == "centered-cosine" else None, name=name)


def variances(sums: ClassSums) -> ClassVariances:
    """Return the variances within and between classes from class sums."""
    spread = ClassSpread()
    spread.add(sums.counts, sums.sums, sums.squares)
    return _checked(spread, sums)


class OrderedSeparation:
    """Class separation over a stream of batches whose labels never decrease, for layers with many activations.

    A convolutional layer of ResNet-50 has 800,000 activations; sums for 1,000 classes would take 6 GB. With examples sorted
    by class, only the sum of the current class is stored, and a few numbers of each finished class.

    Args:
        metric, centre, name: as in `separation_sums`.

    >>> import numpy as np
    >>> meter = OrderedSeparation("cosine")
    >>> meter.update(np.array([[1.0, 0.1], [1.0, -0.1], [-1.0, 0.1]]), np.array([0, 0, 1]))
    >>> meter.update(np.array([[-1.0, -0.1]]), np.array([1]))
    >>> round(meter.result().r2, 4)
    0.9901
    """

    def __init__(self, metric: Metric, centre: torch.Tensor | None = None, name: str = "x") -> None:
        self._sums = separation_sums(metric, centre, name)  # the current class is in slot 0
        self._label: int | None = None  # the current class
        self._finished = ClassSpread()

    def update(self, x: ArrayLike | Array, labels: ArrayLike | Array) -> None:
        """Add a batch of activations [n, ...] with class indices [n]."""
        sums = self._sums
        rows = matrix(x, sums.name)
        y = arrays.like(class_indices(labels, len(rows)), rows)
        if bool((y.diff() < 0).any()) or (self._label is not None and int(y[0]) < self._label):
            raise InputError("examples are not sorted by class: a label is smaller than one before it", where=sums.name)
        classes, slots = torch.unique_consecutive(y, return_inverse=True)
        if self._label is not None and int(classes[0]) != self._label:
            slots = slots + 1
        sums.update(rows, slots)
        self._label = int(classes[-1])
        self._finish(len(sums.counts) - 1)

    def _finish(self, classes: int) -> None:
        """Add the classes of the first slots to the finished ones, and free their slots."""
        sums = self._sums
        done = slice(0, classes)
        self._finished.add(sums.counts[done], sums.sums[done], sums.squares[done])
        sums.counts, sums.squares = sums.counts[classes:].clone(), sums.squares[classes:].clone()
        sums.sums = sums.sums[classes:].clone()

    def result(self) -> ClassVariances:
        """Return the variances over all classes. No batch can be added afterwards."""
        self._finish(len(self._sums.counts))
        return _checked(self._finished, self._sums)


def _checked(spread: ClassSpread, sums: ClassSums) -> ClassVariances:
    """Return variances of at least 0, or raise an error if they are no larger than rounding errors."""
    if spread.classes < 2:
        raise InputError(where=sums.name, argument="labels", expected="of at least two classes", found=spread.classes)
    within, between = spread.variances()
    if within + between <= sums.rounding:
        raise InputError("all examples have the same activations, so class separation is undefined", where=sums.name)
    return ClassVariances(max(within, 0.0), max(between, 0.0))
