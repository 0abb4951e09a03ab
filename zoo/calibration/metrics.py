"""Metrics of probabilities: negative log-likelihood, Brier score, expected calibration error, reliability diagram."""

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from zoo.core import arrays, checks
from zoo.core.arrays import Array
from zoo.core.backend import backend, cast, pick, row_norms, single_or_double, sums_by, to_accumulation_dtype
from zoo.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

BINS = 15
# Replaces a label's probability of 0 in the NLL: 0 means less than float32 can represent, and one infinite loss would hide
# all others.
MIN_PROBABILITY = float(np.finfo(np.float32).tiny)


def negative_log_likelihood(probabilities: Array, labels: Array) -> float:
    """Return the mean of -log p(label). A probability of 0 counts as the smallest float32, so the mean is at most 87.3.

    Args:
        probabilities: [N, K].
        labels: [N] true class indices.

    >>> round(negative_log_likelihood([[0.5, 0.5], [0.1, 0.9]], [0, 1]), 4)
    0.3993
    """
    p, y = _checked(probabilities, labels)
    return float(arrays.total(nll(pick(p, y)), 0)) / len(y)


def nll(p: Any) -> Any:
    """Return -log p, where a probability of 0 counts as `MIN_PROBABILITY`."""
    xp = backend(p)
    return -xp.log(xp.clip(p, MIN_PROBABILITY, None))


def brier_score(probabilities: Array, labels: Array) -> float:
    """Return the mean squared distance between probabilities and the one-hot label, summed over classes: 0 to 2.

    Args:
        probabilities: [N, K].
        labels: [N] true class indices.

    >>> round(brier_score([[0.5, 0.5], [0.1, 0.9]], [0, 1]), 4)
    0.26
    """
    p, y = _checked(probabilities, labels)
    # |p - onehot|^2 = |p|^2 - 2 p_y + 1
    rows = row_norms(p) ** 2 - 2 * pick(p, y) + 1
    return float(arrays.total(rows, 0)) / len(y)


def expected_calibration_error(probabilities: Array, labels: Array, bins: int = BINS) -> float:
    """Return the mean over examples of |confidence - accuracy| of their bin (Guo et al. 2017).

    The bins divide the top-1 confidence into equal widths and are closed on the right, so that confidence 1 is in the last
    bin; 0 is in the first one.

    Args:
        probabilities: [N, K].
        labels: [N] true class indices.
        bins: number of bins.

    >>> round(expected_calibration_error([[0.5, 0.5], [0.1, 0.9]], [0, 1]), 4)
    0.3
    """
    p, y = _checked(probabilities, labels)
    return binned_error(bin_counts(backend(p).amax(p, 1), p.argmax(1) == y, bins))


def reliability(probabilities: Array, labels: Array, bins: int = BINS) -> "pd.DataFrame":
    """Return the reliability diagram as a table: one row per bin with its edges, count, mean confidence and accuracy.

    Args:
        probabilities: [N, K].
        labels: [N] true class indices.
        bins: number of bins.

    >>> reliability([[0.5, 0.5], [0.1, 0.9]], [0, 1], bins=2)
       low  high  count  confidence  accuracy
    0  0.0   0.5      1         0.5       1.0
    1  0.5   1.0      1         0.9       1.0
    """
    p, y = _checked(probabilities, labels)
    return reliability_frame(bin_counts(backend(p).amax(p, 1), p.argmax(1) == y, bins))


def bin_counts(confidence: Any, correct: Any, bins: int = BINS, weights: Any = None) -> Any:
    """Return [3, bins]: the number of examples in each bin, the sum of their confidences, and how many are correct.

    With `weights` [N], every example counts with its weight.
    """
    if isinstance(bins, bool) or not isinstance(bins, int) or bins < 1:
        raise InputError(argument="bins", expected="a whole number of at least 1", found=bins)
    xp = backend(confidence)
    index = xp.clip(cast(xp.ceil(confidence * bins), "int64"), 1, bins) - 1
    values = xp.stack([to_accumulation_dtype(row) for row in (xp.ones_like(confidence), confidence, correct)])
    return sums_by(values if weights is None else values * weights, index, bins)


def binned_error(counts: Any) -> float:
    """Return the expected calibration error of `bin_counts`."""
    examples, confidence, correct = counts
    return float(abs(confidence - correct).sum() / examples.sum())


def reliability_frame(counts: Any) -> "pd.DataFrame":
    """Return `bin_counts` as a table; confidence and accuracy are missing for an empty bin."""
    import pandas as pd

    examples, confidence, correct = arrays.to_numpy(counts)
    bins = len(examples)
    filled = pd.Series(examples).where(examples > 0)
    return pd.DataFrame(
        {
            "low": [i / bins for i in range(bins)],
            "high": [(i + 1) / bins for i in range(bins)],
            "count": examples.astype(int),
            "confidence": confidence / filled,
            "accuracy": correct / filled,
        }
    ).round({"confidence": 7, "accuracy": 7})


def _checked(probabilities: Array, labels: Array) -> tuple[Any, Any]:
    p = checks.array(probabilities, "probabilities")
    p = single_or_double(checks.probabilities(arrays.by_size(p, math.prod(p.shape))))
    return p, arrays.like(checks.labels(labels, p.shape[1], len(p)), p)
