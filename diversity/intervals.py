"""Intervals: Wilson's for a plain share of examples, the paired bootstrap for everything else.

A share of n examples is binomial given n, and Wilson's interval holds for any n: 1 of 1 is 0.21 to 1, where the bootstrap,
which can only draw that one example again, would say 1 to 1. Other measures are resampled: examples are drawn with
replacement, each with both models' answers. All that a table keeps of a draw is how many examples fall in each cell, and
those counts follow a multinomial distribution with the observed shares: drawing it directly gives exactly the bootstrap of
the examples, at a cost that does not depend on their number.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from diversity.ensembled import EnsembleTable, from_split_cells
from diversity.measures import find
from diversity.tables import ErrorTable, on_host
from zoo import arrays
from zoo.errors import InputError

RESAMPLES = 1000
LEVEL = 0.95
# Pairs resampled at a time: a thousand resamples of five cells of them are about 80 megabytes.
PAIR_BLOCK = 2048
WEIGHT_BLOCK = 32


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

    _check_level(level)
    p, n = np.asarray(share, np.float64), np.asarray(count, np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        z = ndtri((1 + level) / 2) / np.sqrt(n)  # of a mean of n
        middle = (p + z**2 / 2) / (1 + z**2)
        half = z / (1 + z**2) * np.sqrt(p * (1 - p) + z**2 / 4)
    # At 0 and 1 the two terms are equal, up to rounding.
    return np.where(p <= 0, 0.0 * middle, middle - half), np.where(p >= 1, 1 + 0.0 * middle, middle + half)


def resample(counts: Any, resamples: int = RESAMPLES, seed: int = 0) -> np.ndarray:
    """[resamples, ..., cells]: tables drawn from each of the tables of counts [..., cells].

    >>> resample([8, 0, 2], resamples=1000).mean(0).round()
    array([8., 0., 2.])
    """
    cells = np.asarray(counts, np.float64)
    if resamples < 1:
        raise InputError(f"resamples: expected at least 1, found {resamples}")
    examples = cells.sum(-1).astype(np.int64)
    shares = cells / examples[..., None]
    return np.random.default_rng(seed).multinomial(examples, shares, (resamples, *examples.shape)).astype(np.float64)


def percentile_interval(values: np.ndarray, level: float = LEVEL) -> tuple[np.ndarray, np.ndarray]:
    """The central `level` of resampled values [resamples, ...]; resamples in which a measure is undefined are left out.

    >>> low, high = percentile_interval(np.arange(101.0), 0.9)
    >>> round(float(low), 6), round(float(high), 6)
    (5.0, 95.0)
    """
    _check_level(level)
    ends = [(1 - level) / 2, (1 + level) / 2]
    flat = values.reshape(len(values), -1)
    found = np.full((2, flat.shape[1]), np.nan)
    complete = ~np.isnan(flat).any(0)
    partial = ~complete & ~np.isnan(flat).all(0)
    found[:, complete] = np.quantile(flat[:, complete], ends, axis=0)
    if partial.any():
        found[:, partial] = np.nanquantile(flat[:, partial], ends, axis=0)
    low, high = found.reshape(2, *values.shape[1:])
    return low, high


def resampled(table: ErrorTable, resamples: int = RESAMPLES, seed: int = 0) -> EnsembleTable:
    """The table of one pair with a leading axis of draws; whether the ensemble was right is drawn along with the rest."""
    return _of_counts(resample(_counts(table), resamples, seed))


def resampled_means(columns: Tensor, resamples: int = RESAMPLES, seed: int = 0) -> Tensor:
    """[resamples, F]: means of the columns [N, F] over draws of N examples, for measures that are not counts.

    A draw is a row of weights, how often each example is in it; the means are then a matrix product.
    """
    rows = len(columns)
    rng = np.random.default_rng(seed)
    columns = columns.to(arrays.wide(columns.device))
    means = []
    for start in range(0, resamples, WEIGHT_BLOCK):
        block = min(WEIGHT_BLOCK, resamples - start)
        drawn = rng.integers(0, rows, (block, rows)) + rows * np.arange(block)[:, None]
        weights = np.bincount(drawn.ravel(), minlength=block * rows).reshape(block, rows)
        means.append(torch.from_numpy(weights).to(columns) @ columns / rows)
    return torch.cat(means)


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


def _check_level(level: float) -> None:
    if not 0 < level < 1:
        raise InputError(f"level: expected a share between 0 and 1, found {level}")
