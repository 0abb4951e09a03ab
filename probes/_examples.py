"""The sum of the losses of a linear classifier over all rows, and its derivatives: rows in memory, or streamed."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from probes._design import Stream
from probes._losses import Expansion, Loss


@dataclass(frozen=True)
class Place:
    """The sum of losses around some parameters. Rows that are streamed leave nothing of their number behind."""

    parameters: Tensor  # [K, r + 1]
    value: Tensor  # [G] float64
    logits: Tensor  # [N, K], or [0, K] where rows are streamed
    around: Expansion | None  # of all rows; None where rows are streamed
    gradient: Tensor | None  # [K, r + 1]; None where it has not been asked for


class Examples:
    """Features [N, r + 1] whose last column is one, with their losses.

    In memory, the logits are kept from one question to the next: they are linear in the parameters, so a step along a known
    direction costs no product. Streamed, each question is a pass over the rows, and a second derivative needs the logits
    again, half a product more. `products` counts passes over the features, there and back.
    """

    def __init__(self, values: Tensor | Stream, loss: Loss) -> None:
        self.values, self.loss = values, loss
        self.products = 0.0

    def __len__(self) -> int:
        return len(self.values)

    def pieces(self) -> Iterator[tuple[slice, Tensor, Loss]]:
        """(rows, their features, their loss), all in one piece if they are in memory."""
        if isinstance(self.values, Tensor):
            yield slice(0, len(self.values)), self.values, self.loss
        else:
            for span, values in self.values.blocks():
                yield span, values, self.loss.part(span)

    def thinned(self, most: int) -> "Examples":
        """About `most` of streamed rows, evenly from all over; everything where it is in memory or no more than that."""
        step = len(self) // most
        if isinstance(self.values, Tensor) or step < 2:
            return self
        few = self.values.source.rows(np.arange(0, len(self), step))
        return Examples(Stream(few, self.values.design), self.loss.part(slice(0, len(self), step)))

    def expanded(self, place: Place) -> Iterator[tuple[slice, Tensor, Loss, Expansion]]:
        """The same with the losses around a place."""
        for span, values, loss in self.pieces():
            yield span, values, loss, place.around or loss.at(values @ place.parameters.T)

    def at(self, parameters: Tensor, logits: Tensor | None = None) -> Place:
        """The place of these parameters; in memory their `logits` save a product where they are known."""
        if isinstance(self.values, Tensor):
            if logits is None:
                self.products += 0.5
                logits = self.values @ parameters.T
            here = self.loss.at(logits)
            return Place(parameters, here.value, logits, here, None)
        self.products += 1
        value, gradient = torch.zeros((), dtype=torch.float64), torch.zeros_like(parameters, dtype=torch.float64)
        for _, values, loss in self.pieces():
            here = loss.at(values @ parameters.T)
            value = value.to(here.value) + here.value
            gradient += here.residual.T @ values
        return Place(parameters, value, parameters.new_empty(0, len(parameters)), None, gradient.to(parameters.dtype))

    def gradient(self, place: Place) -> Tensor:
        """[K, r + 1] in the parameters."""
        if place.gradient is not None:
            return place.gradient
        assert place.around is not None
        assert isinstance(self.values, Tensor)
        self.products += 0.5
        return place.around.residual.T @ self.values

    def curve(self, place: Place, direction: Tensor) -> tuple[Tensor, Tensor]:
        """(second derivative [K, r + 1] along a direction, the change of the logits; [0, K] where rows are streamed)."""
        curved, ahead = torch.zeros_like(direction, dtype=torch.float64), direction.new_empty(0, len(direction))
        for _, values, loss, here in self.expanded(place):
            ahead = values @ direction.T
            curved += loss.curve(here, ahead).T @ values
        held = isinstance(self.values, Tensor)
        self.products += 1 if held else 1.5
        return curved.to(direction.dtype), ahead if held else ahead[:0]
