"""Smooth expected calibration error (Blasiok & Nakkiran 2023): a calibration error that does not depend on bins.

The residuals (correct - confidence) are smoothed over the confidence by a Gaussian kernel, reflected at 0 and 1. The error
at bandwidth s is the integral of the absolute smoothed residual. It falls as s grows; the smooth error is its value where it
equals s.
"""

import numpy as np

from zoo.calibration.selective import as_booleans
from zoo.core import arrays, checks
from zoo.core.arrays import Array
from zoo.errors import InputError

GRID = 2000
MIN_BANDWIDTH, MAX_BANDWIDTH = 1e-3, 1.0


def smooth_calibration_error(
    confidence: Array, correct: Array, resamples: int = 0, seed: int = 0
) -> tuple[float, tuple[float, float] | None]:
    """Return the smooth calibration error, and its 95% confidence interval over examples.

    Resampling adds noise, and noise adds to an absolute error. The bootstrap's interval is therefore moved by the difference
    between the error and the mean of the resamples.

    Args:
        confidence: [N] probability of the predicted class; exactly 0 and 1 are allowed.
        correct: [N] whether each prediction is right.
        resamples: bootstrap resamples; 0 for no interval.
        seed: random seed of the bootstrap.

    >>> rng = np.random.default_rng(0)
    >>> c = rng.random(20_000)
    >>> error, _ = smooth_calibration_error(c, rng.random(20_000) < c)
    >>> error < 0.02
    True
    """
    right = as_booleans(correct)
    c = arrays.to_numpy(checks.array(confidence, "confidence")).astype(np.float64)
    if c.shape != right.shape or not len(c):
        raise InputError(argument="confidence", expected=f"of shape [{len(right)}]", found=list(c.shape))
    if not ((c >= 0) & (c <= 1)).all():
        row = int(np.flatnonzero(~((c >= 0) & (c <= 1)))[0])
        raise InputError(f"row {row} is not a probability", argument="confidence", found=float(c[row]))
    residual = right - c
    cell = np.minimum((c * GRID).astype(int), GRID - 1)
    error = _fixed_point(np.bincount(cell, residual, GRID) / len(c))
    if not resamples:
        return error, None
    rng = np.random.default_rng(arrays.seed(seed))
    draws = []
    for _ in range(resamples):
        picked = rng.integers(0, len(c), len(c))
        draws.append(_fixed_point(np.bincount(cell[picked], residual[picked], GRID) / len(c)))
    low, high = np.percentile(draws, [2.5, 97.5]) + error - np.mean(draws)
    return error, (max(0.0, float(low)), float(high))


def _fixed_point(residuals: np.ndarray) -> float:
    """Return the bandwidth that equals the error smoothed with it, by bisection: the error falls as the bandwidth grows.

    On [0, 1] with reflection a Gaussian of width s multiplies the k-th cosine coefficient by exp(-(pi k s)^2 / 2).
    """
    from scipy.fft import dct, idct

    coefficients, frequency = dct(residuals, norm="ortho"), np.pi * np.arange(len(residuals))

    def error(bandwidth: float) -> float:
        return float(np.abs(idct(coefficients * np.exp(-((frequency * bandwidth) ** 2) / 2), norm="ortho")).sum())

    low, high = MIN_BANDWIDTH, MAX_BANDWIDTH
    if error(low) <= low:
        return error(low)
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if error(middle) > middle else (low, middle)
    return (low + high) / 2
