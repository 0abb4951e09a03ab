"""Scores of multi-label predictions: the 11-point average precision of Pascal VOC 2007, and the area under the ROC curve."""

import warnings
from typing import Any

import torch
from torch import Tensor

from zoo.core import arrays
from zoo.core.arrays import like_input
from zoo.errors import InputError, ZooWarning

IGNORED = -1  # among targets: neither present nor absent


def average_precision(scores: Any, labels: Any, mask: Any = None) -> Any:
    """[K] each class's 11-point interpolated average precision ([G] 4.7); NaN for a class without a positive.

    `scores` [N, K] are larger for what is more likely present; `labels` [N, K] are 1 for present, 0 for absent, and -1 for
    what is ignored, neither a hit nor a miss, as VOC's devkit treats objects marked difficult. Where `mask` [N, K] is False
    a label is ignored too. With the precision and the recall of "score at least t" for every threshold t that occurs, the
    value is the mean over the recalls r = 0, 0.1, …, 1 of the best precision at a recall of r or more. Rows of equal score
    pass a threshold together, so their order in the array means nothing.

    >>> average_precision([[0.9], [0.8], [0.7], [0.6]], [[1], [0], [1], [0]]).round(4).tolist()
    [0.8485]
    """
    s, y = _pair(scores, labels, mask)
    order = s.argsort(dim=0, descending=True)
    ranked, truth = s.gather(0, order), y.gather(0, order)
    hits = (truth == 1).cumsum(0).double()
    precision = hits / (truth >= 0).cumsum(0).clamp(min=1)
    # Within a run of equal scores only its last row is a threshold.
    last = torch.ones_like(ranked, dtype=torch.bool)
    last[:-1] = ranked[:-1] != ranked[1:]
    precision = torch.where(last, precision, 0.0)
    best_from_here = precision.flip(0).cummax(0).values.flip(0)
    positives = hits[-1]
    # recall >= j / 10 in whole numbers: 10 hits >= j positives; the first such row of each class
    first = torch.stack([(10 * hits >= j * positives).to(torch.uint8).argmax(0) for j in range(11)])
    value = best_from_here.gather(0, first).mean(0)
    return like_input(torch.where(positives > 0, value, torch.nan), scores)


def voc_map(scores: Any, labels: Any, mask: Any = None) -> float:
    """The mean over classes of `average_precision`, in [0, 1]; a class without a positive is left out, with a warning.

    >>> voc_map([[0.9, 0.1], [0.2, 0.8]], [[1, 0], [0, 1]])
    1.0
    """
    return _mean(arrays.tensor(average_precision(scores, labels, mask), "average precision"), "a positive example")


def auc(scores: Any, labels: Any, bins: int | None = None, mask: Any = None) -> Any:
    """[K] each class's area under the ROC curve: how often a positive scores above a negative, ties counting half.

    `scores`, `labels` and `mask` as in `average_precision`. `bins` approximates as [KA] D.3 does: scores, which must then be
    probabilities, count as equal within evenly spaced bins of [0, 1]. NaN for a class that lacks positives or negatives.

    >>> auc([[0.9], [0.4], [0.6], [0.1]], [[1], [1], [0], [0]]).tolist()
    [0.75]
    """
    s, y = _pair(scores, labels, mask)
    if bins is not None:
        if bins < 1:
            raise InputError(f"bins: expected at least 1, found {bins}")
        if not bool(((s >= 0) & (s <= 1)).all()):
            raise InputError("scores: expected probabilities in [0, 1] to put into bins; leave bins=None for other scores")
        s = (s * bins).floor().clamp(max=bins - 1)
    values = []
    for column, truth in zip(s.T.contiguous(), y.T, strict=True):
        positive, negative = column[truth == 1], column[truth == 0].sort().values
        below = torch.searchsorted(negative, positive, side="left") + torch.searchsorted(negative, positive, side="right")
        pairs = len(positive) * len(negative)
        values.append(float(below.double().sum()) / (2 * pairs) if pairs else torch.nan)
    return like_input(torch.tensor(values, dtype=torch.float64, device=s.device), scores)


def mean_auc(scores: Any, labels: Any, bins: int | None = None, mask: Any = None) -> float:
    """The mean over classes of `auc`; a class that lacks positives or negatives is left out, with a warning.

    `scores`, `labels` and `mask` [N, K] as in `average_precision`, `bins` as in `auc` ([KA] D.3 has 1000).

    >>> scores, labels = [[0.9, 0.2], [0.4, 0.7], [0.6, 0.8], [0.1, 0.3]], [[1, 0], [1, 1], [0, 1], [0, 0]]
    >>> mean_auc(scores, labels), mean_auc(scores, labels, bins=2)  # 0.75 and 1; of two bins 0.5 and 1
    (0.875, 0.75)
    """
    return _mean(arrays.tensor(auc(scores, labels, bins, mask), "auc"), "a positive and a negative example")


def targets(values: Any, name: str = "labels") -> Tensor:
    """[N, K] of 0 and 1 (or booleans), and of -1 for what is ignored, as int64."""
    y = arrays.tensor(values, name)
    if y.ndim != 2 or 0 in y.shape:
        raise InputError(f"{name}: expected shape [N, K], one column per class, found {list(y.shape)}")
    bad = (y != 0) & (y != 1) & (y != IGNORED)
    if bad.any():
        row, column = bad.nonzero()[0].tolist()
        raise InputError(
            f"{name}: row {row}, class {column} is {y[row, column].item()}, expected 0 (absent), 1 (present) or -1 (ignored)"
        )
    return y.long()


def _pair(scores: Any, labels: Any, mask: Any) -> tuple[Tensor, Tensor]:
    s, y = arrays.tensor(scores, "scores"), targets(labels)
    if mask is not None:
        kept = arrays.tensor(mask, "mask").to(y.device)
        if kept.dtype != torch.bool or kept.shape != y.shape:
            found = f"{kept.dtype} of shape {list(kept.shape)}"
            raise InputError(f"mask: expected booleans of shape {list(y.shape)}, as the labels have, found {found}")
        y = y.masked_fill(~kept, IGNORED)
    if s.shape != y.shape:
        raise InputError(f"scores: expected shape {list(y.shape)}, as the labels have, found {list(s.shape)}")
    bad = ~torch.isfinite(s).all(1)
    if bad.any():
        raise InputError(f"scores: row {int(bad.nonzero()[0])} has NaN or infinite values ({int(bad.sum())} such rows)")
    return s, y.to(s.device)


def _mean(values: Tensor, needed: str) -> float:
    undefined = values.isnan()
    if undefined.all():
        raise InputError(f"labels: no class has {needed}")
    if undefined.any():
        left_out = undefined.nonzero()[:, 0].tolist()
        warnings.warn(
            f"{len(left_out)} of {len(values)} classes lack {needed} and are left out of the mean, e.g. class {left_out[0]}",
            ZooWarning,
            stacklevel=3,
        )
    return float(values[~undefined].mean())
