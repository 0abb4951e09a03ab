"""What a training run says about itself: accuracy, NLL and class separation, summed up batch by batch."""

from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from zoo.core.class_spread import ClassSpread
from zoo.core.links import log_probabilities
from zoo.core.types import Link
from zoo.objectives.losses import unit


@dataclass
class Tally:
    """Running sums over examples, on the device of the network; nothing is read back before `summary`."""

    seen: Tensor  # [] examples
    loss: Tensor  # [] training losses, each weighted by its examples
    right: Tensor  # [] correct predictions
    surprise: Tensor  # [] negative log likelihoods
    directions: Tensor  # [K, D] unit features, by class
    of_class: Tensor  # [K] examples

    @classmethod
    def empty(cls, num_classes: int, num_features: int, device: torch.device) -> "Tally":
        shapes = ((), (), (), (), (num_classes, num_features), (num_classes,))
        return cls(*(torch.zeros(shape, device=device) for shape in shapes))

    @torch.no_grad()
    def add(self, features: Tensor, logits: Tensor, labels: Tensor, link: Link, loss: Tensor | None = None) -> None:
        """Count a batch: features [N, D], logits [N, K], labels [N], and its mean training loss."""
        self.seen += len(labels)
        if loss is not None:
            self.loss += loss.detach() * len(labels)
        self.right += (logits.argmax(1) == labels).sum()
        self.surprise -= log_probabilities(logits, link=link).gather(1, labels[:, None]).sum()
        self.directions.index_add_(0, labels, unit(features.float()))
        self.of_class.index_add_(0, labels, torch.ones_like(labels, dtype=self.of_class.dtype))

    def tensors(self) -> dict[str, Tensor]:
        """The sums by name; they are all there is to save."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    def over_processes(self, add_up: Callable[[Tensor], Tensor]) -> "Tally":
        """The sums over all processes, by a function that adds up one tensor over them."""
        return Tally(**{name: add_up(value) for name, value in self.tensors().items()})

    def summary(self) -> dict[str, float]:
        """Means: accuracy, nll, class_separation."""
        seen = float(self.seen)
        return {
            "accuracy": float(self.right) / seen,
            "nll": float(self.surprise) / seen,
            "class_separation": class_separation(self.directions, self.of_class),
        }


def class_separation(directions: Tensor, counts: Tensor) -> float:
    """R^2 of cosine distances, from the sums of unit features [K, D] and the counts [K]; 0 where there is no spread.

    >>> class_separation(torch.tensor([[2.0, 0.0], [0.0, 3.0]]), torch.tensor([2, 3]))
    1.0
    """
    spread = ClassSpread()
    spread.add(counts.double(), directions.double(), counts.double())  # a unit vector's square is 1
    within, between = spread.variances()
    return between / (within + between) if within + between > 0 else 0.0
