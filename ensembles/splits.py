"""The examples a search sees and those it is judged on: disjoint, stratified by class, the same for the same seed."""

from typing import Any

import numpy as np
import torch

from zoo import arrays
from zoo.errors import InputError


def stratified_split(labels: Any, test_fraction: float = 0.5, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Rows for the search and rows for the test, both rising; each class is divided in the same proportion.

    The examples are put in order by class, shuffled within each, and every (1 / test_fraction)-th goes to the test. So
    each class gives its share up to one example, and where counting starts is drawn too, so that no class is favoured.

    >>> selection, test = stratified_split([0, 0, 0, 0, 1, 1], test_fraction=0.5)
    >>> len(selection), len(test), len(set(selection) & set(test))
    (3, 3, 0)
    """
    y = arrays.host(arrays.labels(labels))
    if not 0 <= test_fraction < 1:
        raise InputError(f"test_fraction: expected 0 (no test split) up to but not 1, found {test_fraction}")
    if test_fraction == 0:
        return np.arange(len(y)), np.arange(0)
    rng = np.random.default_rng(seed)
    order = rng.permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    chosen = np.diff(np.floor(np.arange(len(y) + 1) * test_fraction + rng.random())) > 0
    selection, test = np.sort(order[~chosen]), np.sort(order[chosen])
    if not len(selection) or not len(test):
        raise InputError(
            f"test_fraction: {len(y)} examples cannot be divided {1 - test_fraction:g} to {test_fraction:g}; "
            "pass test_fraction=0 to search on all of them"
        )
    return selection, test


def check_split(split: Any, examples: int) -> tuple[np.ndarray, np.ndarray]:
    """A split of the user's own: two sets of rows that do not meet."""
    try:
        selection, test = split
    except (TypeError, ValueError) as error:
        raise InputError("split: expected a pair, rows for the search and rows for the test") from error
    checked = [_rows(part, examples, name) for part, name in ((selection, "selection"), (test, "test"))]
    shared = np.intersect1d(checked[0], checked[1])
    if len(shared):
        raise InputError(
            f"split: selection and test share {len(shared)} examples, first row {shared[0]}; make them disjoint"
        )
    if not len(checked[0]):
        raise InputError("split: expected at least one row for the search, found none")
    return checked[0], checked[1]


def _rows(given: Any, examples: int, name: str) -> np.ndarray:
    rows = arrays.host(given) if isinstance(given, torch.Tensor) else np.asarray(given)
    if rows.dtype == bool:
        if rows.shape != (examples,):
            raise InputError(f"split: the {name} mask has shape {list(rows.shape)}, expected [{examples}]")
        return np.flatnonzero(rows)
    if rows.size == 0:
        return np.arange(0)
    if rows.ndim != 1 or rows.dtype.kind not in "iu":
        raise InputError(f"split: expected {name} row numbers [n], found dtype {rows.dtype} of shape {list(rows.shape)}")
    unique = np.unique(rows)
    if unique[0] < 0 or unique[-1] >= examples:
        raise InputError(f"split: {name} row {unique[0] if unique[0] < 0 else unique[-1]} is outside 0..{examples - 1}")
    if len(unique) < len(rows):
        raise InputError(f"split: {len(rows) - len(unique)} {name} rows are given twice")
    return unique
