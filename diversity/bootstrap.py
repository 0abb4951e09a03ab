"""Paired-bootstrap intervals: what a measure would have been on other draws of the same number of examples.

Examples are drawn with replacement, each with both models' answers. All that a table keeps of a draw is how many examples
fall in each cell, and those counts follow a multinomial distribution with the observed shares: drawing it directly gives
exactly the bootstrap of the examples, at a cost that does not depend on their number.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from diversity.ensembled import EnsembleTable, from_split_cells
from diversity.pairs import Pairwise
from diversity.tables import ErrorTable
from zoo import arrays
from zoo.errors import InputError

RESAMPLES = 1000
LEVEL = 0.95
# Pairs resampled at a time: a thousand resamples of five cells of them are about 80 megabytes.
PAIR_BLOCK = 2048
WEIGHT_BLOCK = 32
_DIRECTED = ("dominance", "dominated")


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
    if not 0 < level < 1:
        raise InputError(f"level: expected a share between 0 and 1, found {level}")
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


def interval(
    table: ErrorTable, measure: str, resamples: int = RESAMPLES, level: float = LEVEL, seed: int = 0
) -> tuple[Any, Any]:
    """Lower and upper end of a measure's bootstrap interval, for one pair or for every pair of a `Pairwise`.

    >>> low, high = interval(ErrorTable(np.array([700.0, 80.0, 60.0, 100.0, 60.0])), "inconsistency")
    >>> bool(low < 0.14 < high)
    True
    """
    if isinstance(table, Pairwise):
        return _matrix_interval(table, measure, resamples, level, seed)
    values = getattr(resampled(table, resamples, seed), measure)
    if values is None:
        raise InputError(f"{measure}: needs probabilities, and only predictions were compared")
    low, high = percentile_interval(values, level)
    return low[()], high[()]


def resampled(table: ErrorTable, resamples: int = RESAMPLES, seed: int = 0) -> EnsembleTable:
    """The table of one pair with a leading axis of draws; whether the ensemble was right is drawn along with the rest."""
    cells = np.asarray(table.cells)
    if isinstance(table, EnsembleTable) and table.right is not None:
        right = np.asarray(table.right)
        return from_split_cells(resample(np.concatenate([right, cells - right], -1), resamples, seed))
    return EnsembleTable(resample(cells, resamples, seed))


def _matrix_interval(table: Pairwise, measure: str, resamples: int, level: float, seed: int) -> tuple[Any, Any]:
    table.measure(measure)  # an unknown name is an error before the work, not after
    cells = arrays.host(table.cells) if isinstance(table.cells, Tensor) else table.cells
    models = len(table.names)
    first, second = np.triu_indices(models)
    ends = np.empty((2, models, models))
    for start in range(0, len(first), PAIR_BLOCK):
        i, j = first[start : start + PAIR_BLOCK], second[start : start + PAIR_BLOCK]
        draws = resample(cells[i, j], resamples, seed + start)
        ends[:, i, j] = ends[:, j, i] = percentile_interval(getattr(ErrorTable(draws), measure), level)
        if measure in _DIRECTED:
            swapped = ErrorTable(draws[..., [0, 2, 1, 3, 4]])
            ends[:, j, i] = percentile_interval(getattr(swapped, measure), level)
    if isinstance(table.cells, Tensor):
        low, high = torch.as_tensor(ends).to(table.cells)
        return low, high
    return ends[0], ends[1]


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
