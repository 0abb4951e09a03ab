"""Class separation: how much of the spread of a representation lies between classes (Kornblith et al. 2021, 3.3, E.1)."""

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch

from diversity._activations import Batches, matrix
from diversity.class_sums import ClassSums
from zoo.core import arrays
from zoo.core.class_spread import ClassSpread
from zoo.errors import InputError

Metric = Literal["cosine", "centered-cosine", "euclidean"]
METRICS: tuple[Metric, ...] = ("cosine", "centered-cosine", "euclidean")


@dataclass(frozen=True)
class ClassVariances:
    """Variances summed over dimensions, every class counting alike; for the cosine metrics, of unit vectors.

    Half a mean squared distance over pairs is a variance (eq. 17), and 1 - sim(x, y) = ||u - v||^2 / 2 for unit u, v:
    `within` and `total` are also the mean distances of eq. 11.
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

    @property
    def within_over_between(self) -> float:
        """1 / R^2 - 1 (eq. 21)."""
        return self.within / self.between if self.between else math.inf

    @property
    def between_over_within(self) -> float:
        """R^2 / (1 - R^2) (eq. 21)."""
        return self.between / self.within if self.within else math.inf

    @property
    def contrast(self) -> float:
        """(between - within) / (between + within) = 2 R^2 - 1 (eq. 21)."""
        return (self.between - self.within) / self.total


def class_separation(x: Any, labels: Any, metric: Metric = "cosine") -> float:
    """R^2 = 1 - d_within / d_total over activations x [N, ...] with classes `labels` [N]: 0 none, 1 complete.

    `cosine` is eq. 11; `centered-cosine` takes the mean activation off first; `euclidean` uses the squared distance
    (*our reading* of Table E.1: only then do cosine and Euclidean agree for embeddings of one length, as they do
    there for cosine softmax). All pairs count, an example with itself too, so a class of one example has distance 0.

    Every class counts alike. With balanced classes, one-hot labels Y and the centred cosine Gram matrix G of x, R^2 is
    CKA(Y, x; cosine kernel) times sqrt((K - 1) / r), where r = tr(G)^2 / ||G||_F^2 is the effective number of dimensions
    of x: equal to that CKA where the spread fills K - 1 dimensions evenly.

    >>> import numpy as np
    >>> x = np.array([[1.0, 0.1], [1.0, -0.1], [-1.0, 0.1], [-1.0, -0.1]])
    >>> round(class_separation(x, np.array([0, 0, 1, 1])), 4)
    0.9901
    """
    return class_variances(x, labels, metric).r2


def class_variances(x: Any, labels: Any, metric: Metric = "cosine") -> ClassVariances:
    """The variances behind `class_separation`, and the ratios that other work makes of them (eq. 21).

    x [N, ...], `labels` [N] and `metric` as there. A memory map or a column of outputs is read in batches, not loaded.

    >>> import numpy as np
    >>> x = np.array([[1.0, 0.1], [1.0, -0.1], [-1.0, 0.1], [-1.0, -0.1]])
    >>> found = class_variances(x, np.array([0, 0, 1, 1]), "euclidean")
    >>> [round(value, 4) for value in (found.within, found.between, found.total, found.r2, found.within_over_between)]
    [0.01, 1.0, 1.01, 0.9901, 0.01]
    """
    batches = Batches(x)
    centre = batches.means() if metric == "centered-cosine" else None
    sums = separation_sums(metric, centre)
    y = arrays.labels(labels, rows=len(batches))
    for span, rows in batches:
        sums.update(rows, y[span])
    return variances(sums)


def separation_sums(metric: Metric, centre: torch.Tensor | None = None, name: str = "x") -> ClassSums:
    """What to `update` batch by batch and then pass to `variances`, for activations that stream by.

    `centered-cosine` needs the mean activation [D] before the first batch: take it in an earlier pass.
    """
    if metric not in METRICS:
        raise InputError(f"metric: expected one of {', '.join(METRICS)}, found {metric!r}")
    if metric == "centered-cosine" and centre is None:
        raise InputError(f"{name}: centered-cosine over a stream needs the mean activation first, in `centre`")
    return ClassSums(unit=metric != "euclidean", centre=centre if metric == "centered-cosine" else None, name=name)


def variances(sums: ClassSums) -> ClassVariances:
    """The variances of activations that were summed class by class."""
    spread = ClassSpread()
    spread.add(sums.counts, sums.sums, sums.squares)
    return _checked(spread, sums)


class OrderedSeparation:
    """Class separation over a stream of batches whose labels never decrease, for layers too wide to sum every class.

    A convolutional layer of ResNet-50 has 800,000 activations; times 1,000 classes that is 6 GB. In class order one
    class's sum is open at a time, and of a finished class little has to be kept.

    >>> import numpy as np
    >>> meter = OrderedSeparation("cosine")
    >>> meter.update(np.array([[1.0, 0.1], [1.0, -0.1], [-1.0, 0.1]]), np.array([0, 0, 1]))
    >>> meter.update(np.array([[-1.0, -0.1]]), np.array([1]))
    >>> round(meter.result().r2, 4)
    0.9901
    """

    def __init__(self, metric: Metric, centre: torch.Tensor | None = None, name: str = "x") -> None:
        self._sums = separation_sums(metric, centre, name)  # of the open class, in its slot 0
        self._label: int | None = None  # of the open class
        self._finished = ClassSpread()

    def update(self, x: Any, labels: Any) -> None:
        """Take a batch of activations [n, ...] with their class indices [n]."""
        sums = self._sums
        rows = matrix(x, sums.name)
        y = arrays.labels(labels, rows=len(rows)).to(rows.device)
        if bool((y.diff() < 0).any()) or (self._label is not None and int(y[0]) < self._label):
            raise InputError(f"{sums.name}: expected examples sorted by class, found a smaller label after a larger one")
        classes, slots = torch.unique_consecutive(y, return_inverse=True)
        if self._label is not None and int(classes[0]) != self._label:
            slots = slots + 1
        sums.update(rows, slots)
        self._label = int(classes[-1])
        self._finish(len(sums.counts) - 1)

    def _finish(self, classes: int) -> None:
        """Keep what is needed of the classes of the first slots, and free their slots."""
        sums = self._sums
        done = slice(0, classes)
        self._finished.add(sums.counts[done], sums.sums[done], sums.squares[done])
        sums.counts, sums.squares = sums.counts[classes:].clone(), sums.squares[classes:].clone()
        sums.sums = sums.sums[classes:].clone()

    def result(self) -> ClassVariances:
        """The variances over all classes; nothing can be added after."""
        self._finish(len(self._sums.counts))
        return _checked(self._finished, self._sums)


def _checked(spread: ClassSpread, sums: ClassSums) -> ClassVariances:
    """Variances that rounding has not made negative, or an error where rounding is all there is to them."""
    if spread.classes < 2:
        raise InputError(f"{sums.name}: class separation needs at least two classes with examples, found {spread.classes}")
    within, between = spread.variances()
    if within + between <= sums.rounding:
        raise InputError(f"{sums.name}: all examples are the same vector, so there is no spread to separate")
    return ClassVariances(max(within, 0.0), max(between, 0.0))
