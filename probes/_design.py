"""The design matrix of the solver: features centred, scaled, at most as wide as there are rows, with a column of ones."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from probes._rows import Features, Rows, rows_of
from zoo.errors import InputError

MAX_SCALE = 1e150  # of the features: its square is a float64
MAX_DECADES = 37  # a strength on the scaled weights is from 1e-37 to 1e37: float32 has nothing beyond


@dataclass(frozen=True)
class Design:
    """Features in coordinates that suit the solver: a row x becomes `(x - mean) / scale @ basis`, followed by a one.

    Centring is done in float64, so features of mean 1e6 and standard deviation 1 keep their digits; the intercept absorbs
    the shift. If there are fewer rows than dimensions, the rows span at most N dimensions. The penalised weights lie in
    that span: a component outside it costs norm and changes no logit. So `basis` [D, r] is orthonormal, which keeps norms,
    and r = N replaces D.
    """

    values: Tensor | Rows  # [N, r + 1]; a tensor if the design is held in memory
    mean: Tensor  # [D] float64
    scale: float
    basis: Tensor | None
    dtype: torch.dtype = torch.float32

    @classmethod
    def of(cls, x: Features, in_memory: bool = True, dtype: torch.dtype = torch.float32) -> "Design":
        """Return the design of training rows.

        Args:
            x: [N, D], finite.
            in_memory: whether to hold the design, rather than compute it again in every pass over the rows.
            dtype: the precision of the design.
        """
        rows = rows_of(x)
        mean, low, high = rows.extent()
        # One scale for all features: the penalty on the weights stays a multiple of ||W||^2, lambda / scale^2. Dividing by
        # the largest deviation first keeps the squares of very large or small features finite.
        largest = float(torch.maximum(high - mean, mean - low).amax()) or 1.0
        square = sum(float(_centred(block, mean, largest).square_().sum()) for _, block in rows.blocks())
        scale = largest * ((square / (len(rows) * rows.shape[1])) ** 0.5 or 1.0)
        if not 1 / MAX_SCALE < scale < MAX_SCALE:
            expected = f"features that vary by more than {1 / MAX_SCALE:.0e} and less than {MAX_SCALE:.0e}"
            raise InputError(argument="X", expected=expected, found=float(f"{scale:.0e}"))
        design = cls(torch.empty(0), mean, scale, None, dtype)
        if len(rows) < rows.shape[1]:
            basis, inside = torch.linalg.qr(design.transform(rows).tensor()[:, :-1].T)
            values = torch.cat([inside.T, torch.ones(len(rows), 1, dtype=dtype, device=rows.device)], 1)
            return cls(values, mean, scale, basis, dtype)
        lazy = design.transform(rows)
        return cls(lazy.tensor() if in_memory else lazy, mean, scale, None, dtype)

    def transform(self, x: Features) -> Rows:
        """Return other rows [M, D] in the coordinates of the design, [M, r + 1]."""
        rows = rows_of(x)
        width = rows.shape[1] if self.basis is None else self.basis.shape[1]
        return rows.map(self._transform_block, width + 1, self.dtype)

    def _transform_block(self, block: Tensor) -> Tensor:
        centred = _centred(block, self.mean, self.scale).to(self.dtype)
        values = centred if self.basis is None else centred @ self.basis
        return torch.nn.functional.pad(values, (0, 1), value=1.0)

    def to_design(self, coef: Tensor, intercept: Tensor) -> Tensor:
        """Return the parameters [K, r + 1] whose logits on the design are `x @ coef.T + intercept`; both in float64."""
        weights = coef * self.scale
        weights = weights if self.basis is None else weights @ self.basis.double()
        return torch.cat([weights, (intercept + coef @ self.mean)[:, None]], 1).to(self.dtype)

    def from_design(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """Return (coef [K, D], intercept [K]) in float64 for parameters [K, r + 1]; the inverse of `to_design`."""
        weights = parameters[:, :-1].double()
        weights = weights if self.basis is None else weights @ self.basis.double().T
        coef = weights / self.scale
        return coef, parameters[:, -1].double() - coef @ self.mean

    def ridge(self, strength: float | Sequence[float]) -> Tensor:
        """Return strengths on the scaled weights, in float64, that equal `strength` on the original weights."""
        strengths = torch.as_tensor(strength, dtype=torch.float64, device=self.mean.device)
        offset = 2 * math.log10(self.scale)
        outside = (strengths.log10() - offset).abs() > MAX_DECADES
        if outside.any():
            limits = f"1e{math.ceil(offset - MAX_DECADES)} and 1e{math.floor(offset + MAX_DECADES)}"
            expected = f"between {limits} for features of this scale"
            raise InputError(argument="strengths", expected=expected, found=float(strengths[outside].flatten()[0]))
        return strengths / self.scale**2


def _centred(rows: Tensor, mean: Tensor, scale: float) -> Tensor:
    """Return (rows - mean) / scale in float64, making one copy of the rows rather than three."""
    return rows.to(torch.float64, copy=True).sub_(mean).div_(scale)
