"""Singular value spectra of activations, classifier weights and class centroids (Kornblith et al. 2021, Fig. E.2)."""

import math
from typing import TYPE_CHECKING, Any

import torch
from numpy.typing import ArrayLike

from diversity._activations import chunks, column_means, matrix, minus, row_norms
from diversity.class_sums import ClassSums
from zoo.core import arrays
from zoo.core.arrays import Array
from zoo.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


class SpectrumMeter:
    """Singular values of a tall matrix [N, D], from a stream of its rows. At most D rows are stored.

    The triangle R of a QR factorisation has the singular values of the factorised rows, and R stacked on further rows has
    those of all rows. Unlike the sum of squares X'X, this keeps small singular values, because nothing is squared.

    Args:
        center: subtract the column means of all rows.
        name: what errors call the matrix.

    >>> meter = SpectrumMeter()
    >>> for batch in torch.tensor([[[3.0, 0.0], [0.0, 1e-3]], [[4.0, 0.0], [0.0, 0.0]]]):
    ...     meter.update(batch)
    >>> meter.rows, [round(value, 6) for value in meter.values().tolist()]
    (4, [5.0, 0.001])
    """

    def __init__(self, center: bool = False, name: str = "x") -> None:
        self.center = center
        self.name = name
        self.rows = 0
        self._triangle: torch.Tensor | None = None  # [at most D, D]
        self._mean: torch.Tensor | None = None

    def update(self, x: ArrayLike | Array) -> None:
        """Add a batch of rows [n, ...]."""
        batch = matrix(x, self.name)
        if self._triangle is not None and batch.shape[1] != self._triangle.shape[1]:
            expected = f"{self._triangle.shape[1]} features, as in the first batch"
            raise InputError(where=self.name, expected=expected, found=batch.shape[1])
        for _, part in chunks(batch, max(4096, 4 * batch.shape[1])):
            row_norms(part, self.name, self.rows)
            stack = [part] if not self.center else self._centred(part)
            if self._triangle is not None:
                stack.append(self._triangle)
            self._triangle = torch.linalg.qr(torch.cat(stack), mode="r")[1]
            self.rows += len(part)

    def _centred(self, x: torch.Tensor) -> list[torch.Tensor]:
        """Return centred rows, plus one row that accounts for the difference to the mean of the earlier rows.

        The scatter of n and m rows about their joint mean is the scatter of each group about its own mean, plus
        n m / (n + m) times the outer square of the difference of the two means.
        """
        mean = column_means(x, self.name)
        rows = [minus(x, mean)]
        if self._mean is None:
            self._mean = mean
            return rows
        total = self.rows + len(x)
        step = mean - self._mean
        rows.append((step * math.sqrt(self.rows * len(x) / total)).to(x.dtype)[None])
        self._mean = self._mean + step * (len(x) / total)
        return rows

    def values(self) -> torch.Tensor:
        """Return the singular values [min(rows, D)], largest first."""
        if self._triangle is None:
            raise InputError("no batch of rows was added", where=self.name)
        return torch.linalg.svdvals(self._triangle)[: self.rows]


def singular_values(x: ArrayLike | Array, center: bool = False) -> Any:
    """Return the singular values [min(N, D)] of x [N, ...], largest first; with `center`, after centring its columns.

    >>> import numpy as np
    >>> singular_values(np.diag([1.0, 3.0, 2.0])).round(6)
    array([3., 2., 1.])
    """
    meter = SpectrumMeter(center)
    meter.update(x)
    return arrays.like_input(meter.values(), x)


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
        meter = SpectrumMeter(center, name)
        meter.update(values)
        spectrum = arrays.to_numpy(meter.values()).astype("float64")
        relative = spectrum / (spectrum[0] or 1.0)
        index = range(1, len(spectrum) + 1)
        frames.append(pd.DataFrame({"matrix": name, "index": index, "value": spectrum, "relative": relative}))
    return pd.concat(frames, ignore_index=True)
