"""Features as the solver sees them: centred, scaled, no wider than they are long, with a column of ones."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from probes._rows import Rows, rows_of


@dataclass(frozen=True)
class Design:
    """`values` [N, r + 1]: the rows of x in coordinates where the problem is well behaved, then a one.

    A row x becomes `(x - mean) / scale @ basis`. Centring is done in float64, so a feature of mean 1e6 and spread 1 keeps
    its digits; the free intercept takes up the shift. Where there are fewer rows than dimensions, the rows span at most N
    dimensions, the penalised weights lie in that span (a component outside it costs norm and changes no logit), and
    `basis` [D, r] is orthonormal, so norms are kept and r = N replaces D.
    """

    values: "Tensor | Stream"
    mean: Tensor  # [D] float64
    scale: float
    basis: Tensor | None
    dtype: torch.dtype = torch.float32

    @classmethod
    def of(cls, x: Rows | Tensor, held: bool = True, dtype: torch.dtype = torch.float32) -> "Design":
        """The design of the training rows x [N, D], finite: in memory if `held`, else made anew for every pass."""
        rows = rows_of(x)
        mean, low, high = rows.extent()
        # One scale for all features: the penalty on the weights stays a multiple of ||W||^2, lambda / scale^2.
        widest = float(torch.maximum(high - mean, mean - low).amax()) or 1.0
        square = sum(float(_centred(part, mean, widest).square_().sum()) for _, part in rows.blocks())
        spread = (square / (len(rows) * rows.shape[1])) ** 0.5 or 1.0
        design = cls(torch.empty(0), mean, widest * spread, None, dtype)
        if len(rows) < rows.shape[1]:
            basis, inside = torch.linalg.qr(design.rows(rows)[:, :-1].T)
            values = torch.cat([inside.T, torch.ones(len(rows), 1, dtype=dtype, device=rows.device)], 1)
            return cls(values, mean, design.scale, basis, dtype)
        return cls(design.rows(rows) if held else Stream(rows, design), mean, design.scale, None, dtype)

    def rows(self, x: Rows | Tensor) -> Tensor:
        """Other rows in the same coordinates, in memory."""
        rows = rows_of(x)
        width = rows.shape[1] if self.basis is None else self.basis.shape[1]
        values = torch.ones(len(rows), width + 1, dtype=self.dtype, device=rows.device)
        for span, part in rows.blocks():
            values[span, :-1] = self._entered(part)
        return values

    def _entered(self, part: Tensor) -> Tensor:
        centred = _centred(part, self.mean, self.scale).to(self.dtype)
        return centred if self.basis is None else centred @ self.basis

    def enter(self, coef: Tensor, intercept: Tensor) -> Tensor:
        """Parameters [K, r + 1] of the design that give the logits `x @ coef.T + intercept`; both float64."""
        weights = coef * self.scale
        weights = weights if self.basis is None else weights @ self.basis.double()
        return torch.cat([weights, (intercept + coef @ self.mean)[:, None]], 1).to(self.dtype)

    def leave(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """(coef [K, D], intercept [K]) in float64: the way back."""
        weights = parameters[:, :-1].double()
        weights = weights if self.basis is None else weights @ self.basis.double().T
        coef = weights / self.scale
        return coef, parameters[:, -1].double() - coef @ self.mean

    def ridge(self, strength: float | Sequence[float]) -> Tensor:
        """The strengths that on the scaled weights are `strength` on the original ones; float64, in the shape given."""
        return torch.as_tensor(strength, dtype=torch.float64, device=self.mean.device) / self.scale**2


class Stream:
    """Rows in the coordinates of a design, [N, r + 1], a block at a time: nothing of their number is kept.

    `tick` is called after each block, for whoever watches: a pass may take minutes.
    """

    def __init__(self, rows: Rows, design: Design, tick: Callable[[], None] = lambda: None) -> None:
        self.source, self.design, self.tick = rows, design, tick
        width = rows.shape[1] if design.basis is None else design.basis.shape[1]
        self.shape, self.dtype, self.device = (len(rows), width + 1), design.dtype, rows.device

    def __len__(self) -> int:
        return self.shape[0]

    def blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """Consecutive (slice, rows)."""
        for span, part in self.source.blocks():
            yield span, self.design.rows(part)
            self.tick()


def _centred(rows: Tensor, mean: Tensor, scale: float) -> Tensor:
    """(rows - mean) / scale in float64, in one copy of the rows rather than three."""
    return rows.to(torch.float64, copy=True).sub_(mean).div_(scale)
