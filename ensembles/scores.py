"""What a search maximises or minimises: accuracy, balanced accuracy, NLL, Brier score, or a function of one's own.

A score is a weighted mean of one number an example, computed from the *sum* S of the members' probabilities and their
total weight w (the ensemble is S / w). Sums are kept in float64: members in float32 or float16 add up without rounding
that could matter, so that a model added twice leaves every prediction as it was.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import torch

from zoo import arrays
from zoo.errors import InputError

ObjectiveName: TypeAlias = Literal["accuracy", "balanced-accuracy", "nll", "brier"]
ScoreFunction: TypeAlias = Callable[[Any, Any], float]

# A label's probability below this counts as this, so that one underflown entry leaves a finite loss (of 87.3).
SMALLEST = torch.finfo(torch.float32).tiny


@dataclass(frozen=True)
class Objective:
    """A score of an ensemble: how it is computed and which way is better."""

    name: str
    sign: int  # +1: more is better; -1: less is better
    per_example: Callable[[torch.Tensor, float, torch.Tensor], torch.Tensor] | None  # (S, w, labels) -> [N]
    balanced: bool = False  # examples weigh by class, each class the same
    function: ScoreFunction | None = None

    def weights(self, labels: torch.Tensor) -> torch.Tensor:
        """[N] weights of the examples in the mean: one each, or one over the size of its class."""
        one = torch.ones(len(labels), dtype=sum_dtype(labels.device), device=labels.device)
        return one / torch.bincount(labels)[labels] if self.balanced else one

    def of(self, total: torch.Tensor, weight: float, labels: torch.Tensor) -> tuple[float, torch.Tensor]:
        """The score of the ensemble S / w, and its part from each example."""
        if self.per_example is None:
            raise InputError(f"objective {self.name}: not a mean over examples")
        parts = self.per_example(total, weight, labels)
        return weighted_mean(parts, self.weights(labels)), parts


def top_class(values: torch.Tensor) -> torch.Tensor:
    """[N] the class of the greatest value in each row [N, K]; of equal ones the first."""
    if values.device.type == "cpu" and type(values) is torch.Tensor:
        # NumPy's argmax is vectorised and five times as fast as torch's; both take the first of equal maxima.
        return torch.from_numpy(values.numpy().argmax(1))
    return values.argmax(1)


def sum_dtype(device: torch.device) -> torch.dtype:
    """The precision sums are kept in: float64, or float32 on the one kind of device that has no other."""
    return torch.float32 if device.type == "mps" else torch.float64


def weighted_mean(values: torch.Tensor, weights: torch.Tensor) -> float:
    """Mean of [N] values with [N] weights."""
    return float((values.to(weights.dtype) * weights).sum() / weights.sum())


def mean_log_loss(label_sums: torch.Tensor, weight: float) -> float:
    """Mean NLL from the label's entries of S alone."""
    return float(-(label_sums / weight).clamp(min=SMALLEST).log().mean())


def chance_score(objective: Objective, num_classes: int) -> float:
    """What knowing nothing scores, more is better: every class equally probable; 0 for a user's own function."""
    losses = {"nll": -math.log(num_classes), "brier": 1 / num_classes - 1}
    return 0.0 if objective.function else losses.get(objective.name, 1 / num_classes)


def objective(given: ObjectiveName | str | ScoreFunction) -> Objective:
    """The objective of a name, or of a function (probabilities [N, K], labels [N]) -> a number, more is better."""
    if callable(given):
        return Objective(getattr(given, "__name__", "score"), 1, None, function=given)
    known = OBJECTIVES.get(str(given).replace("_", "-"))
    if known is None:
        raise InputError(f"objective: expected one of {', '.join(OBJECTIVES)} or a function, found {given!r}")
    return known


def score(probabilities: Any, labels: Any, objective_name: ObjectiveName | str | ScoreFunction = "accuracy") -> float:
    """One score of probabilities [N, K]: accuracy, balanced-accuracy, nll or brier, or a function's.

    >>> import numpy as np
    >>> score(np.array([[0.7, 0.3], [0.6, 0.4]]), np.array([0, 1]))
    0.5
    """
    p = arrays.probabilities(probabilities)
    y = arrays.labels(labels, p.shape[1], len(p)).to(p.device)
    chosen = objective(objective_name)
    if chosen.function is not None:
        return float(chosen.function(probabilities, labels))
    return chosen.of(p.to(sum_dtype(p.device)), 1.0, y)[0]


def _right(total: torch.Tensor, weight: float, labels: torch.Tensor) -> torch.Tensor:
    return (top_class(total) == labels).to(total.dtype)


def _log_loss(total: torch.Tensor, weight: float, labels: torch.Tensor) -> torch.Tensor:
    return -(total.gather(1, labels[:, None])[:, 0] / weight).clamp(min=SMALLEST).log()


def _squared_distance(total: torch.Tensor, weight: float, labels: torch.Tensor) -> torch.Tensor:
    # sum_k (p_k - [k = y])^2 = sum_k p_k^2 - 2 p_y + 1
    return total.square().sum(1) / weight**2 - 2 * total.gather(1, labels[:, None])[:, 0] / weight + 1


OBJECTIVES = {
    "accuracy": Objective("accuracy", 1, _right),
    "balanced-accuracy": Objective("balanced-accuracy", 1, _right, balanced=True),
    "nll": Objective("nll", -1, _log_loss),
    "brier": Objective("brier", -1, _squared_distance),
}
