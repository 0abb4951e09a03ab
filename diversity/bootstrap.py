"""The paired bootstrap: the distribution of a measure over resamples of the examples, each with both models' outputs.

For tables of counts, no examples need to be resampled. The counts of a resample follow a multinomial distribution with the
observed fractions, so drawing from it is exactly the bootstrap of examples, at a cost that does not depend on their number.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from diversity._checks import whole_number
from zoo.core import arrays
from zoo.core.backend import backend, to_accumulation_dtype
from zoo.errors import InputError

RESAMPLES = 1000
LEVEL = 0.95
WEIGHT_BLOCK = 32  # resamples of all examples held at a time
TABLE_BLOCK = 64  # resampled tables held at a time: few enough for the cache


def resample(counts: ArrayLike, resamples: int = RESAMPLES, seed: int = 0) -> np.ndarray:
    """Return bootstrap resamples of tables of counts, drawn independently for every table: [resamples, ..., cells].

    Args:
        counts: tables [..., cells].
        resamples: number of resamples.
        seed: random seed of the draws.

    >>> resample([8, 0, 2], resamples=1000).mean(0).round()
    array([8., 0., 2.])
    """
    cells = np.asarray(counts, np.float64)
    whole_number(resamples, "resamples")
    examples = cells.sum(-1).astype(np.int64)
    fractions = cells / examples[..., None]
    return np.random.default_rng(seed).multinomial(examples, fractions, (resamples, *examples.shape)).astype(np.float64)


def resample_together(
    counts: ArrayLike, resamples: int = RESAMPLES, seed: int = 0
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield bootstrap resamples of many tables in blocks: (indices of the tables, draws [resamples, tables, cells]).

    Each table's draws have the same distribution as with `resample`. Different tables are not independent: tables of n
    examples share one resample of the numbers 0 to n - 1, which each table divides among its cells in order. A cell's count
    is the number of draws below its upper bound minus those below its lower bound. So one multinomial draw over the
    intervals between all bounds serves every table, several times faster than a draw per table.

    Args:
        counts: tables [tables, cells] of whole numbers.
        resamples: number of resamples.
        seed: random seed of the draws.

    >>> [(tables, draws)] = resample_together([[8, 0, 2], [5, 3, 2]], resamples=1000)
    >>> tables.tolist(), draws.mean(0).round().tolist()
    ([0, 1], [[8.0, 0.0, 2.0], [5.0, 3.0, 2.0]])
    """
    cells = np.asarray(counts).astype(np.int64)
    whole_number(resamples, "resamples")
    rng = np.random.default_rng(seed)
    ends = cells.cumsum(1)
    for examples in np.unique(ends[:, -1]):
        tables = np.flatnonzero(ends[:, -1] == examples)
        bounds, place = np.unique(ends[tables], return_inverse=True)
        place = place.reshape(len(tables), -1)
        fractions = np.diff(bounds, prepend=0) / max(examples, 1)
        below = np.empty((len(bounds), resamples))  # draws below each bound
        for first in range(0, resamples, WEIGHT_BLOCK):  # a block stays in the cache until it is transposed
            block = slice(first, min(first + WEIGHT_BLOCK, resamples))
            below[:, block] = rng.multinomial(examples, fractions, block.stop - first).cumsum(1).T
        for start in range(0, len(tables), TABLE_BLOCK):
            reached = place[start : start + TABLE_BLOCK]
            # The axis of cells is the outermost in memory, so that measures read contiguous arrays.
            draws = np.empty((cells.shape[1], len(reached), resamples))
            for cell in range(cells.shape[1]):
                np.take(below, reached[:, cell], axis=0, out=draws[cell], mode="clip")  # other modes copy to a buffer
            for cell in range(cells.shape[1] - 1, 0, -1):
                draws[cell] -= draws[cell - 1]
            yield tables[start : start + TABLE_BLOCK], draws.T


def percentile_interval(values: np.ndarray, level: float = LEVEL) -> tuple[np.ndarray, np.ndarray]:
    """Return the ends of the central `level` of resampled values [resamples, ...].

    Resamples in which a measure is undefined (NaN) are ignored.

    >>> low, high = percentile_interval(np.arange(101.0), 0.9)
    >>> round(float(low), 6), round(float(high), 6)
    (5.0, 95.0)
    """
    check_level(level)
    # The linear interpolation of `np.nanquantile`, which partitions its values and is five times slower than sorting them.
    ordered = np.sort(values.reshape(len(values), -1).T, axis=1)  # NaN last
    last = np.maximum(len(values) - np.isnan(ordered).sum(1) - 1, 0)
    positions = np.outer([(1 - level) / 2, (1 + level) / 2], last)
    floor = positions.astype(int)
    below, above = (np.take_along_axis(ordered, at.T, 1).T for at in (floor, np.minimum(floor + 1, last)))
    low, high = (below + (above - below) * (positions - floor)).reshape(2, *values.shape[1:])
    return low, high


def resampled_means(columns: Any, resamples: int = RESAMPLES, seed: int = 0) -> Any:
    """Return means over bootstrap resamples of the examples, [resamples, F], for measures that are not counts.

    A resample is a row of weights: how often each example was drawn. The means are then a matrix product.

    Args:
        columns: [N, F] one value per example and column.
        resamples: number of resamples.
        seed: random seed of the draws.
    """
    rows = len(columns)
    rng = np.random.default_rng(seed)
    columns = to_accumulation_dtype(columns)
    means = []
    for start in range(0, resamples, WEIGHT_BLOCK):
        block = min(WEIGHT_BLOCK, resamples - start)
        drawn = rng.integers(0, rows, (block, rows)) + rows * np.arange(block)[:, None]
        weights = np.bincount(drawn.ravel(), minlength=block * rows).reshape(block, rows)
        means.append(to_accumulation_dtype(arrays.like(weights, columns)) @ columns / rows)
    return backend(columns).concatenate(means)


def check_level(level: float) -> None:
    """Raise an error unless `level` is a valid confidence level."""
    if not 0 < level < 1:
        raise InputError(argument="level", expected="a fraction between 0 and 1", found=level)
