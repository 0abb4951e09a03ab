"""The nine objectives of Kornblith et al. (2021), section 2; z are logits, t targets, x penultimate features.

The defaults are the values chosen on ImageNet (their Table A.1, bold); `tuned.py` has those for other datasets.
"""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from zoo.core.types import Link
from zoo.objectives.base import Objective, bounded

# The gradient of cosine softmax grows as 1/tau; below this temperature training was unstable, and the loss times tau holds
# it back. Table 4 scales at every tau: at 0.05 it has 77.6% and R^2 = 0.634, where Tables 1 and 3, unscaled, have 77.9% and
# 0.641. Scaling costs accuracy where it is not needed, so by default it ends here; `scale_below=1` gives Table 4's models.
SCALED_BELOW = 0.05


@dataclass(frozen=True)
class Softmax(Objective):
    """Cross-entropy of the softmax of z = Wx + b; eq. 1."""


@dataclass(frozen=True)
class LabelSmoothing(Objective):
    """Targets mixed with the uniform distribution; scaled so that the pull on the right logit keeps its size; eq. 2."""

    name: ClassVar[str] = "label-smoothing"
    alpha: float = bounded(0.1, at_least=0, below=1)

    def targets(self, t: Tensor) -> Tensor:
        return (1 - self.alpha) * t + self.alpha / t.shape[1]

    @property
    def scale(self) -> float:
        return 1 / (1 - self.alpha)


@dataclass(frozen=True)
class Dropout(Objective):
    """Each penultimate feature is kept with probability rho, and then divided by it; eq. 3."""

    name: ClassVar[str] = "dropout"
    rho: float = bounded(0.7, above=0, at_most=1)

    def features(self, x: Tensor) -> Tensor:
        return functional.dropout(x, 1 - self.rho)


@dataclass(frozen=True)
class ExtraL2(Objective):
    """lambda_final ||W||_F^2 on the final layer, on top of the weight decay it has like every other layer; eq. 4."""

    name: ClassVar[str] = "extra-l2"
    lambda_final: float = bounded(8e-4, at_least=0)

    def penalty(self, z: Tensor, W: Tensor) -> Tensor:
        return self.lambda_final * W.square().sum()


@dataclass(frozen=True)
class LogitPenalty(Objective):
    """beta ||z||^2, averaged over the examples; eq. 5."""

    name: ClassVar[str] = "logit-penalty"
    beta: float = bounded(6e-4, at_least=0)

    def penalty(self, z: Tensor, W: Tensor) -> Tensor:
        return self.beta * z.square().sum(1).mean()


@dataclass(frozen=True)
class LogitNorm(Objective):
    """Logits of one length: z / (tau ||z||); eq. 6."""

    name: ClassVar[str] = "logit-norm"
    tau: float = bounded(0.04, above=0)

    def logits(self, x: Tensor, W: Tensor, b: Tensor) -> Tensor:
        return unit(functional.linear(x, W, b)) / self.tau


@dataclass(frozen=True)
class Cosine(Objective):
    """The cosine of features and class weights over tau, plus a bias a class; eq. 7. The loss is scaled by a small tau.

    >>> Cosine(tau=0.05).scale, Cosine(tau=0.05, scale_below=1).scale, Cosine(tau=0.04).scale
    (1.0, 0.05, 0.04)
    """

    name: ClassVar[str] = "cosine"
    tau: float = bounded(0.05, above=0)
    scale_below: float = bounded(SCALED_BELOW, at_least=0)  # the loss is multiplied by a tau below this

    def logits(self, x: Tensor, W: Tensor, b: Tensor) -> Tensor:
        return functional.linear(unit(x), unit(W)) / self.tau + b

    @property
    def scale(self) -> float:
        return self.tau if self.tau < self.scale_below else 1.0

    @property
    def hyperparameters(self) -> dict[str, float]:
        """Those a card names: where scaling ends only if that is not the default."""
        named = super().hyperparameters
        return named if self.scale_below != SCALED_BELOW else {"tau": named["tau"]}


@dataclass(frozen=True)
class Sigmoid(Objective):
    """One binary cross-entropy a class, summed; biases start where each class has probability about 1/K; eq. 8."""

    name: ClassVar[str] = "sigmoid"
    link: ClassVar[Link] = "sigmoid"

    def losses(self, z: Tensor, t: Tensor) -> Tensor:
        return functional.binary_cross_entropy_with_logits(z, t, reduction="none").sum(1)

    def init_bias(self, num_classes: int) -> float:
        return -math.log(num_classes)


@dataclass(frozen=True)
class SquaredError(Objective):
    """The right logit is drawn to M with strength kappa, the others to zero; eq. 9, times `loss_scale`.

    It is linear in the targets like the others, so soft ones weigh the two pulls on each logit.
    """

    name: ClassVar[str] = "squared-error"
    kappa: float = bounded(9.0, above=0)
    M: float = bounded(60.0, above=0)
    loss_scale: float = bounded(10.0, above=0)

    def losses(self, z: Tensor, t: Tensor) -> Tensor:
        return (self.kappa * t * (z - self.M).square() + (1 - t) * z.square()).mean(1)

    @property
    def scale(self) -> float:
        return self.loss_scale


def unit(vectors: Tensor) -> Tensor:
    """Rows divided by their length; a row of zeros stays as it is, with a finite gradient.

    >>> unit(torch.tensor([[3.0, 4.0], [0.0, 0.0]]))
    tensor([[0.6000, 0.8000],
            [0.0000, 0.0000]])
    """
    length = torch.linalg.vector_norm(vectors, dim=1, keepdim=True)
    return vectors / torch.where(length > 0, length, torch.ones_like(length))
