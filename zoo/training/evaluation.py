"""Accuracy, NLL and class separation of a network, computed from sums over batches."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from typing import cast

import numpy as np
import torch
from torch import Tensor

from zoo.core.class_spread import ClassSpread
from zoo.core.links import log_probabilities
from zoo.core.progress import Report
from zoo.core.types import Link
from zoo.datasets.preprocessing import Pipeline
from zoo.networks.network import Network
from zoo.objectives import ObjectiveHead
from zoo.objectives.losses import unit
from zoo.training.batches import ImageBatches, labels_of
from zoo.training.processes import Processes

BATCH = 256


@dataclass
class Tally:
    """Sums over examples, kept on the network's device; only `summary` copies them to the CPU."""

    examples: Tensor  # []
    loss: Tensor  # [] sum of training losses over examples
    correct: Tensor  # [] number of correct predictions
    nll: Tensor  # [] sum of negative log-likelihoods
    directions: Tensor  # [K, D] sum of unit embeddings per class
    class_counts: Tensor  # [K] examples per class

    @classmethod
    def empty(cls, num_classes: int, num_features: int, device: torch.device) -> "Tally":
        shapes = ((), (), (), (), (num_classes, num_features), (num_classes,))
        return cls(*(torch.zeros(shape, device=device) for shape in shapes))

    @torch.no_grad()
    def add(self, embeddings: Tensor, logits: Tensor, labels: Tensor, link: Link, loss: Tensor | None = None) -> None:
        """Add a batch: embeddings [N, D], logits [N, K], labels [N] and, in training, the mean loss of the batch."""
        self.examples += len(labels)
        if loss is not None:
            self.loss += loss.detach() * len(labels)
        self.correct += (logits.argmax(1) == labels).sum()
        self.nll -= log_probabilities(logits, link=link).gather(1, labels[:, None]).sum()
        self.directions.index_add_(0, labels, unit(embeddings.float()))
        self.class_counts.index_add_(0, labels, torch.ones_like(labels, dtype=self.class_counts.dtype))

    def tensors(self) -> dict[str, Tensor]:
        """Return the sums by name, as a checkpoint stores them."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def over_processes(self, total: Callable[[Tensor], Tensor]) -> "Tally":
        """Return the tally of all processes; `total` returns the sum of a tensor over them."""
        return Tally(**{name: total(value) for name, value in self.tensors().items()})

    def summary(self) -> dict[str, float]:
        """Return accuracy, nll and class_separation of the examples."""
        examples = float(self.examples)
        return {
            "accuracy": float(self.correct) / examples,
            "nll": float(self.nll) / examples,
            "class_separation": class_separation(self.directions, self.class_counts),
        }


def class_separation(directions: Tensor, counts: Tensor) -> float:
    """Return R^2 of cosine distances (Kornblith et al. 2021, Equation 11); 0 if all embeddings have one direction.

    Args:
        directions: [K, D] sums of unit embeddings per class.
        counts: [K] examples per class.

    >>> class_separation(torch.tensor([[2.0, 0.0], [0.0, 3.0]]), torch.tensor([2, 3]))
    1.0
    """
    spread = ClassSpread()
    spread.add(counts.double(), directions.double(), counts.double())  # the squared length of a unit vector is 1
    within, between = spread.variances()
    return between / (within + between) if within + between > 0 else 0.0


def evaluate(network: Network, images: ImageBatches, processes: Processes, report: Report | None = None) -> dict[str, float]:
    """Return accuracy, nll and class_separation on labelled images; each process evaluates a part of them.

    `report` is called with the number of images that all processes have just finished.
    """
    head = cast(ObjectiveHead, network.head)
    labels = torch.from_numpy(labels_of(images.dataset))
    classes, features = head.weight.shape
    tally = Tally.empty(classes, features, processes.device)
    for numbers, embeddings, logits in outputs(network, images, processes):
        tally.add(embeddings, logits, labels[numbers].to(processes.device), head.objective.link)
        if report is not None:
            report(len(numbers) * processes.count)
    return tally.over_processes(processes.total).summary()


def outputs(network: Network, images: ImageBatches, processes: Processes) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Yield image numbers, embeddings and logits of this process's part of the images, batch by batch in order."""
    pipeline = Pipeline(images.prepare.recipe.transform)
    part = np.arange(len(images.dataset))[processes.rank :: processes.count]
    batches = [part[start : start + BATCH] for start in range(0, len(part), BATCH)]
    was_training = network.training
    network.eval()
    for numbers, pixels in zip(batches, images.batches(0, batches), strict=True):
        with torch.inference_mode():
            embeddings, logits = network(pipeline.normalise(pixels.to(processes.device)))
        yield torch.from_numpy(numbers), embeddings, logits
    network.train(was_training)
