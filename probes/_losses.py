"""The two log losses of a linear classifier, with their first and second derivatives in the logits.

Each gives, at logits Z [N, K], its value, its residual dloss/dZ and its curvature. A label that is already likely is handled
through the *other* outcome, 1 - p = sum of the others, never by subtraction: on separable data at weak strengths 1 - p
falls to 1e-9, which float32 cannot tell from 0 beside 1 but represents with full relative precision by itself.
"""

from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

import torch
from torch import Tensor


@dataclass(frozen=True)
class Expansion:
    """A loss around some logits."""

    value: Tensor  # [G] float64: sums of losses, one for each problem solved side by side
    residual: Tensor  # [N, K] first derivative in the logits
    probabilities: Tensor  # [N, K]


class Loss(Protocol):
    """What the solver asks of a loss. `problems` is G: 1 if the K columns form one problem, K if each is its own."""

    problems: int

    def part(self, rows: slice) -> "Loss":
        """The loss of some of the rows."""
        ...

    def at(self, logits: Tensor) -> Expansion: ...

    def curve(self, here: Expansion, change: Tensor) -> Tensor:
        """The second derivative applied to a change of the logits, both [N, K]; may overwrite `change`."""
        ...

    def curvature(self, here: Expansion) -> tuple[Tensor, Tensor]:
        """(second derivatives summed over rows, [K, K] or its diagonal [K]; their trace for each row [N])."""
        ...

    def priors(self) -> Tensor:
        """[K] the best constant logits."""
        ...


class Softmax:
    """Multinomial log loss of labels [N] in 0..K-1, each row's times its weight [N] where there are weights."""

    problems = 1

    def __init__(self, labels: Tensor, num_classes: int, weights: Tensor | None = None) -> None:
        self.labels = labels[:, None]
        self.num_classes = num_classes
        self.weights = None if weights is None else weights[:, None]

    def part(self, rows: slice) -> "Softmax":
        return Softmax(self.labels[rows, 0], self.num_classes, None if self.weights is None else self.weights[rows, 0])

    def at(self, logits: Tensor) -> Expansion:
        margin = logits - logits.gather(1, self.labels)  # the label's own entry is 0
        top = margin.amax(1, keepdim=True)  # so top >= 0
        p = margin.sub_(top).exp_().scatter_(1, self.labels, 0)
        others = p.sum(1, keepdim=True)
        total = others + (-top).exp()
        # loss = log(1 + sum of e^margin over the others). top = 0 means the label is on top: log1p keeps a tiny loss exact.
        loss = torch.where(top > 0, top + total.log(), others.log1p())
        p /= total
        wrong = others / total  # 1 - p of the label
        residual = p.scatter(1, self.labels, -wrong)
        value = self._weighed(loss).sum(dtype=torch.float64)[None]
        return Expansion(value, self._weighed(residual), p.scatter_(1, self.labels, 1 - wrong))

    def curve(self, here: Expansion, change: Tensor) -> Tensor:
        # (diag p - p p^T) v = p (v - p.v); v counts from the label's entry, so that p near 1 multiplies an exact 0.
        change = change - change.gather(1, self.labels)
        mean = torch.linalg.vecdot(here.probabilities, change)
        return self._weighed(change.sub_(mean[:, None]).mul_(here.probabilities))

    def curvature(self, here: Expansion) -> tuple[Tensor, Tensor]:
        p = here.probabilities
        wrong = -here.residual.gather(1, self.labels)
        if self.weights is not None:
            wrong = wrong / self.weights
        # p (1 - p) by class; at the label (1 - p) is `wrong`.
        variance = (p * (1 - p)).scatter_(1, self.labels, wrong * (1 - wrong))
        between = -(self._weighed(p).T @ p).double()
        between.diagonal().zero_()
        # Rows of diag p - p p^T sum to zero: the diagonal from the off-diagonal keeps small classes exact.
        between.diagonal().copy_(-between.sum(1))
        return between, self._weighed(variance).sum(1)

    def bent(self, here: Expansion, basis: Tensor) -> Tensor:
        """[N, J, J] float64: each row's second derivative U^T (diag p - p p^T) U, in a basis U [K, J] of the logits."""
        p, U = here.probabilities.double(), basis.double()
        inner = torch.einsum("nk,ki,kj->nij", p, U, U) - (p @ U)[:, :, None] * (p @ U)[:, None, :]
        return inner if self.weights is None else inner * self.weights.double()[:, :, None]

    def priors(self) -> Tensor:
        each = None if self.weights is None else self.weights[:, 0].double()
        logits = (torch.bincount(self.labels[:, 0], each, self.num_classes).double() + 1e-3).log()
        return logits - logits.mean()

    def _weighed(self, rows: Tensor) -> Tensor:
        return rows if self.weights is None else rows * self.weights.to(rows.dtype)


class Sigmoids:
    """K independent binary log losses of targets [N, K] in {0, 1}, one problem per column; a target of -1 has no loss.

    Each row's losses are multiplied by its weight [N] where there are weights.
    """

    def __init__(self, targets: Tensor, weights: Tensor | None = None) -> None:
        self.targets, self.given = targets, weights
        self.problems = targets.shape[1]

    def part(self, rows: slice) -> "Sigmoids":
        return Sigmoids(self.targets[rows], None if self.given is None else self.given[rows])

    @cached_property
    def sign(self) -> Tensor:
        """[N, K] 1, -1, or 0 where there is no loss."""
        return torch.where(self.targets < 0, 0, self.targets.to(torch.float32) * 2 - 1)

    @cached_property
    def weights(self) -> Tensor:
        """[N, K] what each loss is multiplied by."""
        counted = self.sign.abs()
        return counted if self.given is None else counted * self.given[:, None]

    def at(self, logits: Tensor) -> Expansion:
        margin = logits * self.sign
        loss = torch.nn.functional.softplus(-margin).mul_(self.weights)
        residual = torch.sigmoid(-margin).mul_(self.sign if self.given is None else self.sign * self.weights).neg_()
        return Expansion(loss.sum(0, dtype=torch.float64), residual, torch.sigmoid(logits))

    def curve(self, here: Expansion, change: Tensor) -> Tensor:
        return change * self._curvatures(here)

    def curvature(self, here: Expansion) -> tuple[Tensor, Tensor]:
        curvatures = self._curvatures(here)
        return curvatures.sum(0, dtype=torch.float64), curvatures.sum(1)

    def priors(self) -> Tensor:
        positive = ((self.sign > 0) * self.weights).sum(0, dtype=torch.float64)
        share = positive / self.weights.sum(0, dtype=torch.float64).clamp(min=1e-30)
        return torch.logit(share.clamp(1e-6, 1 - 1e-6))

    def _curvatures(self, here: Expansion) -> Tensor:
        wrong = here.residual.abs()
        if self.given is None:
            return wrong * (1 - wrong)
        wrong = wrong / self.given[:, None]
        return wrong * (1 - wrong) * self.given[:, None]
