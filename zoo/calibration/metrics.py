"""How good probabilities are: log-likelihood, Brier score, expected calibration error and the reliability diagram."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from zoo.core import arrays
from zoo.core.arrays import Array
from zoo.errors import InputError

if TYPE_CHECKING:
    import pandas

BINS = 15
# A label of probability 0 counts as this: 0 stands for less than float32 can hold, and one such row must not hide the rest.
SMALLEST = torch.finfo(torch.float32).tiny


def negative_log_likelihood(probs: Array, labels: Array) -> float:
    """Mean of -log p(label) over examples; a probability of 0 counts as the least that float32 holds, so at most 87.3.

    >>> round(negative_log_likelihood(torch.tensor([[0.5, 0.5], [0.1, 0.9]]), [0, 1]), 4)
    0.3993
    """
    p, y = _checked(probs, labels)
    return float(arrays.total(surprise(p.gather(1, y[:, None])[:, 0]), 0)) / len(y)


def surprise(p: Tensor) -> Tensor:
    """-log p, with the one rule for a probability of 0: it counts as `SMALLEST`."""
    return -p.clamp(min=SMALLEST).log()


def brier_score(probs: Array, labels: Array) -> float:
    """Mean over examples of the squared distance between probabilities and the one-hot label, summed over classes: 0 to 2.

    >>> round(brier_score(torch.tensor([[0.5, 0.5], [0.1, 0.9]]), [0, 1]), 4)
    0.26
    """
    p, y = _checked(probs, labels)
    # |p - onehot|^2 = |p|^2 - 2 p_y + 1
    rows = torch.linalg.vector_norm(p, dim=1).square() - 2 * p.gather(1, y[:, None])[:, 0] + 1
    return float(arrays.total(rows, 0)) / len(y)


def expected_calibration_error(probs: Array, labels: Array, bins: int = BINS) -> float:
    """Mean over examples of |confidence - accuracy| of the bin they fall in (Guo et al. 2017).

    The bins cut the top-1 confidence into `bins` equal widths, closed on the right; 0 belongs to the first one. Empty bins
    count nothing.

    >>> round(expected_calibration_error(torch.tensor([[0.5, 0.5], [0.1, 0.9]]), [0, 1]), 4)
    0.3
    """
    p, y = _checked(probs, labels)
    return binned_error(bin_counts(p.amax(1), p.argmax(1) == y, bins))


def reliability(probs: Array, labels: Array, bins: int = BINS) -> "pandas.DataFrame":
    """The reliability diagram as a table: one row per bin with its edges, count, mean confidence and accuracy.

    >>> reliability(torch.tensor([[0.5, 0.5], [0.1, 0.9]]), [0, 1], bins=2)
       low  high  count  confidence  accuracy
    0  0.0   0.5      1         0.5       1.0
    1  0.5   1.0      1         0.9       1.0
    """
    p, y = _checked(probs, labels)
    return reliability_frame(bin_counts(p.amax(1), p.argmax(1) == y, bins))


def bin_counts(confidence: Tensor, hits: Tensor, bins: int = BINS, weights: Tensor | None = None) -> Tensor:
    """[3, bins]: how many examples fall in each bin, their sum of confidences, and how many are right; or their weights."""
    if bins < 1:
        raise InputError(f"bins: expected at least 1, found {bins}")
    index = (confidence * bins).ceil().long().clamp(1, bins) - 1
    values = torch.stack([torch.ones_like(confidence), confidence, hits.to(confidence.dtype)])
    values = values.to(arrays.accumulation_dtype(confidence.device))
    values = values if weights is None else values * weights.to(values)
    return values.new_zeros(3, bins).index_add_(1, index, values)


def binned_error(counts: Tensor) -> float:
    """The expected calibration error of `bin_counts`."""
    examples, confidence, right = counts
    return float((confidence - right).abs().sum() / examples.sum())


def reliability_frame(counts: Tensor) -> "pandas.DataFrame":
    """`bin_counts` as a table; confidence and accuracy are missing where a bin is empty."""
    import pandas

    examples, confidence, right = arrays.to_numpy(counts)
    bins = len(examples)
    filled = pandas.Series(examples).where(examples > 0)
    return pandas.DataFrame(
        {
            "low": [i / bins for i in range(bins)],
            "high": [(i + 1) / bins for i in range(bins)],
            "count": examples.astype(int),
            "confidence": confidence / filled,
            "accuracy": right / filled,
        }
    ).round({"confidence": 7, "accuracy": 7})


def _checked(probs: Array, labels: Array) -> tuple[Tensor, Tensor]:
    p = arrays.probabilities(probs)
    p = p if p.dtype in (torch.float32, torch.float64) else p.float()
    return p, arrays.labels(labels, p.shape[1], len(p)).to(p.device)
