"""The one way to divide labelled examples: by chance, with each class in the same proportion."""

from typing import Any

import numpy as np

from zoo.core import arrays
from zoo.errors import InputError


def stratified_rows(labels: Any, share: float, seed: int = 0) -> np.ndarray:
    """[N] mask of about `share` of the rows, within one of it in every class.

    By hand, since scikit-learn's splits refuse classes of one example and fewer chosen rows than classes. In order of class,
    shuffled within each, every (1 / share)-th row is chosen. Where counting starts is drawn, so that no class is favoured.

    >>> stratified_rows([0, 0, 0, 0, 1, 1, 1, 1], 0.25).sum()
    np.int64(2)
    """
    y = np.asarray(labels)
    if not 0 < share < 1:
        raise InputError(f"split: expected a share between 0 and 1, found {share}")
    rng = np.random.default_rng(arrays.seed(seed))
    order = rng.permutation(len(y))
    order = order[np.argsort(y[order], kind="stable")]
    start = rng.random()
    if np.floor(len(y) * share + start) == len(y):  # it would take every row
        start = 0.0
    chosen = np.zeros(len(y), bool)
    chosen[order] = np.diff(np.floor(np.arange(len(y) + 1) * share + start)) > 0
    if chosen.all() or not chosen.any():
        raise InputError(f"split: a share of {share} of {len(y)} rows leaves one side empty")
    return chosen


def hold_out(labels: np.ndarray, share: float, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """(rows kept, rows held out), both sorted: `share` of each class by chance, at least one of any class that has two.

    A class with a single example stays in the kept part, so every class can be learnt.

    >>> kept, held = hold_out(np.array([0, 0, 0, 0, 0, 1, 1, 2]), 0.2, seed=0)
    >>> len(kept), len(held), 7 in kept
    (6, 2, True)
    """
    # By hand: scikit-learn's stratified splits refuse a class of one example, and leave small classes out of one side.
    if not 0 < share < 1:
        raise InputError(f"validation: expected a share between 0 and 1, found {share}")
    count = np.bincount(labels)
    take = np.where(count > 1, np.clip(np.round(share * count), 1, np.maximum(count - 1, 1)), 0)
    held = random_rank(labels, seed) < take[labels]
    if not held.any():
        raise InputError(
            "validation: no class has two examples, so none can be held out; pass validation=0 with a single strength"
        )
    return np.flatnonzero(~held), np.flatnonzero(held)


def random_rank(labels: np.ndarray, seed: int) -> np.ndarray:
    """[N] the place of each example, from 0, in a random order of its class.

    >>> sorted(random_rank(np.array([5, 5, 5, 2]), seed=0)[:3].tolist())
    [0, 1, 2]
    """
    order = np.random.default_rng(seed).permutation(len(labels))
    by_class = order[np.argsort(labels[order], kind="stable")]  # classes one after another, each in random order
    count = np.bincount(labels)
    rank = np.empty(len(labels), int)
    rank[by_class] = np.arange(len(labels)) - (np.cumsum(count) - count)[labels[by_class]]
    return rank
