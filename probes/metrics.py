"""How a single-label probe is scored: top-1 accuracy, or the mean of the classes' accuracies ([KA] Table A.2)."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from zoo.core import arrays
from zoo.errors import InputError


def accuracy(predictions: Any, labels: Any, weights: Any = None) -> float:
    """The share of examples whose predicted class is the label, or of their weights [N].

    >>> accuracy([0, 1, 1], [0, 1, 2])
    0.6666666666666666
    """
    return _overall(*tally(predictions, labels, weights))


def mean_per_class_accuracy(predictions: Any, labels: Any, weights: Any = None) -> float:
    """The accuracy within each class that occurs among the labels, averaged over those classes.

    >>> mean_per_class_accuracy([0, 0, 0, 1], [0, 0, 0, 0])
    0.75
    >>> mean_per_class_accuracy([0, 0, 0, 0], [0, 0, 0, 1])
    0.5
    """
    return _by_class(*tally(predictions, labels, weights))


def tally(predictions: Any, labels: Any, weights: Any = None, num_classes: int = 0) -> tuple[Tensor, Tensor]:
    """(how many are right, how many there are) of each class, [K] float64, which add up over parts of the examples.

    >>> [part.tolist() for part in tally([0, 1, 1], [0, 1, 2])]
    [[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]]
    """
    y = arrays.labels(labels)
    if not len(y):
        raise InputError("labels: expected at least one, found none")
    hits = arrays.predictions(predictions, len(y)).to(y.device) == y
    each = torch.ones_like(y, dtype=torch.float64) if weights is None else arrays.tensor(weights, "weights").to(y.device)
    right, count = (torch.bincount(y, part.double(), num_classes) for part in (hits * each, each))
    return right, count


def _overall(right: Tensor, count: Tensor) -> float:
    return float(right.sum() / count.sum())


def _by_class(right: Tensor, count: Tensor) -> float:
    return float((right[count > 0] / count[count > 0]).mean())


METRICS: dict[str, Callable[[Tensor, Tensor], float]] = {"accuracy": _overall, "mean-per-class": _by_class}


def metric(name: str) -> Callable[..., float]:
    """The score of that name, of predictions [N] and labels [N], and of weights [N] where they are given."""
    score = tallied(name)
    return lambda predictions, labels, weights=None: score(*tally(predictions, labels, weights))


def tallied(name: str) -> Callable[[Tensor, Tensor], float]:
    """The score of that name, of a `tally`."""
    if name not in METRICS:
        raise InputError(f"metric: expected one of {', '.join(METRICS)}, found {name!r}")
    return METRICS[name]
