"""How a single-label probe is scored: top-1 accuracy, or the mean of the classes' accuracies ([KA] Table A.2)."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from zoo._numbers import arrays
from zoo.errors import InputError


def accuracy(predictions: Any, labels: Any) -> float:
    """The share of examples whose predicted class is the label.

    >>> accuracy([0, 1, 1], [0, 1, 2])
    0.6666666666666666
    """
    hits, _ = _hits(predictions, labels)
    return float(hits.double().mean())


def mean_per_class_accuracy(predictions: Any, labels: Any) -> float:
    """The accuracy within each class that occurs among the labels, averaged over those classes.

    >>> mean_per_class_accuracy([0, 0, 0, 1], [0, 0, 0, 0])
    0.75
    >>> mean_per_class_accuracy([0, 0, 0, 0], [0, 0, 0, 1])
    0.5
    """
    hits, y = _hits(predictions, labels)
    right = torch.bincount(y, weights=hits.double())
    count = torch.bincount(y)
    return float((right[count > 0] / count[count > 0]).mean())


METRICS: dict[str, Callable[[Any, Any], float]] = {"accuracy": accuracy, "mean-per-class": mean_per_class_accuracy}


def metric(name: str) -> Callable[[Any, Any], float]:
    """The score of that name."""
    if name not in METRICS:
        raise InputError(f"metric: expected one of {', '.join(METRICS)}, found {name!r}")
    return METRICS[name]


def _hits(predictions: Any, labels: Any) -> tuple[Tensor, Tensor]:
    y = arrays.labels(labels)
    if not len(y):
        raise InputError("labels: expected at least one, found none")
    return arrays.predictions(predictions, len(y)) == y, y
