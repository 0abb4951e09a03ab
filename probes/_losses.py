"""The two log losses of a linear classifier, with their first and second derivatives in the logits.

Each gives, at logits Z [N, K], its value, its residual dloss/dZ and its curvature. A label that is already likely is handled
through the *other* outcome, 1 - p = sum of the others, never by subtraction: on separable data at weak strengths 1 - p
falls to 1e-9, which float32 cannot tell from 0 beside 1 but represents with full relative precision by itself.
"""

from dataclasses import dataclass
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
    """Multinomial log loss of labels [N] in 0..K-1."""

    problems = 1

    def __init__(self, labels: Tensor, num_classes: int) -> None:
        self.labels = labels[:, None]
        self.num_classes = num_classes

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
        return Expansion(loss.sum(dtype=torch.float64)[None], residual, p.scatter_(1, self.labels, 1 - wrong))

    def curve(self, here: Expansion, change: Tensor) -> Tensor:
        # (diag p - p p^T) v = p (v - p.v); v counts from the label's entry, so that p near 1 multiplies an exact 0.
        change = change - change.gather(1, self.labels)
        mean = torch.linalg.vecdot(here.probabilities, change)
        return change.sub_(mean[:, None]).mul_(here.probabilities)

    def curvature(self, here: Expansion) -> tuple[Tensor, Tensor]:
        p = here.probabilities
        wrong = -here.residual.gather(1, self.labels)
        # p (1 - p) by class; at the label (1 - p) is `wrong`.
        variance = (p * (1 - p)).scatter_(1, self.labels, wrong * (1 - wrong))
        between = -(p.T @ p).double()
        between.diagonal().zero_()
        # Rows of diag p - p p^T sum to zero: the diagonal from the off-diagonal keeps small classes exact.
        between.diagonal().copy_(-between.sum(1))
        return between, variance.sum(1)

    def priors(self) -> Tensor:
        share = torch.bincount(self.labels[:, 0], minlength=self.num_classes).double() + 1e-3
        logits = share.log()
        return logits - logits.mean()


class Sigmoids:
    """K independent binary log losses of targets [N, K] in {0, 1}, one problem per column; a target of -1 has no loss."""

    def __init__(self, targets: Tensor) -> None:
        self.sign = torch.where(targets < 0, 0, targets.to(torch.float32) * 2 - 1)
        self.problems = targets.shape[1]

    def at(self, logits: Tensor) -> Expansion:
        margin = logits * self.sign
        loss = torch.nn.functional.softplus(-margin).mul_(self.sign.abs())
        residual = torch.sigmoid(-margin).mul_(-self.sign)
        return Expansion(loss.sum(0, dtype=torch.float64), residual, torch.sigmoid(logits))

    def curve(self, here: Expansion, change: Tensor) -> Tensor:
        return change * self._weights(here)

    def curvature(self, here: Expansion) -> tuple[Tensor, Tensor]:
        weights = self._weights(here)
        return weights.sum(0, dtype=torch.float64), weights.sum(1)

    def priors(self) -> Tensor:
        positive = (self.sign > 0).sum(0).double() / self.sign.abs().sum(0).clamp(min=1)
        return torch.logit(positive.clamp(1e-6, 1 - 1e-6))

    def _weights(self, here: Expansion) -> Tensor:
        wrong = here.residual.abs()
        return wrong * (1 - wrong)
