"""Class separation of activations that come class by class, for layers too wide to keep a sum for every class.

A convolutional layer of ResNet-50 has 800,000 activations; times 1,000 classes that is 6 GB. In class order one class's sum
is open at a time, and a finished class leaves behind the mean's squared norm and its share of the overall mean.
"""

from typing import Any

import torch

from diversity._activations import matrix
from diversity.separation import ClassVariances, Metric, checked_variances, separation_sums
from zoo import arrays
from zoo.errors import InputError


class OrderedSeparation:
    """Class separation over a stream of batches whose labels never decrease.

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
        self._classes = 0  # finished
        self._within = 0.0  # summed over finished classes
        self._squares = 0.0  # squared norms of their means, summed
        self._means: torch.Tensor | None = None  # their means, summed

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
        """Reduce the classes of the first slots to what is needed of them, and free their slots."""
        sums = self._sums
        counts = sums.counts[:classes]
        means = sums.sums[:classes] / counts[:, None]
        norms = torch.linalg.vector_norm(means, dim=1).square()
        self._within += float((sums.squares[:classes] / counts - norms).sum())
        self._squares += float(norms.sum())
        self._means = means.sum(0) if self._means is None else self._means + means.sum(0)
        self._classes += classes
        sums.counts, sums.squares = sums.counts[classes:].clone(), sums.squares[classes:].clone()
        sums.sums = sums.sums[classes:].clone()

    def result(self) -> ClassVariances:
        """The variances over all classes; nothing can be added after."""
        self._finish(len(self._sums.counts))
        if self._means is None or self._classes < 2:
            raise InputError(
                f"{self._sums.name}: class separation needs at least two classes with examples, found {self._classes}"
            )
        between = self._squares / self._classes - float((self._means / self._classes).square().sum())
        return checked_variances(self._within / self._classes, between, self._sums)
