"""The summed loss of a linear classifier over all rows, and its derivatives; rows in memory or read block by block."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from probes._losses import Expansion, Loss
from probes._rows import Rows


@dataclass(frozen=True)
class Point:
    """Parameters with their summed loss. Fields that grow with N are kept only for rows in memory."""

    parameters: Tensor  # [K, r + 1]
    value: Tensor  # [G] float64
    logits: Tensor  # [N, K]; [0, K] if rows are streamed
    expansion: Expansion | None  # of all rows; None if rows are streamed
    gradient: Tensor | None  # [K, r + 1]; None if not computed yet


class Examples:
    """Features [N, r + 1] whose last column is one, with their loss.

    In memory, logits are kept from one call to the next: they are linear in the parameters, so a step along a direction
    whose change of the logits is known costs no matrix product. If rows are streamed, each call is a pass over them, and a
    second derivative computes the logits again, which costs half a product more. `products` counts the passes over the
    features, forward and backward together as one.
    """

    def __init__(self, values: Tensor | Rows, loss: Loss) -> None:
        self.values, self.loss = values, loss
        self.products = 0.0

    def __len__(self) -> int:
        return len(self.values)

    def blocks(self) -> Iterator[tuple[slice, Tensor, Loss]]:
        """Yield (slice, features, loss) of consecutive rows: all rows at once if they are in memory."""
        if isinstance(self.values, Tensor):
            yield slice(0, len(self.values)), self.values, self.loss
        else:
            for span, values in self.values.blocks():
                yield span, values, self.loss.select(span)

    def subsample(self, count: int) -> "Examples":
        """Return about `count` evenly spaced rows if rows are streamed; all rows if they are in memory or not many more."""
        step = len(self) // count
        if isinstance(self.values, Tensor) or step < 2:
            return self
        return Examples(self.values.rows(np.arange(0, len(self), step)), self.loss.select(slice(0, len(self), step)))

    def expanded(self, point: Point) -> Iterator[tuple[slice, Tensor, Loss, Expansion]]:
        """Yield the blocks with their losses expanded around a point."""
        for span, values, loss in self.blocks():
            yield span, values, loss, point.expansion or loss.expand(values @ point.parameters.T)

    def at(self, parameters: Tensor, logits: Tensor | None = None) -> Point:
        """Return the summed loss at parameters [K, r + 1]. In memory, known `logits` [N, K] save a product."""
        if isinstance(self.values, Tensor):
            if logits is None:
                self.products += 0.5
                logits = self.values @ parameters.T
            expansion = self.loss.expand(logits)
            return Point(parameters, expansion.value, logits, expansion, None)
        self.products += 1
        value, gradient = torch.zeros((), dtype=torch.float64), torch.zeros_like(parameters, dtype=torch.float64)
        for _, values, loss in self.blocks():
            expansion = loss.expand(values @ parameters.T)
            value = value.to(expansion.value) + expansion.value
            gradient += expansion.residual.T @ values
        return Point(parameters, value, parameters.new_empty(0, len(parameters)), None, gradient.to(parameters.dtype))

    def gradient(self, point: Point) -> Tensor:
        """Return the first derivative with respect to the parameters, [K, r + 1]."""
        if point.gradient is not None:
            return point.gradient
        assert point.expansion is not None
        assert isinstance(self.values, Tensor)
        self.products += 0.5
        return point.expansion.residual.T @ self.values

    def hessian_product(self, point: Point, direction: Tensor) -> tuple[Tensor, Tensor]:
        """Return (Hessian times direction [K, r + 1], change of the logits along it [N, K]; [0, K] if streamed)."""
        product, change = torch.zeros_like(direction, dtype=torch.float64), direction.new_empty(0, len(direction))
        for _, values, loss, expansion in self.expanded(point):
            change = values @ direction.T
            product += loss.hessian_product(expansion, change).T @ values
        in_memory = isinstance(self.values, Tensor)
        self.products += 1 if in_memory else 1.5
        return product.to(direction.dtype), change if in_memory else change[:0]
