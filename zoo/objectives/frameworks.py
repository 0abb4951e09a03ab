"""Objectives beyond supervised learning: contrastive, self-supervised, and distilled from a teacher."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from zoo.objectives import views
from zoo.objectives.base import Objective, bounded
from zoo.objectives.losses import unit

PROJECTION = 64  # dimensions in which views are compared


@dataclass(frozen=True)
class Pretext(Objective):
    """Features learn to answer questions that the images themselves pose; the head reads classes off them, no more.

    The classes' logits and loss are those of softmax, and their gradient ends at the features. When training is over, the
    part that answered the questions is dropped and the head is fitted anew, on the images as prediction sees them.
    """

    def pose(self, pixels: Tensor, labels: Tensor, draws: Generator) -> tuple[Tensor, Tensor]:
        """Images to look at, uint8, one or more for each of `pixels` [N, C, H, W] in its order, and what to say of each."""
        raise NotImplementedError

    def answerer(self, num_features: int) -> nn.Module:
        """The part that answers from features."""
        raise NotImplementedError

    def pretext_loss(self, answers: Tensor, right: Tensor) -> Tensor:
        """The mean loss of the answers."""
        raise NotImplementedError


@dataclass(frozen=True)
class SimCLR(Pretext):
    """Two views of an image are told from the views of all others in the batch: NT-Xent (Chen et al. 2020, eq. 1)."""

    name: ClassVar[str] = "simclr"
    tau: float = bounded(0.5, above=0)

    def pose(self, pixels: Tensor, labels: Tensor, draws: Generator) -> tuple[Tensor, Tensor]:
        images = torch.arange(len(pixels), device=pixels.device)
        return torch.cat([views.random_views(pixels, draws) for _ in range(2)]), images.repeat(2)

    def answerer(self, num_features: int) -> nn.Module:
        return nn.Sequential(nn.Linear(num_features, num_features), nn.ReLU(), nn.Linear(num_features, PROJECTION))

    def pretext_loss(self, answers: Tensor, right: Tensor) -> Tensor:
        return contrast(answers, right, self.tau)


@dataclass(frozen=True)
class SupCon(SimCLR):
    """The same, except that all views of a class belong together (Khosla et al. 2020, eq. 2)."""

    name: ClassVar[str] = "supcon"
    tau: float = bounded(0.1, above=0)

    def pose(self, pixels: Tensor, labels: Tensor, draws: Generator) -> tuple[Tensor, Tensor]:
        return super().pose(pixels, labels, draws)[0], labels.repeat(2)


@dataclass(frozen=True)
class Rotation(Pretext):
    """By how many quarters was the image turned? (Gidaris et al. 2018)"""

    name: ClassVar[str] = "rotation"

    def pose(self, pixels: Tensor, labels: Tensor, draws: Generator) -> tuple[Tensor, Tensor]:
        turns = torch.randint(4, (len(pixels),), generator=draws).to(pixels.device)
        return views.rotate(pixels, turns), turns

    def answerer(self, num_features: int) -> nn.Module:
        return nn.Linear(num_features, 4)

    def pretext_loss(self, answers: Tensor, right: Tensor) -> Tensor:
        return functional.cross_entropy(answers, right)


@dataclass(frozen=True)
class Distilled(Objective):
    """Cross-entropy with a teacher's probabilities, both softened by tau (Hinton et al. 2015).

    The targets are the teacher's probabilities p for the image as prediction sees it. p^(1/tau), normalised, is what the
    softmax of its logits over tau would be, and tau^2 keeps the gradient's size.
    """

    name: ClassVar[str] = "distillation"
    tau: float = bounded(2.0, above=0)

    def targets(self, t: Tensor) -> Tensor:
        return (t.clamp_min(torch.finfo(t.dtype).tiny).log() / self.tau).softmax(1)

    def losses(self, z: Tensor, t: Tensor) -> Tensor:
        return functional.cross_entropy(z / self.tau, t, reduction="none")

    @property
    def scale(self) -> float:
        return self.tau**2


def contrast(answers: Tensor, groups: Tensor, tau: float) -> Tensor:
    """The mean over examples i of -mean_p log(exp(s_ip / tau) / sum_{a != i} exp(s_ia / tau)), p the others of i's group.

    s are cosines of `answers` [N, D]; `groups` [N] says what belongs together. An example alone in its group is left out.
    """
    similar = unit(answers) @ unit(answers).T / tau
    itself = torch.eye(len(answers), dtype=torch.bool, device=answers.device)
    log_shares = similar.masked_fill(itself, -torch.inf).log_softmax(1)
    partners = (groups[:, None] == groups[None, :]) & ~itself
    count = partners.sum(1)
    means = log_shares.masked_fill(~partners, 0).sum(1) / count.clamp_min(1)
    return -means[count > 0].mean()
