"""Statistics that several packages share and SciPy does not have."""

from typing import TYPE_CHECKING

import numpy as np

from zoo.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike


def holm(p_values: "ArrayLike") -> np.ndarray:
    """Return p-values [M] adjusted for M tests by Holm's method (1979), in the given order.

    The smallest p-value is multiplied by M, the next by M - 1, and so on; then each is raised to the maximum so far.
    Rejecting where the result is below 5% keeps the probability of any false rejection below 5%.

    >>> holm([0.01, 0.04, 0.03]).round(3).tolist()
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, np.float64)
    if p.ndim != 1:
        raise InputError(argument="p_values", expected="of shape [M]", found=list(p.shape))
    bad = ~((p >= 0) & (p <= 1))
    if bad.any():
        raise InputError(argument="p_values", expected="numbers from 0 to 1", found=float(p[bad][0]))
    order = np.argsort(p, kind="stable")
    adjusted = np.empty_like(p)
    adjusted[order] = np.minimum(1, np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1)))
    return adjusted
