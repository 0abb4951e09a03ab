"""The two log losses of a linear classifier, with their first and second derivatives with respect to the logits.

The probability p of a label that is already likely is handled through 1 - p, the sum of the other outcomes, never by
subtraction. On separable data at weak strengths 1 - p falls to 1e-9. Float32 represents that number with full relative
precision, but cannot tell 1 - 1e-9 from 1.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor


@dataclass(frozen=True)
class Expansion:
    """A loss around given logits."""

    value: Tensor  # [G] float64: the sum of the losses of each problem
    residual: Tensor  # [N, K] first derivative with respect to the logits
    probabilities: Tensor  # [N, K]


class Loss(Protocol):
    """A loss that the solver can minimise. `problems` is G: 1 if the K columns form one problem, K if each is its own."""

    problems: int

    def select(self, rows: slice) -> "Loss":
        """Return the loss of some of the rows."""
        ...

    def expand(self, logits: Tensor) -> Expansion:
        """Return the loss and its first derivative at logits [N, K]."""
        ...

    def hessian_product(self, expansion: Expansion, change: Tensor) -> Tensor:
        """Return the second derivative times a change of the logits, both [N, K]."""
        ...

    def hessian_sums(self, expansion: Expansion) -> tuple[Tensor, Tensor]:
        """Return (second derivatives summed over rows, [K, K] or its diagonal [K]; their trace for each row [N])."""
        ...

    def priors(self) -> Tensor:
        """Return the best constant logits [K]."""
        ...


class Softmax:
    """Multinomial log loss of labels [N] in 0..K-1, with optional sample weights [N]."""

    problems = 1

    def __init__(self, labels: Tensor, num_classes: int, weights: Tensor | None = None) -> None:
        self.labels = labels[:, None]
        self.num_classes = num_classes
        self.weights = None if weights is None else weights[:, None]

    def select(self, rows: slice) -> "Softmax":
        return Softmax(self.labels[rows, 0], self.num_classes, None if self.weights is None else self.weights[rows, 0])

    def expand(self, logits: Tensor) -> Expansion:
        margin = logits - logits.gather(1, self.labels)  # 0 for the label
        top = margin.amax(1, keepdim=True)  # so top >= 0
        p = margin.sub_(top).exp_().scatter_(1, self.labels, 0)
        others = p.sum(1, keepdim=True)
        total = others + (-top).exp()
        # loss = log(1 + sum of e^margin over the other classes). If the label has the largest logit, top = 0 and log1p
        # keeps a tiny loss exact.
        loss = torch.where(top > 0, top + total.log(), others.log1p())
        p /= total
        wrong = others / total  # 1 - p of the label
        residual = p.scatter(1, self.labels, -wrong)
        value = self._weighted(loss).sum(dtype=torch.float64)[None]
        return Expansion(value, self._weighted(residual), p.scatter_(1, self.labels, 1 - wrong))

    def hessian_product(self, expansion: Expansion, change: Tensor) -> Tensor:
        # (diag p - p p^T) v = p (v - p.v). v is taken relative to the label's entry, so that p near 1 multiplies an exact 0.
        change = change - change.gather(1, self.labels)
        mean = torch.linalg.vecdot(expansion.probabilities, change)
        return self._weighted(change.sub_(mean[:, None]).mul_(expansion.probabilities))

    def hessian_sums(self, expansion: Expansion) -> tuple[Tensor, Tensor]:
        p = expansion.probabilities
        wrong = -expansion.residual.gather(1, self.labels)
        if self.weights is not None:
            wrong = wrong / self.weights
        # p (1 - p) for each class; for the label (1 - p) is `wrong`.
        variance = (p * (1 - p)).scatter_(1, self.labels, wrong * (1 - wrong))
        between = -(self._weighted(p).T @ p).double()
        between.diagonal().zero_()
        # Rows of diag p - p p^T sum to zero: taking the diagonal from the other entries keeps rare classes exact.
        between.diagonal().copy_(-between.sum(1))
        return between, self._weighted(variance).sum(1)

    def row_hessians(self, expansion: Expansion, basis: Tensor) -> Tensor:
        """Return the second derivative of each row, U^T (diag p - p p^T) U, [N, J, J] float64, in a basis U [K, J]."""
        p, U = expansion.probabilities.double(), basis.double()
        inner = torch.einsum("nk,ki,kj->nij", p, U, U) - (p @ U)[:, :, None] * (p @ U)[:, None, :]
        return inner if self.weights is None else inner * self.weights.double()[:, :, None]

    def priors(self) -> Tensor:
        weights = None if self.weights is None else self.weights[:, 0].double()
        logits = (torch.bincount(self.labels[:, 0], weights, self.num_classes).double() + 1e-3).log()
        return logits - logits.mean()

    def _weighted(self, rows: Tensor) -> Tensor:
        return rows if self.weights is None else rows * self.weights.to(rows.dtype)


class Sigmoids:
    """K independent binary log losses of targets [N, K] in {0, 1}, one problem per column, with optional sample weights [N].

    A target of -1 has no loss.
    """

    def __init__(self, targets: Tensor, sample_weights: Tensor | None = None) -> None:
        self.targets, self.sample_weights = targets, sample_weights
        self.problems = targets.shape[1]

    def select(self, rows: slice) -> "Sigmoids":
        return Sigmoids(self.targets[rows], None if self.sample_weights is None else self.sample_weights[rows])

    @cached_property
    def sign(self) -> Tensor:
        """[N, K]: 1 for present, -1 for absent, 0 for ignored."""
        return torch.where(self.targets < 0, 0, self.targets.to(torch.float32) * 2 - 1)

    @cached_property
    def weights(self) -> Tensor:
        """[N, K]: the factor of each loss."""
        counted = self.sign.abs()
        return counted if self.sample_weights is None else counted * self.sample_weights[:, None]

    def expand(self, logits: Tensor) -> Expansion:
        margin = logits * self.sign
        loss = torch.nn.functional.softplus(-margin).mul_(self.weights)
        factor = self.sign if self.sample_weights is None else self.sign * self.weights
        residual = torch.sigmoid(-margin).mul_(factor).neg_()
        return Expansion(loss.sum(0, dtype=torch.float64), residual, torch.sigmoid(logits))

    def hessian_product(self, expansion: Expansion, change: Tensor) -> Tensor:
        return change * self._second_derivatives(expansion)

    def hessian_sums(self, expansion: Expansion) -> tuple[Tensor, Tensor]:
        second = self._second_derivatives(expansion)
        return second.sum(0, dtype=torch.float64), second.sum(1)

    def priors(self) -> Tensor:
        positive = ((self.sign > 0) * self.weights).sum(0, dtype=torch.float64)
        fraction = positive / self.weights.sum(0, dtype=torch.float64).clamp(min=1e-30)
        return torch.logit(fraction.clamp(1e-6, 1 - 1e-6))

    def _second_derivatives(self, expansion: Expansion) -> Tensor:
        wrong = expansion.residual.abs()
        if self.sample_weights is None:
            return wrong * (1 - wrong)
        wrong = wrong / self.sample_weights[:, None]
        return wrong * (1 - wrong) * self.sample_weights[:, None]
