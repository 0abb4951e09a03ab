"""Features as the solver sees them: centred, scaled, no wider than they are long, with a column of ones."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

CHUNK = 8192


@dataclass(frozen=True)
class Design:
    """`values` [N, r + 1] float32: the rows of x in coordinates where the problem is well behaved, then a one.

    A row x becomes `(x - mean) / scale @ basis`. Centring is done in float64, so a feature of mean 1e6 and spread 1 keeps
    its digits; the free intercept takes up the shift. Where there are fewer rows than dimensions, the rows span at most N
    dimensions, the penalised weights lie in that span (a component outside it costs norm and changes no logit), and
    `basis` [D, r] is orthonormal, so norms are kept and r = N replaces D.
    """

    values: Tensor
    mean: Tensor  # [D] float64
    scale: float
    basis: Tensor | None

    @classmethod
    def of(cls, x: Tensor) -> "Design":
        """The design of the training rows x [N, D], floating point and finite."""
        mean = sum((part.double().sum(0) for part in x.split(CHUNK)), torch.zeros((), dtype=torch.float64)) / len(x)
        values = torch.ones(len(x), x.shape[1] + 1, device=x.device)
        centred = values[:, :-1]
        # One scale for all features: the penalty on the weights stays a multiple of ||W||^2, lambda / scale^2.
        widest = max(float((part.double() - mean).abs().amax()) for part in x.split(CHUNK)) or 1.0
        total = 0.0
        for part, out in zip(x.split(CHUNK), centred.split(CHUNK), strict=True):
            out.copy_((part.double() - mean) / widest)
            total += float(out.double().square().sum())
        spread = (total / centred.numel()) ** 0.5 or 1.0
        centred /= spread
        basis = None
        if len(x) < x.shape[1]:
            basis, rows = torch.linalg.qr(centred.T)
            values = torch.cat([rows.T, torch.ones(len(x), 1, device=x.device)], 1)
        return cls(values, mean, widest * spread, basis)

    def rows(self, x: Tensor) -> Tensor:
        """Other rows in the same coordinates."""
        parts = []
        for part in x.split(CHUNK):
            centred = ((part.double() - self.mean) / self.scale).float()
            centred = centred if self.basis is None else centred @ self.basis
            parts.append(torch.cat([centred, torch.ones(len(part), 1, device=x.device)], 1))
        return torch.cat(parts)

    def enter(self, coef: Tensor, intercept: Tensor) -> Tensor:
        """Parameters [K, r + 1] of the design that give the logits `x @ coef.T + intercept`; both float64."""
        weights = coef * self.scale
        weights = weights if self.basis is None else weights @ self.basis.double()
        return torch.cat([weights, (intercept + coef @ self.mean)[:, None]], 1).float()

    def leave(self, parameters: Tensor) -> tuple[Tensor, Tensor]:
        """(coef [K, D], intercept [K]) in float64: the way back."""
        weights = parameters[:, :-1].double()
        weights = weights if self.basis is None else weights @ self.basis.double().T
        coef = weights / self.scale
        return coef, parameters[:, -1].double() - coef @ self.mean

    def ridge(self, strength: float | Sequence[float]) -> Tensor:
        """The strengths that on the scaled weights are `strength` on the original ones; float64, in the shape given."""
        return torch.as_tensor(strength, dtype=torch.float64, device=self.values.device) / self.scale**2
