"""Confidence intervals of a difference: paired bootstrap over examples."""

from collections.abc import Callable

import numpy as np

# Resampled entries drawn at a time: 16 MB of row numbers.
DRAWS_TOGETHER = 2**22


def bootstrap_mean(
    values: np.ndarray, weights: np.ndarray | None = None, resamples: int = 1000, level: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """Percentile interval of the (weighted) mean of [N] values, by resampling the examples.

    With values = (right with B) - (right with A) an example, it is the paired interval of the gain in accuracy.

    >>> import numpy as np
    >>> bootstrap_mean(np.ones(10))
    (1.0, 1.0)
    """
    rng = np.random.default_rng(seed)
    values = np.asarray(values, np.float64)
    weights = np.ones_like(values) if weights is None else np.asarray(weights, np.float64)
    weighted = values * weights
    means: list[np.ndarray] = []
    together = max(1, DRAWS_TOGETHER // len(values))
    for start in range(0, resamples, together):
        draws = rng.integers(0, len(values), (min(together, resamples - start), len(values)), dtype=np.int32)
        means.append(weighted[draws].sum(1) / weights[draws].sum(1))
    return _percentiles(np.concatenate(means), level)


def bootstrap_function(
    function: Callable[[np.ndarray], float], examples: int, resamples: int = 1000, level: float = 0.95, seed: int = 0
) -> tuple[float, float]:
    """Percentile interval of any function of resampled rows."""
    rng = np.random.default_rng(seed)
    return _percentiles(np.array([function(rng.integers(0, examples, examples)) for _ in range(resamples)]), level)


def _percentiles(values: np.ndarray, level: float) -> tuple[float, float]:
    low, high = np.quantile(values, [(1 - level) / 2, (1 + level) / 2])
    return float(low), float(high)
