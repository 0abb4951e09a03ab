"""Accuracy on two datasets: the drop, the line that models lie on, and the models off that line.

Accuracies under a distribution shift lie close to a line on the probit scale (Miller et al. 2021, Accuracy on the Line),
which, unlike percentages, is unbounded. The models off that line are the interesting ones.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from zoo.errors import InputError

LEVEL = 0.95
MIN_MODELS = 4  # for outliers: three that define a line, and one that may lie off it


@dataclass(frozen=True)
class AccuracyLine:
    """The line probit(second) = slope probit(first) + intercept through the accuracies of M models on two datasets.

    With fewer than three different accuracies there is no line, and everything that depends on it is NaN.

    Attributes:
        frame: one row per model: `model`, accuracies `first` and `second`, their difference `drop`, `expected` (the second
            accuracy on the line), `p` (the probability of lying this far off the line of the other models, times M:
            Bonferroni), and `off`, whether p is below 5%.
        slope: the slope of the line.
        slope_interval: its 95% confidence interval.
        intercept: the intercept of the line.
        intercept_interval: its 95% confidence interval.
        correlation: Pearson's correlation of the probits.
    """

    frame: pd.DataFrame
    slope: float
    slope_interval: tuple[float, float]
    intercept: float
    intercept_interval: tuple[float, float]
    correlation: float


def accuracy_line(
    names: Sequence[str], first: Sequence[float], second: Sequence[float], examples: tuple[int, int]
) -> AccuracyLine:
    """Fit the line through M models' accuracies on two datasets.

    Accuracies of 0 and 1, whose probit is infinite, are moved by half an example.

    Args:
        names: [M] model names.
        first: [M] accuracies on the first dataset, between 0 and 1.
        second: [M] accuracies on the second dataset.
        examples: the sizes of the two datasets.

    >>> line = accuracy_line("abcd", [0.6, 0.7, 0.8, 0.9], [0.5, 0.6, 0.7, 0.8], (1000, 1000))
    >>> round(line.slope, 2), line.frame["drop"].round(3).tolist()
    (0.82, [0.1, 0.1, 0.1, 0.1])
    """
    from scipy import stats

    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    for argument, values in (("first", a), ("second", b)):
        if len(values) != len(names) or not len(names):
            raise InputError(
                argument=argument, expected=f"{len(names) or 'some'} accuracies, one per name", found=len(values)
            )
    x, y = (stats.norm.ppf(np.clip(v, 0.5 / n, 1 - 0.5 / n)) for v, n in zip((a, b), examples, strict=True))
    frame = pd.DataFrame({"model": list(names), "first": a, "second": b, "drop": a - b})
    if len(np.unique(x)) < 3:
        nan = (np.nan, np.nan)
        return AccuracyLine(frame.assign(expected=np.nan, p=np.nan, off=False), np.nan, nan, np.nan, nan, np.nan)
    fit = stats.linregress(x, y)
    t = float(stats.t.ppf((1 + LEVEL) / 2, len(x) - 2))
    p = _outlier_p(x, y, fit.slope * x + fit.intercept)
    frame = frame.assign(expected=stats.norm.cdf(fit.slope * x + fit.intercept), p=p, off=p < 1 - LEVEL)
    return AccuracyLine(
        frame,
        float(fit.slope),
        (float(fit.slope - t * fit.stderr), float(fit.slope + t * fit.stderr)),
        float(fit.intercept),
        (float(fit.intercept - t * fit.intercept_stderr), float(fit.intercept + t * fit.intercept_stderr)),
        float(fit.rvalue),
    )


def _outlier_p(x: np.ndarray, y: np.ndarray, fitted: np.ndarray) -> np.ndarray:
    """Return the Bonferroni-corrected p-value [M] of each residual, studentised by the line of the other models."""
    from scipy import stats

    count = len(x)
    if count < MIN_MODELS:
        return np.full(count, np.nan)
    residual = y - fitted
    leverage = 1 / count + (x - x.mean()) ** 2 / ((x - x.mean()) ** 2).sum()
    remainder = np.maximum(1 - leverage, 1e-12)
    # The residual variance without model i follows from the fit with it, so no M refits are needed.
    others = (residual @ residual - residual**2 / remainder) / (count - 3)
    scale = np.sqrt(np.maximum(others, 0) * remainder)
    t = np.divide(np.abs(residual), scale, out=np.zeros(count), where=scale > 1e-9)
    return np.minimum(1, count * 2 * stats.t.sf(t, count - 3))
