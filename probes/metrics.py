"""Scores of predictions: accuracy, mean per-class accuracy, and for several classes per example VOC 2007's mAP and AUC."""

import warnings
from collections.abc import Callable

import torch
from torch import Tensor

from probes._rows import Values
from zoo.core import arrays, limits
from zoo.core.arrays import Array
from zoo.errors import InputError, ZooWarning

IGNORED = -1  # a target that counts neither as present nor as absent


def accuracy(predictions: Values, labels: Values, weights: Values | None = None) -> float:
    """Return the fraction of examples that are classified correctly, between 0 and 1.

    Args:
        predictions: [N] predicted classes.
        labels: [N] true classes.
        weights: [N] weights of the examples; default: all equal.

    >>> accuracy([0, 1, 1], [0, 1, 2])
    0.6666666666666666
    """
    return _overall(*tally(predictions, labels, weights))


def mean_per_class_accuracy(predictions: Values, labels: Values, weights: Values | None = None) -> float:
    """Return the accuracy within each class, averaged over the classes that occur among the labels.

    Arguments as in `accuracy`.

    >>> mean_per_class_accuracy([0, 0, 0, 1], [0, 0, 0, 0])
    0.75
    >>> mean_per_class_accuracy([0, 0, 0, 0], [0, 0, 0, 1])
    0.5
    """
    return _by_class(*tally(predictions, labels, weights))


def tally(predictions: Values, labels: Values, weights: Values | None = None, num_classes: int = 0) -> tuple[Tensor, Tensor]:
    """Return (correct predictions, examples) of each class, [K] float64. Tallies of parts of the examples add up.

    >>> [part.tolist() for part in tally([0, 1, 1], [0, 1, 2])]
    [[1.0, 1.0, 0.0], [1.0, 1.0, 1.0]]
    """
    y = arrays.labels(labels)
    if not len(y):
        raise InputError(argument="labels", expected="at least one label", found=0)
    limits.check_classes(int(y.max()), "labels")
    hits = arrays.labels(predictions, rows=len(y), name="predictions").to(y.device) == y
    each = torch.ones_like(y, dtype=torch.float64) if weights is None else arrays.tensor(weights, "weights").to(y.device)
    if each.shape != y.shape:
        raise InputError(argument="weights", expected=f"of shape [{len(y)}], one per label", found=list(each.shape))
    correct, count = (torch.bincount(y, part.double(), num_classes) for part in (hits * each, each))
    return correct, count


def _overall(correct: Tensor, count: Tensor) -> float:
    return float(correct.sum() / count.sum())


def _by_class(correct: Tensor, count: Tensor) -> float:
    return float((correct[count > 0] / count[count > 0]).mean())


METRICS: dict[str, Callable[[Tensor, Tensor], float]] = {"accuracy": _overall, "mean-per-class": _by_class}


def metric(name: str) -> Callable[..., float]:
    """Return the metric of that name: a function of predictions [N], labels [N] and optional weights [N]."""
    score = tallied(name)
    return lambda predictions, labels, weights=None: score(*tally(predictions, labels, weights))


def tallied(name: str) -> Callable[[Tensor, Tensor], float]:
    """Return the metric of that name as a function of a `tally`."""
    if name not in METRICS:
        raise InputError(argument="metric", expected=f"one of {', '.join(METRICS)}", found=name)
    return METRICS[name]


def average_precision(scores: Values, labels: Values) -> Array:
    """Return the 11-point interpolated average precision of each class, [K]; NaN for a class without a positive.

    For every threshold t that occurs, "score at least t" has a precision and a recall. The result is the mean, over the
    recalls r = 0, 0.1, ..., 1, of the best precision at a recall of at least r. Rows of equal score pass a threshold
    together, so their order in the array does not matter.

    Args:
        scores: [N, K], higher for classes that are more likely present.
        labels: [N, K]: 1 present, 0 absent, -1 ignored. An ignored label is neither a hit nor a miss, as in the VOC devkit
            for objects marked difficult.

    >>> average_precision([[0.9], [0.8], [0.7], [0.6]], [[1], [0], [1], [0]]).round(4).tolist()
    [0.8485]
    """
    s, y = _check_pair(scores, labels)
    order = s.argsort(dim=0, descending=True)
    ranked, truth = s.gather(0, order), y.gather(0, order)
    hits = (truth == 1).cumsum(0).double()
    precision = hits / (truth >= 0).cumsum(0).clamp(min=1)
    # Among rows of equal score only the last is a threshold.
    last = torch.ones_like(ranked, dtype=torch.bool)
    last[:-1] = ranked[:-1] != ranked[1:]
    precision = torch.where(last, precision, 0.0)
    best_from_here = precision.flip(0).cummax(0).values.flip(0)
    positives = hits[-1]
    # recall >= j / 10 in whole numbers: 10 hits >= j positives; the first such row of each class
    first = torch.stack([(10 * hits >= j * positives).to(torch.uint8).argmax(0) for j in range(11)])
    value = best_from_here.gather(0, first).mean(0)
    result: Array = arrays.like_input(torch.where(positives > 0, value, torch.nan), scores)
    return result


def voc_map(scores: Values, labels: Values) -> float:
    """Return the mean of `average_precision` over classes, between 0 and 1.

    A class without a positive is left out, with a warning. Arguments as in `average_precision`.

    >>> voc_map([[0.9, 0.1], [0.2, 0.8]], [[1, 0], [0, 1]])
    1.0
    """
    return _mean_over_classes(average_precision(scores, labels), "a positive example")


def auc(scores: Values, labels: Values, bins: int | None = None) -> Array:
    """Return the area under the ROC curve of each class, [K]; NaN for a class without positives or without negatives.

    The area is the probability that a positive scores above a negative, where ties count half.

    Args:
        scores: [N, K], as in `average_precision`.
        labels: [N, K], as in `average_precision`.
        bins: number of bins for the approximation of Kornblith et al. (2021), D.3: scores, which must then be
            probabilities, count as equal within evenly spaced bins of [0, 1]. The paper uses 1000. Default: exact.

    >>> auc([[0.9], [0.4], [0.6], [0.1]], [[1], [1], [0], [0]]).tolist()
    [0.75]
    """
    s, y = _check_pair(scores, labels)
    if bins is not None:
        if bins < 1:
            raise InputError(argument="bins", expected="at least 1", found=bins)
        if not bool(((s >= 0) & (s <= 1)).all()):
            hint = "Leave {bins=None} for other scores"
            raise InputError("bins need probabilities from 0 to 1", argument="scores", hint=hint)
        s = (s * bins).floor().clamp(max=bins - 1)
    values = []
    for column, truth in zip(s.T.contiguous(), y.T, strict=True):
        positive, negative = column[truth == 1], column[truth == 0].sort().values
        below = torch.searchsorted(negative, positive, side="left") + torch.searchsorted(negative, positive, side="right")
        pairs = len(positive) * len(negative)
        values.append(float(below.double().sum()) / (2 * pairs) if pairs else torch.nan)
    result: Array = arrays.like_input(torch.tensor(values, dtype=torch.float64, device=s.device), scores)
    return result


def mean_auc(scores: Values, labels: Values, bins: int | None = None) -> float:
    """Return the mean of `auc` over classes.

    A class without positives or without negatives is left out, with a warning. Arguments as in `auc`.

    >>> scores, labels = [[0.9, 0.2], [0.4, 0.7], [0.6, 0.8], [0.1, 0.3]], [[1, 0], [1, 1], [0, 1], [0, 0]]
    >>> mean_auc(scores, labels), mean_auc(scores, labels, bins=2)  # means of 0.75 and 1, and of 0.5 and 1
    (0.875, 0.75)
    """
    return _mean_over_classes(auc(scores, labels, bins), "a positive and a negative example")


def targets(values: Values, argument: str = "labels") -> Tensor:
    """Return multi-label targets [N, K] as int64: 1 present, 0 absent (or booleans), -1 ignored."""
    y = arrays.tensor(values, argument)
    if y.ndim != 2 or 0 in y.shape:
        raise InputError(argument=argument, expected="of shape [N, K], one column per class", found=list(y.shape))
    bad = (y != 0) & (y != 1) & (y != IGNORED)
    if bad.any():
        row, column = bad.nonzero()[0].tolist()
        problem = f"row {row}, class {column} is {y[row, column].item()}, not 0 (absent), 1 (present) or -1 (ignored)"
        raise InputError(problem, argument=argument)
    return y.long()


def _check_pair(scores: Values, labels: Values) -> tuple[Tensor, Tensor]:
    """Return checked scores and targets, [N, K] each."""
    s, y = arrays.tensor(scores, "scores"), targets(labels)
    if s.shape != y.shape:
        raise InputError(argument="scores", expected=f"of shape {list(y.shape)}, like the labels", found=list(s.shape))
    bad = ~torch.isfinite(s).all(1)
    if bad.any():
        problem = f"row {int(bad.nonzero()[0])} has NaN or infinite values ({int(bad.sum())} such rows)"
        raise InputError(problem, argument="scores")
    return s, y.to(s.device)


def _mean_over_classes(by_class: Array, needed: str) -> float:
    values = arrays.tensor(by_class, "scores")
    undefined = values.isnan()
    if undefined.all():
        raise InputError(f"no class has {needed}", argument="labels")
    if undefined.any():
        first, count = int(undefined.nonzero()[0]), int(undefined.sum())
        warnings.warn(
            f"The mean leaves out {count} of {len(values)} classes without {needed}, such as class {first}.",
            ZooWarning,
            stacklevel=3,
        )
    return float(values[~undefined].mean())
