"""Intervals: Wilson's for a plain share of examples, the paired bootstrap for everything else.

A share of n examples is binomial given n, and Wilson's interval holds for any n: 1 of 1 is 0.21 to 1, where the bootstrap,
which can only draw that one example again, would say 1 to 1. Other measures are resampled: examples are drawn with
replacement, each with both models' answers (`diversity.bootstrap`).
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from diversity.bootstrap import LEVEL, RESAMPLES, check_level, percentile_interval, resample
from diversity.ensembled import EnsembleTable, from_split_cells
from diversity.measures import find
from diversity.tables import ErrorTable, on_host
from zoo.errors import InputError

# Pairs resampled at a time: a thousand resamples of five cells of them are about 80 megabytes.
PAIR_BLOCK = 2048


def interval(
    table: ErrorTable, measure: str, resamples: int = RESAMPLES, level: float = LEVEL, seed: int = 0
) -> tuple[Any, Any]:
    """Lower and upper end of a measure's interval, for one pair or for every pair of a `Pairwise`.

    >>> low, high = interval(ErrorTable(np.array([700.0, 80.0, 60.0, 100.0, 60.0])), "inconsistency")
    >>> bool(low < 0.14 < high)
    True
    """
    record = find(measure, "errors", "ensemble")
    value = getattr(table, measure, None)
    if value is None:
        raise InputError(f"{measure} needs {record.needs}, and only predictions were compared")
    if not record.has_interval:
        raise InputError(f"{measure} has no interval")
    ends: Any
    if record.of is not None:
        ends = wilson(on_host(value), on_host(getattr(table, record.of)), level)
    else:
        ends = _bootstrapped(table, measure, resamples, level, seed)
    if isinstance(table.cells, Tensor):
        return torch.as_tensor(ends[0]).to(table.cells), torch.as_tensor(ends[1]).to(table.cells)
    return ends[0][()], ends[1][()]


def wilson(share: Any, count: Any, level: float = LEVEL) -> tuple[np.ndarray, np.ndarray]:
    """Ends of Wilson's interval for shares [...] of `count` [...] examples; NaN where there are none.

    SciPy's `binomtest` gives one at a time, too slowly for a matrix of pairs.

    >>> [float(end.round(4)) for end in wilson(1.0, 1)]
    [0.2065, 1.0]
    """
    from scipy.special import ndtri

    check_level(level)
    p, n = np.asarray(share, np.float64), np.asarray(count, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = ndtri((1 + level) / 2) / np.sqrt(n)  # of a mean of n
        middle = (p + z**2 / 2) / (1 + z**2)
        half = z / (1 + z**2) * np.sqrt(p * (1 - p) + z**2 / 4)
    # At 0 and 1 the two terms are equal, up to rounding.
    return np.where(p <= 0, 0.0 * middle, middle - half), np.where(p >= 1, 1 + 0.0 * middle, middle + half)


def resampled(table: ErrorTable, resamples: int = RESAMPLES, seed: int = 0) -> EnsembleTable:
    """The table of one pair with a leading axis of draws; whether the ensemble was right is drawn along with the rest."""
    return _of_counts(resample(_counts(table), resamples, seed))


def _bootstrapped(table: ErrorTable, measure: str, resamples: int, level: float, seed: int) -> np.ndarray:
    """[2, ...] ends for tables [..., cells]. Pairs of equal counts have one interval, drawn once."""
    counts = _counts(table)
    flat = counts.reshape(-1, counts.shape[-1])
    if flat.shape[1] == 5:
        # What is no share of a table of errors is the same for (a, b) and (b, a): half of a matrix is enough.
        flat = np.concatenate([flat[:, :1], np.sort(flat[:, 1:3], 1), flat[:, 3:]], 1)
    distinct, place = np.unique(flat, axis=0, return_inverse=True)
    ends = np.empty((2, len(distinct)))
    for start in range(0, len(distinct), PAIR_BLOCK):
        block = slice(start, start + PAIR_BLOCK)
        draws = _of_counts(resample(distinct[block], resamples, seed + start))
        ends[:, block] = percentile_interval(getattr(draws, measure), level)
    return ends[:, place].reshape(2, *counts.shape[:-1])


def _counts(table: ErrorTable) -> np.ndarray:
    """The five cells, or ten where it is known which of their examples the ensemble gets right."""
    cells = on_host(table.cells)
    if isinstance(table, EnsembleTable) and table.right is not None:
        right = on_host(table.right)
        return np.concatenate([right, cells - right], -1)
    return cells


def _of_counts(counts: np.ndarray) -> EnsembleTable:
    return from_split_cells(counts) if counts.shape[-1] == 10 else EnsembleTable(counts)
