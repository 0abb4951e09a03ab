"""Objectives beyond supervised learning: contrastive, self-supervised, and distillation from a teacher."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Generator, Tensor, nn
from torch.nn import functional

from zoo.objectives import random_views
from zoo.objectives.base import Objective, bounded
from zoo.objectives.losses import unit

PROJECTION = 64  # dimensions of the space in which views are compared


@dataclass(frozen=True)
class Pretext(Objective):
    """A pretext task: the features are trained on questions that are generated from the images, not on the class labels.

    The head is trained with softmax cross-entropy, whose gradient stops at the features. After training, the module that
    answered the questions is dropped, and the head is fitted again on the training images without augmentation.
    """

    def pose(self, pixels: Tensor, labels: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
        """Return the images of the task and the target of each.

        Args:
            pixels: [N, C, H, W] uint8.
            labels: [N] class indices.
            generator: source of random numbers.

        Returns:
            images [V * N, C, H, W] uint8, V blocks with one view of each of the N images, and targets [V * N].
        """
        raise NotImplementedError

    def answerer(self, num_features: int) -> nn.Module:
        """Return the module that computes answers from features [N, `num_features`]."""
        raise NotImplementedError

    def pretext_loss(self, answers: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss of the answers, given the targets that `pose` returned."""
        raise NotImplementedError


@dataclass(frozen=True)
class SimCLR(Pretext):
    """Match the two views of each image among the views of all images of the batch: NT-Xent (Chen et al. 2020, eq. 1)."""

    name: ClassVar[str] = "simclr"
    tau: float = bounded(0.5, above=0)

    def pose(self, pixels: Tensor, labels: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
        images = torch.arange(len(pixels), device=pixels.device)
        return torch.cat([random_views.augment(pixels, generator) for _ in range(2)]), images.repeat(2)

    def answerer(self, num_features: int) -> nn.Module:
        return nn.Sequential(nn.Linear(num_features, num_features), nn.ReLU(), nn.Linear(num_features, PROJECTION))

    def pretext_loss(self, answers: Tensor, targets: Tensor) -> Tensor:
        return contrastive_loss(answers, targets, self.tau)


@dataclass(frozen=True)
class SupCon(SimCLR):
    """SimCLR in which all views of a class match each other (Khosla et al. 2020, eq. 2)."""

    name: ClassVar[str] = "supcon"
    tau: float = bounded(0.1, above=0)

    def pose(self, pixels: Tensor, labels: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
        return super().pose(pixels, labels, generator)[0], labels.repeat(2)


@dataclass(frozen=True)
class Rotation(Pretext):
    """Predict by how many quarter turns an image was rotated (Gidaris et al. 2018)."""

    name: ClassVar[str] = "rotation"

    def pose(self, pixels: Tensor, labels: Tensor, generator: Generator) -> tuple[Tensor, Tensor]:
        turns = torch.randint(4, (len(pixels),), generator=generator).to(pixels.device)
        return random_views.rotate(pixels, turns), turns

    def answerer(self, num_features: int) -> nn.Module:
        return nn.Linear(num_features, 4)

    def pretext_loss(self, answers: Tensor, targets: Tensor) -> Tensor:
        return functional.cross_entropy(answers, targets)


@dataclass(frozen=True)
class Distilled(Objective):
    """Cross-entropy with a teacher's probabilities, both softened by tau (Hinton et al. 2015).

    The targets are the teacher's probabilities p for the image without augmentation. p^(1/tau), normalised, equals the
    softmax of the teacher's logits over tau. The factor tau^2 keeps the scale of the gradient.
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


def contrastive_loss(embeddings: Tensor, groups: Tensor, tau: float) -> Tensor:
    """Return the mean over examples i of -mean_p log(exp(s_ip / tau) / sum_{a != i} exp(s_ia / tau)).

    s are cosine similarities, and p runs over the other examples of i's group. Groups of one example are left out.

    Args:
        embeddings: [N, D].
        groups: [N] group of each example.
        tau: temperature.
    """
    similarity = unit(embeddings) @ unit(embeddings).T / tau
    diagonal = torch.eye(len(embeddings), dtype=torch.bool, device=embeddings.device)
    log_p = similarity.masked_fill(diagonal, -torch.inf).log_softmax(1)
    partners = (groups[:, None] == groups[None, :]) & ~diagonal
    count = partners.sum(1)
    means = log_p.masked_fill(~partners, 0).sum(1) / count.clamp_min(1)
    return -means[count > 0].mean()
