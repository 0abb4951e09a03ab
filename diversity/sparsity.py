"""Activation sparsity: the fraction of a layer's activations that are not zero (Kornblith et al. 2021, Fig. 3)."""

import torch
from numpy.typing import ArrayLike

from diversity._activations import chunks, matrix, row_norms
from zoo.core.arrays import Array
from zoo.errors import InputError


class SparsityMeter:
    """Fraction of non-zero activations of one layer over a stream of batches [n, ...].

    `rectified` is False once an activation was negative. The layer then does not end in a ReLU, and the fraction says little
    about it.

    >>> meter = SparsityMeter()
    >>> meter.update(torch.tensor([[0.0, 1.0, 2.0, 0.0]]))
    >>> meter.update(torch.tensor([[0.0, 0.0, 3.0, 0.0]]))
    >>> meter.nonzero_fraction, meter.rectified
    (0.375, True)
    """

    def __init__(self, name: str = "x") -> None:
        self.name = name
        self.rows = 0
        self.rectified = True
        self._nonzero = 0
        self._total = 0

    def update(self, x: ArrayLike | Array) -> None:
        """Add a batch of activations [n, ...]."""
        values = matrix(x, self.name)
        for start, part in chunks(values):
            row_norms(part, self.name, self.rows + start)  # NaN would count as non-zero
            self._nonzero += int(torch.count_nonzero(part))
            self._total += part.numel()
            self.rectified = self.rectified and bool(part.amin() >= 0)
        self.rows += len(values)

    @property
    def nonzero_fraction(self) -> float:
        if not self._total:
            raise InputError("no batch of activations was added", where=self.name)
        return self._nonzero / self._total


def nonzero_fraction(x: ArrayLike | Array) -> float:
    """Return the fraction of non-zero activations in x [N, ...], over all examples, channels and positions.

    >>> import numpy as np
    >>> nonzero_fraction(np.array([[0.0, 1.0, 2.0, 0.0]]))
    0.5
    """
    meter = SparsityMeter()
    meter.update(x)
    return meter.nonzero_fraction
