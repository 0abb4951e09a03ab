"""Accuracy on two datasets: the drop, the line that models lie on, and the models that do not.

Accuracies under a shift lie close to a line on the probit scale (Miller et al. 2021, Accuracy on the Line), which unlike
per cent has no ends; what is worth knowing is who lies off it.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from zoo.errors import InputError

if TYPE_CHECKING:
    import pandas

LEVEL = 0.95
FEWEST = 4  # models: three that make a line, and one that may lie off it


@dataclass(frozen=True)
class AccuracyLine:
    """probit(second) = slope probit(first) + intercept, with intervals of both; `frame` has one row per model.

    Columns: model, first and second accuracy, drop, `expected` (what the line says), and `p`: the chance of lying so far
    off the line of the other models, times the number of models (Bonferroni); `off` where that is below 5%. Without a line
    (fewer than three different models) what needs one is NaN.
    """

    frame: "pandas.DataFrame"
    slope: float
    slope_interval: tuple[float, float]
    intercept: float
    intercept_interval: tuple[float, float]
    correlation: float


def accuracy_line(
    names: Sequence[str], first: Sequence[float], second: Sequence[float], examples: tuple[int, int]
) -> AccuracyLine:
    """The line through M models' accuracies on a first and a second dataset of so many `examples`.

    Accuracies of 0 and 1 are moved in by half an example, since their probit is infinite.

    >>> line = accuracy_line("abcd", [0.6, 0.7, 0.8, 0.9], [0.5, 0.6, 0.7, 0.8], (1000, 1000))
    >>> round(line.slope, 2), line.frame["drop"].round(3).tolist()
    (0.82, [0.1, 0.1, 0.1, 0.1])
    """
    import pandas
    from scipy import stats

    a, b = np.asarray(first, np.float64), np.asarray(second, np.float64)
    if not len(names) == len(a) == len(b) or not len(a):
        raise InputError(f"accuracy_line: expected two accuracies per model, found {len(a)} and {len(b)} of {len(names)}")
    x, y = (stats.norm.ppf(np.clip(v, 0.5 / n, 1 - 0.5 / n)) for v, n in zip((a, b), examples, strict=True))
    frame = pandas.DataFrame({"model": list(names), "first": a, "second": b, "drop": a - b})
    if len(np.unique(x)) < 3:
        nowhere = (np.nan, np.nan)
        return AccuracyLine(frame.assign(expected=np.nan, p=np.nan, off=False), np.nan, nowhere, np.nan, nowhere, np.nan)
    fit = stats.linregress(x, y)
    wide = float(stats.t.ppf((1 + LEVEL) / 2, len(x) - 2))
    p = _outlier_p(x, y, fit.slope * x + fit.intercept)
    frame = frame.assign(expected=stats.norm.cdf(fit.slope * x + fit.intercept), p=p, off=p < 1 - LEVEL)
    return AccuracyLine(
        frame,
        float(fit.slope),
        (float(fit.slope - wide * fit.stderr), float(fit.slope + wide * fit.stderr)),
        float(fit.intercept),
        (float(fit.intercept - wide * fit.intercept_stderr), float(fit.intercept + wide * fit.intercept_stderr)),
        float(fit.rvalue),
    )


def _outlier_p(x: np.ndarray, y: np.ndarray, fitted: np.ndarray) -> np.ndarray:
    """[M] Bonferroni-corrected p of each residual, studentised by the line of the other models."""
    from scipy import stats

    count = len(x)
    if count < FEWEST:
        return np.full(count, np.nan)
    residual = y - fitted
    leverage = 1 / count + (x - x.mean()) ** 2 / ((x - x.mean()) ** 2).sum()
    left = 1 - leverage
    # The residual variance without model i follows from the fit with it: no M refits are needed.
    others = (residual @ residual - residual**2 / np.maximum(left, 1e-12)) / (count - 3)
    scale = np.sqrt(np.maximum(others, 0) * np.maximum(left, 1e-12))
    t = np.divide(np.abs(residual), scale, out=np.zeros(count), where=scale > 1e-9)
    return np.minimum(1, count * 2 * stats.t.sf(t, count - 3))
