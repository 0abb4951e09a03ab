"""Singular value spectra of activations, classifier weights and class centroids (Kornblith et al. 2021, Fig. E.2)."""

from typing import TYPE_CHECKING, Any

import torch
from numpy.typing import ArrayLike

from diversity._activations import chunks, column_means, matrix, minus, row_norms
from diversity.class_sums import ClassSums
from zoo.core import arrays
from zoo.core.arrays import Array

if TYPE_CHECKING:
    import pandas as pd


def singular_values(x: ArrayLike | Array, center: bool = False, name: str = "x") -> Any:
    """Return the singular values [min(N, D)] of x [N, ...], largest first; with `center`, after centring its columns.

    The triangle R of a QR factorisation has the singular values of the factorised rows, so R can stand for these rows when
    further rows are added. Unlike the sum of squares X'X, this keeps small singular values, because nothing is squared.

    >>> import numpy as np
    >>> singular_values(np.diag([1.0, 3.0, 2.0])).round(6)
    array([3., 2., 1.])
    """
    rows = matrix(x, name)
    mean = column_means(rows, name) if center else None
    triangle = rows[:0]
    for start, part in chunks(rows, max(4096, 4 * rows.shape[1])):
        row_norms(part, name, start)
        triangle = torch.linalg.qr(torch.cat([triangle, part if mean is None else minus(part, mean)]), mode="r")[1]
    return arrays.like_input(torch.linalg.svdvals(triangle), x)


def singular_spectra(
    x: ArrayLike | Array,
    labels: ArrayLike | Array | None = None,
    weight: ArrayLike | Array | None = None,
    center: bool = False,
) -> "pd.DataFrame":
    """Return the spectra of activations, and of classifier weights and class centroids if these are given.

    Columns: `matrix` ("activations", "weights" or "centroids"), `index` from 1, `value`, and `relative` to the largest
    singular value, as in Fig. E.2.

    Args:
        x: activations [N, ...].
        labels: [N] class indices, for the centroids of x.
        weight: [K, D] classifier weights.
        center: centre the columns of each matrix first.

    >>> import numpy as np
    >>> x = np.array([[1.0, 0.1], [1.0, -0.1], [-1.0, 0.1], [-1.0, -0.1]])
    >>> frame = singular_spectra(x, labels=np.array([0, 0, 1, 1]))
    >>> frame.groupby("matrix").relative.apply(lambda values: values.round(4).tolist()).to_dict()
    {'activations': [1.0, 0.1], 'centroids': [1.0, 0.0]}
    """
    import pandas as pd

    matrices: dict[str, Any] = {"activations": x}
    if weight is not None:
        matrices["weights"] = weight
    if labels is not None:
        sums = ClassSums()
        sums.update(x, labels)
        matrices["centroids"] = sums.means()
    frames = []
    for name, values in matrices.items():
        spectrum = arrays.to_numpy(singular_values(values, center, name)).astype("float64")
        relative = spectrum / (spectrum[0] or 1.0)
        index = range(1, len(spectrum) + 1)
        frames.append(pd.DataFrame({"matrix": name, "index": index, "value": spectrum, "relative": relative}))
    return pd.concat(frames, ignore_index=True)
