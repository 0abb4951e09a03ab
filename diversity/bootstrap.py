"""The paired bootstrap: what a measure would have been on other draws of the same number of examples.

All that a table keeps of a draw is how many examples fall in each cell, and those counts follow a multinomial distribution
with the observed shares: drawing it directly gives exactly the bootstrap of the examples, at a cost that does not depend on
their number.
"""

from typing import Any

import numpy as np
import torch
from torch import Tensor

from zoo.core import arrays
from zoo.errors import InputError

RESAMPLES = 1000
LEVEL = 0.95
WEIGHT_BLOCK = 32


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
    check_level(level)
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


def resampled_means(columns: Tensor, resamples: int = RESAMPLES, seed: int = 0) -> Tensor:
    """[resamples, F]: means of the columns [N, F] over draws of N examples, for measures that are not counts.

    A draw is a row of weights, how often each example is in it; the means are then a matrix product.
    """
    rows = len(columns)
    rng = np.random.default_rng(seed)
    columns = columns.to(arrays.accumulation_dtype(columns.device))
    means = []
    for start in range(0, resamples, WEIGHT_BLOCK):
        block = min(WEIGHT_BLOCK, resamples - start)
        drawn = rng.integers(0, rows, (block, rows)) + rows * np.arange(block)[:, None]
        weights = np.bincount(drawn.ravel(), minlength=block * rows).reshape(block, rows)
        means.append(torch.from_numpy(weights).to(columns) @ columns / rows)
    return torch.cat(means)


def check_level(level: float) -> None:
    """An error unless an interval can have this level."""
    if not 0 < level < 1:
        raise InputError(f"level: expected a share between 0 and 1, found {level}")
