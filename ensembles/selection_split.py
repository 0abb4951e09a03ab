"""The selection split, on which a search chooses members, and the test split, on which its result is evaluated."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from ensembles.inputs import Labels
from zoo.core import arrays
from zoo.core.arrays import Array
from zoo.core.splits import stratified_split as stratified_mask
from zoo.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def stratified_split(
    labels: Labels, test_fraction: float = 0.5, seed: int = 0, ids: Iterable[object] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the rows of the selection split and of the test split, both ascending, each with all classes in proportion.

    The split depends on the ids, on which examples share a class, and on the seed; not on the order of rows or classes.

    Args:
        labels: [N] class of each example.
        test_fraction: fraction of the examples in the test split; 0: none.
        seed: random seed of the split.
        ids: [N] ids of the examples; default: row numbers.

    >>> selection, test = stratified_split([0, 0, 0, 0, 1, 1], test_fraction=0.5)
    >>> len(selection), len(test), len(set(selection) & set(test))
    (3, 3, 0)
    """
    y = arrays.to_numpy(arrays.labels(labels))
    if not 0 <= test_fraction < 1:
        raise InputError(argument="test_fraction", expected="at least 0 and below 1", found=test_fraction)
    if test_fraction == 0:
        return np.arange(len(y)), np.arange(0)
    try:
        in_test = stratified_mask(y, test_fraction, seed, range(len(y)) if ids is None else ids)
    except InputError as error:
        if error.argument != "fraction":
            raise
        raise InputError(
            f"{len(y)} examples cannot be divided {1 - test_fraction:g} to {test_fraction:g}",
            argument="test_fraction",
            found=test_fraction,
            hint="Pass {test_fraction=0} to search on all examples",
        ) from error
    return np.flatnonzero(~in_test), np.flatnonzero(in_test)


def check_split(split: "tuple[ArrayLike | Array, ArrayLike | Array]", examples: int) -> tuple[np.ndarray, np.ndarray]:
    """Return a custom split as two disjoint arrays of rows, both ascending.

    Args:
        split: row numbers or masks [N] of the selection split and of the test split.
        examples: number of examples N.
    """
    try:
        selection, test = split
    except (TypeError, ValueError) as error:
        raise InputError(
            argument="split", expected="a pair: rows of the selection split, rows of the test split", found=split
        ) from error
    selection_rows, test_rows = _rows(selection, examples, "selection"), _rows(test, examples, "test")
    shared = np.intersect1d(selection_rows, test_rows)
    if len(shared):
        raise InputError(
            f"selection and test rows overlap in {len(shared)} examples, first row {shared[0]}", argument="split"
        )
    if not len(selection_rows):
        raise InputError(where="selection", argument="split", expected="at least one row", found=0)
    return selection_rows, test_rows


def _rows(values: Any, examples: int, where: str) -> np.ndarray:
    rows = arrays.to_numpy(values) if isinstance(values, torch.Tensor) else np.asarray(values)
    if rows.dtype == bool:
        if rows.shape != (examples,):
            expected = f"a mask of shape [{examples}]"
            raise InputError(where=where, argument="split", expected=expected, found=list(rows.shape))
        return np.flatnonzero(rows)
    if rows.size == 0:
        return np.arange(0)
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        found = f"{rows.dtype} of shape {list(rows.shape)}"
        raise InputError(where=where, argument="split", expected="row numbers [n]", found=found)
    unique = np.unique(rows)
    if unique[0] < 0 or unique[-1] >= examples:
        outside = int(unique[0] if unique[0] < 0 else unique[-1])
        raise InputError(where=where, argument="split", expected=f"rows from 0 to {examples - 1}", found=outside)
    if len(unique) < len(rows):
        raise InputError(f"{len(rows) - len(unique)} rows are repeated", where=where, argument="split")
    return unique
