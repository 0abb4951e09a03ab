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
