"""Centred kernel alignment: how alike two representations of the same examples are (Kornblith et al. 2021, 3.2).

`linear_cka` and `kernel_cka` compare two matrices held in memory; `MinibatchCKA` compares every layer of one network with
every layer of another while both stream by, batch by batch.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch

from diversity._activations import chunks, column_means, matrix, minus, row_norms, same_rows, unit_rows
from diversity._hsic import feature_sums, gram_sums
from zoo.core import arrays
from zoo.errors import InputError, ZooWarning

if TYPE_CHECKING:
    import pandas as pd

Kernel = Literal["linear", "cosine", "rbf"]
Layers = Mapping[str, Any] | Sequence[Any]

# HSIC_1 divides by n (n - 3).
FEWEST_ROWS = 4
# The median distance is taken over all pairs of at most this many rows.
MEDIAN_ROWS = 1000


def linear_cka(x: Any, y: Any, unbiased: bool = False) -> float:
    """Linear CKA between activations x [N, D1] and y [N, D2] of the same examples, 1 for equal up to rotation and scale.

    ||Y'X||_F^2 / (||X'X||_F ||Y'Y||_F) with centred columns, computed in feature space or from blocks of the Gram matrices,
    whichever is less work. `unbiased` uses HSIC_1 (needs four rows): its mean is 0 for independent x and y, where the plain
    form grows towards 1 as the dimensions outnumber the examples.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(50, 8))
    >>> rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(8, 8)))[0]
    >>> round(linear_cka(x, 3 * x @ rotation + 5), 6)
    1.0
    """
    return kernel_cka(x, y, kernel="linear", unbiased=unbiased)


def kernel_cka(x: Any, y: Any, kernel: Kernel = "rbf", bandwidth: float = 1.0, unbiased: bool = False) -> float:
    """CKA between x [N, D1] and y [N, D2] with a kernel: `linear`, `cosine` (linear on unit rows) or `rbf`.

    The RBF kernel is exp(-||a - b||^2 / (2 s^2)) with s = `bandwidth` times the median distance between rows, for each
    representation its own; the median is over the pairs of at most 1,000 evenly spaced rows.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(50, 8))
    >>> round(kernel_cka(x, 10 * x, kernel="rbf", bandwidth=0.5), 6)
    1.0
    """
    _check_kernel(kernel, bandwidth)
    a, b = matrix(x, "x"), matrix(y, "y")
    same_rows(a, b, ("x", "y"))
    fewest = FEWEST_ROWS if unbiased else 2
    if len(a) < fewest:
        raise InputError(f"x and y: expected at least {fewest} rows, found {len(a)}")
    dtype = torch.promote_types(a.dtype, b.dtype)
    a, b = a.to(dtype), b.to(a.device, dtype)
    for values, name in ((a, "x"), (b, "y")):
        row_norms(values, name)
        if _constant(values):
            raise InputError(f"{name}: all {len(values)} rows are the same, so CKA with it is undefined")
    n, d1, d2 = len(a), a.shape[1], b.shape[1]
    in_feature_space = d1 * d1 + d1 * d2 + d2 * d2 < n * (d1 + d2) / 2  # half a Gram matrix is built
    if kernel != "rbf" and in_feature_space:
        if kernel == "cosine":
            a, b = unit_rows(a, "x"), unit_rows(b, "y")
        sums = feature_sums(a, b)
    else:
        ready = [_prepared(z, kernel, _scale(z, kernel, bandwidth, name), name) for z, name in ((a, "x"), (b, "y"))]
        sums = gram_sums(ready, gaussian=kernel == "rbf")
    hsic = sums.unbiased() if unbiased else sums.biased()
    return float(hsic[0, 1] / (hsic[0, 0] * hsic[1, 1]).sqrt())


class MinibatchCKA:
    """CKA between all layers of two networks (or of one) over a stream of batches, with the unbiased HSIC_1.

    Every batch gives an unbiased estimate of each pair's HSIC from one Gram matrix a layer; their means, weighted by rows,
    are combined into CKA at the end (Nguyen et al. 2021). Nothing is kept between batches but an [L, L] sum. A batch of
    fewer than four rows has no such estimate: it is left out, counted in `skipped_rows`, and said so.

    >>> import numpy as np
    >>> rng = np.random.default_rng(0)
    >>> meter = MinibatchCKA()
    >>> for _ in range(5):
    ...     x = rng.normal(size=(100, 6))
    ...     meter.update({"early": x, "late": x**3}, {"early": 2 * x + 1})
    >>> float(meter.result().loc["early", "early"].round(6))
    1.0
    """

    def __init__(self, kernel: Kernel = "linear", bandwidth: float = 1.0) -> None:
        _check_kernel(kernel, bandwidth)
        self.kernel: Kernel = kernel
        self.bandwidth = bandwidth
        self.rows = 0
        self.skipped_rows = 0
        self._names: tuple[list[str], list[str]] | None = None
        self._scales: list[float] = []
        self._hsic: torch.Tensor | None = None

    def update(self, layers_a: Layers, layers_b: Layers | None = None) -> None:
        """Take one batch: activations [n, ...] by layer name (or a sequence), the same layers and examples in each.

        Without `layers_b`, the layers of `layers_a` are compared with each other. The RBF bandwidths are set by the
        first batch and stay.
        """
        sides = _named(layers_a), _named(layers_b or {})
        names = list(sides[0]), list(sides[1])
        if not names[0]:
            raise InputError("expected at least one layer, found none")
        if self._names not in (None, names):
            raise InputError(f"expected the layers of the first batch, {self._names}, found {names}")
        batch = [(f"layer {name}", matrix(x, f"layer {name}")) for side in sides for name, x in side.items()]
        label, first = batch[0]
        for other, x in batch:
            same_rows(first, x, (label, other))
        if len(first) < FEWEST_ROWS:
            self.skipped_rows += len(first)
            said = f"CKA: a batch of {len(first)} rows is left out, expected at least {FEWEST_ROWS}"
            warnings.warn(said, ZooWarning, stacklevel=2)
            return
        for label, x in batch:
            row_norms(x, label)
        if not self._scales:
            self._scales = [_scale(x, self.kernel, self.bandwidth, label) for label, x in batch]
        dtype = torch.float64 if all(x.dtype == torch.float64 for _, x in batch) else torch.float32
        ready = [
            _prepared(x, self.kernel, scale, label).to(first.device, dtype)
            for (label, x), scale in zip(batch, self._scales, strict=True)
        ]
        hsic = gram_sums(ready, gaussian=self.kernel == "rbf").unbiased() * len(first)
        self._hsic = hsic if self._hsic is None else self._hsic + hsic
        self._names = names
        self.rows += len(first)

    def result(self, part: Literal["between", "first", "second"] = "between") -> "pd.DataFrame":
        """CKA between the layers of the two networks (rows: the first), or within the `first` or the `second`.

        With one network there is only `first`, and `between` means the same.
        """
        import pandas as pd

        if self._hsic is None or self._names is None:
            raise InputError(f"CKA: no batch of at least {FEWEST_ROWS} rows was seen ({self.skipped_rows} rows left out)")
        first, second = self._names
        if part == "second" and not second:
            raise InputError("CKA: the batches held one network's layers, so there is no second one")
        here, there = slice(0, len(first)), slice(len(first), None)
        across, down = {
            "between": (here, there if second else here),
            "first": (here, here),
            "second": (there, there),
        }[part]
        own = self._hsic.diagonal()
        names = first + second
        dead = sorted({name for name, value in zip(names, own, strict=True) if value <= 0})
        if dead:
            warnings.warn(f"CKA: layers that never vary have no value: {', '.join(dead)}", ZooWarning, stacklevel=2)
        scale = torch.where(own > 0, own, math.nan).sqrt()
        cka = self._hsic / torch.outer(scale, scale)
        return pd.DataFrame(arrays.to_numpy(cka[across, down]), index=names[across], columns=names[down])


def _check_kernel(kernel: str, bandwidth: float) -> None:
    if kernel not in ("linear", "cosine", "rbf"):
        raise InputError(f"kernel: expected linear, cosine or rbf, found {kernel!r}")
    if not (bandwidth > 0 and math.isfinite(bandwidth)):
        raise InputError(f"bandwidth: expected a positive multiple of the median distance, found {bandwidth}")


def _named(layers: Layers) -> Mapping[str, Any]:
    return layers if isinstance(layers, Mapping) else {str(k): value for k, value in enumerate(layers)}


def _constant(x: torch.Tensor) -> bool:
    return all(bool((part == x[0]).all()) for _, part in chunks(x, 64))  # most often the first few rows tell


def _scale(x: torch.Tensor, kernel: Kernel, bandwidth: float, name: str) -> float:
    """What to divide x by before its kernel is taken."""
    if kernel != "rbf":
        return 1.0
    picked = torch.linspace(0, len(x) - 1, min(len(x), MEDIAN_ROWS), device=x.device).long()
    sample = minus(x[picked], column_means(x[picked])).to(arrays.accumulation_dtype(x.device))
    squares = sample.square().sum(1)
    upper = torch.triu_indices(len(sample), len(sample), 1, device=x.device)
    distances = (squares[:, None] + squares - 2 * sample @ sample.T)[*upper].clamp(min=0).sqrt()
    if distances.median() == 0:
        raise InputError(f"{name}: at least half of the pairs of rows coincide, so the median distance gives no bandwidth")
    return bandwidth * float(distances.median())


def _prepared(x: torch.Tensor, kernel: Kernel, scale: float, name: str) -> torch.Tensor:
    """x with its columns centred, which leaves every centred Gram matrix as it is and keeps float32 products exact."""
    if kernel == "cosine":
        x = unit_rows(x, name)
    if _constant(x):
        return torch.zeros_like(x)  # exactly, not up to the rounding of a mean
    x = minus(x, column_means(x))
    return x if scale == 1 else x.div_(scale)
