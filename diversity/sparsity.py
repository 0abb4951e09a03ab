"""Activation sparsity: the share of a layer's activations that are not zero (Kornblith et al. 2021, Fig. 3)."""

from typing import Any

import torch

from diversity._activations import chunks, matrix, row_norms
from zoo.errors import InputError


class SparsityMeter:
    """Counts the non-zero activations of one layer over a stream of batches [n, ...] (Fig. 3).

    `rectified` tells whether any activation was negative: the share says something about a layer after its ReLU, and
    next to nothing about one that was never rectified.

    >>> meter = SparsityMeter()
    >>> meter.update(torch.tensor([[0.0, 1.0, 2.0, 0.0]]))
    >>> meter.update(torch.tensor([[0.0, 0.0, 3.0, 0.0]]))
    >>> meter.nonzero_share, meter.rectified
    (0.375, True)
    """

    def __init__(self, name: str = "x") -> None:
        self.name = name
        self.rows = 0
        self.rectified = True
        self._nonzero = 0
        self._seen = 0

    def update(self, x: Any) -> None:
        """Take a batch of activations [n, ...]."""
        for start, part in chunks(matrix(x, self.name)):
            row_norms(part, self.name, self.rows + start)  # NaN would count as not zero
            self._nonzero += int(torch.count_nonzero(part))
            self._seen += part.numel()
            self.rectified = self.rectified and bool(part.amin() >= 0)
        self.rows += len(x)

    @property
    def nonzero_share(self) -> float:
        if not self._seen:
            raise InputError(f"{self.name}: no activations were seen, expected at least one batch")
        return self._nonzero / self._seen


def nonzero_share(x: Any) -> float:
    """The share of non-zero entries in activations x [N, ...], over all examples, channels and positions.

    >>> import numpy as np
    >>> nonzero_share(np.array([[0.0, 1.0, 2.0, 0.0]]))
    0.5
    """
    meter = SparsityMeter()
    meter.update(x)
    return meter.nonzero_share
