"""Confidence intervals of a difference: paired bootstrap over examples."""

from collections.abc import Callable

import numpy as np

# Counts held at a time, resamples by examples: 32 MB.
COUNTS_TOGETHER = 2**22


def bootstrap_means(
    values: np.ndarray, weights: np.ndarray | None = None, resamples: int = 1000, level: float = 0.95, seed: int = 0
) -> np.ndarray:
    """[T, 2] percentile intervals of the (weighted) means of [T, N] values, by resampling the N examples.

    With values = (right with B) - (right with A) an example, it is the paired interval of the gain in accuracy. A resample
    is how often it takes each example, so that all T means are one product with the counts.

    >>> bootstrap_means(np.ones((1, 10)))
    array([[1., 1.]])
    """
    rng = np.random.default_rng(seed)
    values = np.asarray(values, np.float64)
    weights = np.ones(values.shape[1]) if weights is None else np.asarray(weights, np.float64)
    weighted = np.concatenate([values * weights, weights[None]]).T
    examples, means = len(weights), []
    together = max(1, COUNTS_TOGETHER // examples)
    for start in range(0, resamples, together):
        count = min(together, resamples - start)
        draws = rng.integers(0, examples, (count, examples), dtype=np.int32) + np.arange(count)[:, None] * examples
        taken = np.bincount(draws.ravel(), minlength=count * examples).reshape(count, examples)
        sums = taken.astype(np.float64) @ weighted
        means.append(sums[:, :-1] / sums[:, -1:])
    return np.quantile(np.concatenate(means), [(1 - level) / 2, (1 + level) / 2], axis=0).T


def bootstrap_function(
    function: Callable[[np.ndarray], float], examples: int, resamples: int = 1000, level: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """Percentile interval of any function of resampled rows."""
    rng = np.random.default_rng(seed)
    values = [function(rng.integers(0, examples, examples)) for _ in range(resamples)]
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
