"""Confidence intervals: Wilson's for fractions of examples, the paired bootstrap for every other measure.

A fraction of n examples is binomial given n, and Wilson's interval is valid for any n: 1 of 1 gives 0.21 to 1. The bootstrap
could only draw that one example again and would give 1 to 1. Other measures are resampled (`diversity.bootstrap`).
"""

from typing import Any

import numpy as np

from diversity.bootstrap import LEVEL, RESAMPLES, check_level, percentile_interval, resample, resample_together
from diversity.measures import find
from diversity.pair_ensembles import EnsembleTable, from_split_cells
from diversity.tables import ErrorTable, on_host
from zoo.core import arrays
from zoo.core.backend import is_tensor
from zoo.errors import InputError

# Pairs resampled at a time. A thousand draws for each of at most four bounds per pair take about 130 MB.
PAIR_BLOCK = 4096


def interval(
    table: ErrorTable, measure: str, resamples: int = RESAMPLES, level: float = LEVEL, seed: int = 0
) -> tuple[Any, Any]:
    """Return the ends of a measure's confidence interval, for one pair or for every pair of a `Pairwise`.

    Args:
        table: an error table, or many of them.
        measure: name of a measure, from `diversity.MEASURES`.
        resamples: number of bootstrap resamples, for measures without a Wilson interval.
        level: confidence level.
        seed: random seed of the resamples.

    >>> low, high = interval(ErrorTable(np.array([700.0, 80.0, 60.0, 100.0, 60.0])), "inconsistency")
    >>> bool(low < 0.14 < high)
    True
    """
    record = find(measure, "errors", "ensemble")
    value = getattr(table, measure, None)
    if value is None:
        raise InputError(
            f"{measure} needs {record.needs}, and only predictions are known", argument="measure", found=measure
        )
    if not record.has_interval:
        raise InputError(f"{measure} has no confidence interval", argument="measure", found=measure)
    ends: Any
    if record.of is not None:
        ends = wilson(on_host(value), on_host(getattr(table, record.of)), level)
    else:
        ends = _bootstrap_interval(table, measure, resamples, level, seed)
    cells: Any = table.cells
    if is_tensor(cells):
        low, high = (arrays.tensor(end, measure).to(cells) for end in ends)
        return low, high
    return ends[0][()], ends[1][()]


def wilson(fraction: Any, count: Any, level: float = LEVEL) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of Wilson's interval, NaN where `count` is 0. (SciPy's `binomtest` takes one fraction at a time.)

    Args:
        fraction: [...] observed fractions.
        count: [...] number of examples of each.
        level: confidence level.

    >>> [float(end.round(4)) for end in wilson(1.0, 1)]
    [0.2065, 1.0]
    """
    from scipy.special import ndtri

    check_level(level)
    p, n = np.asarray(fraction, np.float64), np.asarray(count, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = ndtri((1 + level) / 2) / np.sqrt(n)
        middle = (p + z**2 / 2) / (1 + z**2)
        half = z / (1 + z**2) * np.sqrt(p * (1 - p) + z**2 / 4)
    # At p = 0 and p = 1 one end is exactly p; `0.0 * middle` keeps NaN.
    return np.where(p <= 0, 0.0 * middle, middle - half), np.where(p >= 1, 1 + 0.0 * middle, middle + half)


def resampled(table: ErrorTable, resamples: int = RESAMPLES, seed: int = 0) -> EnsembleTable:
    """Return bootstrap resamples of one pair's table, along a new first axis. The ensemble is resampled with its members.

    The resamples of (b, a) are the resamples of (a, b) with the models exchanged.
    """
    counts = _counts(table)
    cells = np.arange(len(counts))
    exchanged = counts[_exchanged(cells)]
    if tuple(exchanged) < tuple(counts):
        cells, counts = _exchanged(cells), exchanged
    return _from_counts(resample(counts, resamples, seed)[:, cells])


def _exchanged(cells: np.ndarray) -> np.ndarray:
    """Return five or ten cells with `only_first` and `only_second` exchanged."""
    return cells.reshape(-1, 5)[:, [0, 2, 1, 3, 4]].reshape(-1)


def _bootstrap_interval(table: ErrorTable, measure: str, resamples: int, level: float, seed: int) -> np.ndarray:
    """Return the ends [2, ...] of bootstrap intervals for tables [..., cells]. Equal tables share one interval."""
    counts = _counts(table)
    flat = counts.reshape(-1, counts.shape[-1])
    if flat.shape[1] == 5:
        # The bootstrapped measures of an error table depend on its 2x2 table only, and are the same for (a, b) and (b, a).
        both_wrong = flat[:, 3:].sum(1, keepdims=True)
        flat = np.concatenate([flat[:, :1], np.sort(flat[:, 1:3], 1), both_wrong, 0 * both_wrong], 1)
    distinct, place = np.unique(flat, axis=0, return_inverse=True)
    ends = np.empty((2, len(distinct)))
    for start in range(0, len(distinct), PAIR_BLOCK):
        for tables, draws in resample_together(distinct[start : start + PAIR_BLOCK], resamples, seed + start):
            ends[:, start + tables] = percentile_interval(getattr(_from_counts(draws), measure), level)
    return ends[:, place].reshape(2, *counts.shape[:-1])


def _counts(table: ErrorTable) -> np.ndarray:
    """Return the five cells, or the ten cells of `split_cells` if the ensemble's predictions are known."""
    cells = on_host(table.cells)
    if isinstance(table, EnsembleTable) and table.right is not None:
        right = on_host(table.right)
        return np.concatenate([right, cells - right], -1)
    return cells


def _from_counts(counts: np.ndarray) -> EnsembleTable:
    return from_split_cells(counts) if counts.shape[-1] == 10 else EnsembleTable(counts)
