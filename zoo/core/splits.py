"""Random splits of labelled examples, with every class in the same proportion on both sides.

With `ids`, a split depends only on the ids, on which examples share a class, and on the seed. It depends neither on the
order of the rows nor on the numbering of the classes. Without `ids`, the row number takes the place of the id.

scikit-learn's stratified splits are not used: they refuse classes with one example, and splits smaller than the number of
classes.
"""

import hashlib
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

from zoo.core import arrays
from zoo.core.text import check_unique
from zoo.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def stratified_split(labels: "ArrayLike", fraction: float, seed: int = 0, ids: Iterable[object] | None = None) -> np.ndarray:
    """Return a mask [N] that selects a random `fraction` of the examples and, to within one example, of every class.

    The examples are ordered by class, at random within each class, and every (1 / fraction)-th is selected. The starting
    point is random too, so that no class is favoured.

    Args:
        labels: [N] class of each example.
        fraction: between 0 and 1.
        seed: at least 0.
        ids: [N] unique ids of the examples.

    >>> stratified_split([0, 0, 0, 0, 1, 1, 1, 1], 0.25).sum()
    np.int64(2)
    >>> stratified_split(["cat", "cat", "dog", "dog"], 0.5, ids="abcd").tolist()
    [False, True, False, True]
    >>> stratified_split([1, 1, 0, 0], 0.5, ids="cdba").tolist()
    [False, True, True, False]
    """
    y = np.asarray(labels)
    _check_fraction("fraction", fraction)
    order, start = _by_class(y, arrays.seed(seed), ids)
    if np.floor(len(y) * fraction + start) == len(y):  # every example would be selected
        start = 0.0
    selected = np.zeros(len(y), bool)
    selected[order] = np.diff(np.floor(np.arange(len(y) + 1) * fraction + start)) > 0
    if selected.all() or not selected.any():
        raise InputError(f"{fraction} of {len(y)} examples leaves one side of the split empty", argument="fraction")
    return selected


def fold_numbers(labels: "ArrayLike", folds: int, seed: int = 0, ids: Iterable[object] | None = None) -> np.ndarray:
    """Return the fold [N] of each example, from 0; in every class, the sizes of the folds differ by at most one.

    Args:
        labels: [N] class of each example.
        folds: number of folds, at least 2 and at most N.
        seed: at least 0.
        ids: [N] unique ids of the examples.

    >>> fold_numbers([0, 0, 0, 0, 1, 1, 1, 1], 2).sum()
    np.int64(4)
    """
    y = np.asarray(labels)
    if not 2 <= folds <= len(y):
        raise InputError(argument="folds", expected=f"from 2 to the number of examples, {len(y)}", found=folds)
    order, _ = _by_class(y, arrays.seed(seed), ids)
    fold = np.empty(len(y), int)
    fold[order] = np.arange(len(y)) % folds
    return fold


def hold_out(
    labels: np.ndarray, fraction: float, seed: int, ids: Iterable[object] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Return the row numbers (kept, held out) of a split for validation, both sorted.

    Of each class with at least two examples, at least one is held out and at least one is kept. A class with one example is
    kept, so that every class has a training example.

    Args:
        labels: [N] class indices.
        fraction: of each class to hold out, between 0 and 1.
        seed: at least 0.
        ids: [N] unique ids of the examples.

    >>> kept, held = hold_out(np.array([0, 0, 0, 0, 0, 1, 1, 2]), 0.2, seed=0)
    >>> len(kept), len(held), 7 in kept
    (6, 2, True)
    """
    _check_fraction("validation", fraction)
    count = np.bincount(labels)
    take = np.where(count > 1, np.clip(np.round(fraction * count), 1, np.maximum(count - 1, 1)), 0)
    held = random_rank(labels, seed, ids) < take[labels]
    if not held.any():
        raise InputError(
            "no class has two examples, so none can be held out",
            argument="validation",
            hint="Pass {validation=0} with a single strength",
        )
    return np.flatnonzero(~held), np.flatnonzero(held)


def random_rank(labels: np.ndarray, seed: int, ids: Iterable[object] | None = None) -> np.ndarray:
    """Return the position [N] of each example, from 0, in a random order of the examples of its class.

    >>> sorted(random_rank(np.array([5, 5, 5, 2]), seed=0)[:3].tolist())
    [0, 1, 2]
    """
    order, _ = _by_class(labels, seed, ids)
    starts = np.flatnonzero(np.r_[True, np.diff(labels[order]) != 0])  # of each class in `order`
    rank = np.empty(len(labels), int)
    rank[order] = np.arange(len(labels)) - np.repeat(starts, np.diff(np.r_[starts, len(labels)]))
    return rank


def _by_class(labels: np.ndarray, seed: int, ids: Iterable[object] | None) -> tuple[np.ndarray, float]:
    """Return the row numbers sorted by class and shuffled within each class, and a random number from 0 to 1."""
    if ids is None:
        rng = np.random.default_rng(seed)
        order = rng.permutation(len(labels))
        return order[np.argsort(labels[order], kind="stable")], rng.random()
    texts = [str(one) for one in ids]
    if len(texts) != len(labels):
        raise InputError(argument="ids", expected=f"{len(labels)} ids, one per example", found=len(texts))
    check_unique(texts, "ids")
    order = np.argsort(_hashes([f"{seed} {text}" for text in texts]), kind="stable")
    # Classes come in the order of their first examples, so their names do not matter.
    _, first, index = np.unique(labels[order], return_index=True, return_inverse=True)
    return order[np.argsort(first[index], kind="stable")], int(_hashes([f"{seed}"])[0]) / 2**64


def _hashes(texts: list[str]) -> np.ndarray:
    """Return a hash [N] of each text: whole numbers below 2^64."""
    blake2b = hashlib.blake2b
    digests = [blake2b(text.encode("utf-8", "surrogateescape"), digest_size=8).digest() for text in texts]
    return np.frombuffer(b"".join(digests), ">u8").astype(np.uint64)


def _check_fraction(argument: str, fraction: float) -> None:
    if not 0 < fraction < 1:
        raise InputError(argument=argument, expected="a fraction between 0 and 1", found=fraction)
