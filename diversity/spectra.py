"""Singular value spectra of activations, classifier weights and class centroids (Kornblith et al. 2021, Fig. E.2)."""

import math
from typing import TYPE_CHECKING, Any

import torch

from diversity._activations import chunks, column_means, matrix, minus, row_norms
from diversity.class_sums import ClassSums
from zoo.core import arrays
from zoo.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


class SpectrumMeter:
    """Singular values of a tall matrix [N, D] whose rows stream by (Fig. E.2); at most D rows are kept.

    The triangle R of a QR factorisation has the singular values of the rows it came from, and so has that of R stacked on
    further rows. Unlike sums of squares X'X, this keeps the small values: nothing is ever squared.

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

    def update(self, x: Any) -> None:
        """Take a batch of activations [n, ...]."""
        batch = matrix(x, self.name)
        if self._triangle is not None and batch.shape[1] != self._triangle.shape[1]:
            raise InputError(
                f"{self.name}: expected {self._triangle.shape[1]} features as in the first batch, found {batch.shape[1]}"
            )
        for _, part in chunks(batch, max(4096, 4 * batch.shape[1])):
            row_norms(part, self.name, self.rows)
            stack = [part] if not self.center else self._centred(part)
            if self._triangle is not None:
                stack.append(self._triangle)
            self._triangle = torch.linalg.qr(torch.cat(stack), mode="r")[1]
            self.rows += len(part)

    def _centred(self, x: torch.Tensor) -> list[torch.Tensor]:
        """Rows whose scatter, added to that of the earlier rows about their mean, is the scatter of all about theirs.

        Two groups of n and m rows about their joint mean have the scatter of each about its own, and
        n m / (n + m) times the outer square of the difference of the means.
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
        """[min(rows, D)] singular values, largest first."""
        if self._triangle is None:
            raise InputError(f"{self.name}: no rows were seen, expected at least one batch")
        return torch.linalg.svdvals(self._triangle)[: self.rows]


def singular_values(x: Any, center: bool = False) -> Any:
    """[min(N, D)] singular values of x [N, ...], largest first; with `center`, of x less its column means.

    >>> import numpy as np
    >>> singular_values(np.diag([1.0, 3.0, 2.0])).round(6)
    array([3., 2., 1.])
    """
    meter = SpectrumMeter(center)
    meter.update(x)
    return arrays.like_input(meter.values(), x)


def singular_spectra(x: Any, labels: Any = None, weight: Any = None, center: bool = False) -> "pd.DataFrame":
    """The spectra of activations x [N, ...], of `weight` [K, D] and of the class centroids of x, where they are given.

    A frame with `matrix` ("activations", "weights" or "centroids"), `index` from 1, `value`, and `relative` to the largest,
    as in Fig. E.2. `labels` are [N].

    >>> import numpy as np
    >>> x = np.array([[1.0, 0.1], [1.0, -0.1], [-1.0, 0.1], [-1.0, -0.1]])
    >>> frame = singular_spectra(x, labels=np.array([0, 0, 1, 1]))
    >>> frame.groupby("matrix").relative.apply(lambda values: values.round(4).tolist()).to_dict()
    {'activations': [1.0, 0.1], 'centroids': [1.0, 0.0]}
    """
    import pandas as pd

    matrices = {"activations": x}
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
