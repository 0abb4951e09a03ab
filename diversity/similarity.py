"""Centred kernel alignment (CKA): similarity of two representations of the same examples (Kornblith et al. 2021, 3.2).

`linear_cka` and `kernel_cka` compare two matrices in memory. `MinibatchCKA` compares every layer of one network with every
layer of another over a stream of batches.
"""

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import torch
from numpy.typing import ArrayLike

from diversity._activations import check_same_rows, chunks, column_means, matrix, minus, row_norms, unit_rows
from diversity._hsic import feature_sums, gram_sums
from zoo.core import arrays
from zoo.core.arrays import Array
from zoo.errors import InputError, ZooWarning

if TYPE_CHECKING:
    import pandas as pd

Kernel = Literal["linear", "cosine", "rbf"]
Layers = Mapping[str, Any] | Sequence[Any]

MIN_ROWS = 4  # HSIC_1 divides by n (n - 3)
MEDIAN_ROWS = 1000  # the median distance is over all pairs of at most this many rows
# Row norms whose fourth powers, summed over a block of a Gram matrix, neither overflow nor underflow in float32.
MIN_NORM, MAX_NORM = 2.0**-8, 2.0**16


def linear_cka(x: ArrayLike | Array, y: ArrayLike | Array, unbiased: bool = False) -> float:
    """Return the linear CKA of two representations of the same examples; 1 if they are equal up to rotation and scale.

    CKA = ||Y'X||_F^2 / (||X'X||_F ||Y'Y||_F) with centred columns. It is computed in feature space or from blocks of the
    Gram matrices, whichever is less work.

    Args:
        x: activations [N, D1].
        y: activations [N, D2].
        unbiased: use HSIC_1, which needs four rows. For independent x and y its mean is 0, whereas the plain form
            approaches 1 as the dimensions outnumber the examples.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(50, 8))
    >>> rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(8, 8)))[0]
    >>> round(linear_cka(x, 3 * x @ rotation + 5), 6)
    1.0
    """
    return kernel_cka(x, y, kernel="linear", unbiased=unbiased)


def kernel_cka(
    x: ArrayLike | Array,
    y: ArrayLike | Array,
    kernel: Kernel = "rbf",
    bandwidth: float = 1.0,
    unbiased: bool = False,
) -> float:
    """Return the CKA of two representations of the same examples, with a kernel.

    Args:
        x: activations [N, D1].
        y: activations [N, D2].
        kernel: `linear`, `cosine` (linear on unit rows) or `rbf`: exp(-||a - b||^2 / (2 s^2)).
        bandwidth: s as a multiple of the median distance between rows. Each representation has its own median, over the
            pairs of at most 1,000 evenly spaced rows.
        unbiased: use HSIC_1, which needs four rows.

    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(50, 8))
    >>> round(kernel_cka(x, 10 * x, kernel="rbf", bandwidth=0.5), 6)
    1.0
    """
    _check_kernel(kernel, bandwidth)
    a, b = matrix(x, "x"), matrix(y, "y")
    check_same_rows(a, b, ("x", "y"))
    min_rows = MIN_ROWS if unbiased else 2
    if len(a) < min_rows:
        raise InputError(where="x and y", expected=f"at least {min_rows} rows", found=len(a))
    dtype = torch.promote_types(a.dtype, b.dtype)
    a, b = a.to(dtype), b.to(a.device, dtype)
    a, b = (_times_power_of_two(values, _exponent(values, name)) for values, name in ((a, "x"), (b, "y")))
    for values, name in ((a, "x"), (b, "y")):
        if _is_constant(values):
            raise InputError(f"all {len(values)} rows are equal, so CKA is undefined", where=name)
    n, d1, d2 = len(a), a.shape[1], b.shape[1]
    in_feature_space = d1 * d1 + d1 * d2 + d2 * d2 < n * (d1 + d2) / 2  # half of a Gram matrix is built
    if kernel != "rbf" and in_feature_space:
        if kernel == "cosine":
            a, b = unit_rows(a, "x"), unit_rows(b, "y")
        sums = feature_sums(a, b)
    else:
        ready = [_prepare(z, kernel, _kernel_scale(z, kernel, bandwidth, name), name) for z, name in ((a, "x"), (b, "y"))]
        sums = gram_sums(ready, gaussian=kernel == "rbf")
    hsic = sums.unbiased() if unbiased else sums.biased()
    return float(hsic[0, 1] / (hsic[0, 0] * hsic[1, 1]).sqrt())


class MinibatchCKA:
    """CKA between all layers of two networks (or of one) over a stream of batches, with the unbiased HSIC_1.

    Every batch gives an unbiased estimate of each pair's HSIC. The means of these estimates, weighted by rows, make up CKA
    at the end (Nguyen et al. 2021). Only an [L, L] sum is stored between batches. A batch of fewer than four rows has no
    such estimate: it is skipped with a warning and counted in `skipped_rows`.

    Args:
        kernel, bandwidth: as in `kernel_cka`; the first batch determines each layer's median distance.

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
        self._exponents: list[int] = []  # of each layer, from the first batch
        self._scales: list[float] = []  # of each layer's kernel, from the first batch
        self._hsic: torch.Tensor | None = None

    def update(self, layers_a: Layers, layers_b: Layers | None = None) -> None:
        """Add one batch.

        Args:
            layers_a: activations [n, ...] of the first network by layer name, or a sequence of them. Every batch must have
                the same layers.
            layers_b: activations of the second network on the same examples; default: compare the layers of `layers_a`
                with each other.
        """
        sides = _by_name(layers_a), _by_name(layers_b or {})
        names = list(sides[0]), list(sides[1])
        if not names[0]:
            raise InputError(argument="layers_a", expected="at least one layer", found=0)
        if self._names not in (None, names):
            raise InputError(f"layers {names} differ from those of the first batch, {self._names}", argument="layers_a")
        batch = [(f"layer {name}", matrix(x, f"layer {name}")) for side in sides for name, x in side.items()]
        label, first = batch[0]
        for other, x in batch:
            check_same_rows(first, x, (label, other))
        if len(first) < MIN_ROWS:
            self.skipped_rows += len(first)
            message = f"CKA: skipped a batch of {len(first)} rows; at least {MIN_ROWS} are needed"
            warnings.warn(message, ZooWarning, stacklevel=2)
            return
        self._exponents = self._exponents or [_exponent(x, label) for label, x in batch]
        batch = [(label, _times_power_of_two(x, e)) for (label, x), e in zip(batch, self._exponents, strict=True)]
        for label, x in batch:
            row_norms(x, label)
        self._scales = self._scales or [_kernel_scale(x, self.kernel, self.bandwidth, label) for label, x in batch]
        dtype = torch.float64 if all(x.dtype == torch.float64 for _, x in batch) else torch.float32
        ready = [
            _prepare(x, self.kernel, scale, label).to(first.device, dtype)
            for (label, x), scale in zip(batch, self._scales, strict=True)
        ]
        hsic = gram_sums(ready, gaussian=self.kernel == "rbf").unbiased() * len(first)
        self._hsic = hsic if self._hsic is None else self._hsic + hsic
        self._names = names
        self.rows += len(first)

    def result(self, part: Literal["between", "first", "second"] = "between") -> "pd.DataFrame":
        """Return a table of CKA values.

        Args:
            part: `between` the layers of the two networks (rows: the first), or within the `first` or the `second`. For one
                network, `between` is the same as `first`.
        """
        import pandas as pd

        if self._hsic is None or self._names is None:
            raise InputError(
                f"CKA needs a batch of at least {MIN_ROWS} rows, and none was added ({self.skipped_rows} rows were skipped)"
            )
        first, second = self._names
        if part == "second" and not second:
            raise InputError("the batches hold the layers of one network only", argument="part", found=part)
        one, two = slice(0, len(first)), slice(len(first), None)
        rows, columns = {"between": (one, two if second else one), "first": (one, one), "second": (two, two)}[part]
        variances = self._hsic.diagonal()
        names = first + second
        constant = sorted({name for name, value in zip(names, variances, strict=True) if value <= 0})
        if constant:
            warnings.warn(f"CKA is undefined for constant layers: {', '.join(constant)}", ZooWarning, stacklevel=2)
        scale = torch.where(variances > 0, variances, math.nan).sqrt()
        cka = self._hsic / torch.outer(scale, scale)
        return pd.DataFrame(arrays.to_numpy(cka[rows, columns]), index=names[rows], columns=names[columns])


def _check_kernel(kernel: str, bandwidth: float) -> None:
    if kernel not in ("linear", "cosine", "rbf"):
        raise InputError(argument="kernel", expected="linear, cosine or rbf", found=kernel)
    if not (bandwidth > 0 and math.isfinite(bandwidth)):
        raise InputError(argument="bandwidth", expected="a positive multiple of the median distance", found=bandwidth)


def _by_name(layers: Layers) -> Mapping[str, Any]:
    return layers if isinstance(layers, Mapping) else {str(k): value for k, value in enumerate(layers)}


def _is_constant(x: torch.Tensor) -> bool:
    return all(bool((part == x[0]).all()) for _, part in chunks(x, 64))  # the first few rows usually decide


def _exponent(x: torch.Tensor, name: str) -> int:
    """Return the exponent e such that the fourth powers of 2^e x neither overflow nor underflow.

    CKA does not depend on the scale of x, and a power of two changes no digit. Ordinary activations need e = 0, which is
    known from their norms; the norms also check for NaN and infinity.
    """
    if MIN_NORM <= float(torch.linalg.vector_norm(x, dim=1).max()) <= MAX_NORM:
        return 0
    largest = float(x.abs().max())
    if not math.isfinite(largest):
        row_norms(x, name)  # raises an error that names the row
    return -math.frexp(largest)[1]


def _times_power_of_two(x: torch.Tensor, exponent: int) -> torch.Tensor:
    half = exponent // 2  # in two steps, because the factor for the smallest numbers would overflow
    return x if exponent == 0 else x * 2.0**half * 2.0 ** (exponent - half)


def _kernel_scale(x: torch.Tensor, kernel: Kernel, bandwidth: float, name: str) -> float:
    """Return the number that x is divided by before the kernel is applied."""
    if kernel != "rbf":
        return 1.0
    picked = torch.linspace(0, len(x) - 1, min(len(x), MEDIAN_ROWS), device=x.device).long()
    sample = minus(x[picked], column_means(x[picked])).to(arrays.accumulation_dtype(x.device))
    squares = sample.square().sum(1)
    upper = torch.triu_indices(len(sample), len(sample), 1, device=x.device)
    distances = (squares[:, None] + squares - 2 * sample @ sample.T)[*upper].clamp(min=0).sqrt()
    if distances.median() == 0:
        raise InputError("at least half of the pairs of rows are equal, so the median distance is 0", where=name)
    return bandwidth * float(distances.median())


def _prepare(x: torch.Tensor, kernel: Kernel, scale: float, name: str) -> torch.Tensor:
    """Return x with centred columns, divided by `scale`.

    Centring changes no centred Gram matrix, and keeps float32 products exact.
    """
    if kernel == "cosine":
        x = unit_rows(x, name)
    if _is_constant(x):
        return torch.zeros_like(x)  # exactly zero, without the rounding error of a mean
    x = minus(x, column_means(x))
    return x if scale == 1 else x.div_(scale)
