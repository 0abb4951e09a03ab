"""Densities of angular visual hardness and of cosine distances within and between classes (Kornblith et al. 2021, App. E).

`kernel_density` of `angular_visual_hardness` is Fig. E.1, `distance_densities` is Fig. E.3.
"""

import math
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike

from diversity._activations import chunks, matrix, unit_rows
from diversity._checks import class_indices, whole_number
from zoo.core import arrays
from zoo.core.arrays import Array
from zoo.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

BLOCK = 256  # rows of the cosine matrix computed at a time
MAX_ANGLES = 2**24  # rows times classes computed at a time
POINTS = 256  # evenly spaced values at which a kernel density is evaluated


def distance_densities(
    x: ArrayLike | Array, labels: ArrayLike | Array, bins: int = 200, rows: int = 10_000, seed: int = 0
) -> "pd.DataFrame":
    """Return the densities of the cosine distance 1 - sim between two examples of the same and of different classes.

    Columns: `distance` (middle of a bin), `within` and `between`. Every pair of examples counts.

    Args:
        x: activations [N, ...].
        labels: [N] class indices.
        bins: number of equal bins over [0, 2].
        rows: number of examples to draw if there are more, since the number of pairs is quadratic (the paper's 10,000).
        seed: random seed of the draw.

    >>> import numpy as np
    >>> frame = distance_densities(np.array([[1.0, 0], [1, 0], [0, 1]]), np.array([0, 0, 1]), bins=4)
    >>> frame[["distance", "within", "between"]].values.tolist()
    [[0.25, 2.0, 0.0], [0.75, 0.0, 0.0], [1.25, 0.0, 2.0], [1.75, 0.0, 0.0]]
    """
    import pandas as pd

    whole_number(bins, "bins")
    whole_number(rows, "rows", minimum=2)
    values = matrix(x)
    y = arrays.like(class_indices(labels, len(values)), values)
    if len(values) > rows:
        drawn = torch.randperm(len(values), generator=torch.Generator().manual_seed(seed))[:rows].sort().values
        values, y = values[drawn.to(values.device)], y[drawn.to(values.device)]
    unit = unit_rows(values, "x")
    counts = torch.zeros(2 * bins, dtype=torch.int64, device=unit.device)
    for start in range(0, len(unit), BLOCK):
        stop = min(start + BLOCK, len(unit))
        distance = 1 - unit[start:stop] @ unit[:stop].T
        bin_of = (distance * (bins / 2)).long().clamp_(0, bins - 1)
        bin_of += bins * (y[start:stop, None] != y[:stop])
        below = torch.ones_like(bin_of, dtype=torch.bool).tril(start - 1)  # each pair once, no example with itself
        counts += bin_of[below].bincount(minlength=2 * bins)
    within, between = arrays.to_numpy(counts).reshape(2, bins)
    for kind, pairs in (("the same class", within), ("different classes", between)):
        if pairs.sum() == 0:
            raise InputError(f"no two of the {len(unit)} examples are of {kind}", argument="labels")
    width = 2 / bins
    middles = (np.arange(bins) + 0.5) * width
    densities = {"within": within / within.sum() / width, "between": between / between.sum() / width}
    return pd.DataFrame({"distance": middles} | densities)


def angular_visual_hardness(x: ArrayLike | Array, labels: ArrayLike | Array, weight: ArrayLike | Array) -> Any:
    """Return arccos(sim(x, w_y)) / sum_k arccos(sim(x, w_k)) of each example [N]; low values are easy examples.

    The hardness is 0 if x has the direction of its class's weights, and 1 / K if all classes are at the same angle.

    Args:
        x: embeddings [N, D].
        labels: [N] class indices.
        weight: [K, D] classifier weights.

    >>> import numpy as np
    >>> angular_visual_hardness(np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([0, 1]), np.eye(2))
    array([0. , 0.5])
    """
    rows = matrix(x)
    w = unit_rows(matrix(weight, "weight").to(rows.device, rows.dtype), "weight")
    if w.shape[1] != rows.shape[1] or len(w) < 2:
        expected = f"of shape [K, {rows.shape[1]}] with at least two classes"
        raise InputError(argument="weight", expected=expected, found=list(w.shape))
    y = arrays.labels(labels, len(w), len(rows)).to(rows.device)
    hardness = torch.empty(len(rows), dtype=rows.dtype, device=rows.device)
    for start, part in chunks(rows, max(1, MAX_ANGLES // len(w))):
        angles = (unit_rows(part, "x", start) @ w.T).clamp_(-1, 1).acos_()
        of_label = angles.gather(1, y[start : start + len(part), None]).squeeze(1)
        hardness[start : start + len(part)] = of_label / angles.sum(1)
    return arrays.like_input(hardness, x)


def kernel_density(values: ArrayLike | Array, bandwidth: float | None = None) -> "pd.DataFrame":
    """Return a Gaussian kernel density estimate of a sample, with columns `value` and `density`.

    Args:
        values: the sample [N].
        bandwidth: bandwidth of the kernel; default: Scott's rule, std N^(-1/5). Fig. E.1 uses 5e-6 for the hardness of 1,000
            classes.

    >>> import numpy as np
    >>> frame = kernel_density(np.random.default_rng(0).normal(size=1000))
    >>> bool(0.35 < frame.density.max() < 0.45)
    True
    """
    import pandas as pd

    sample = arrays.tensor(values, "values")
    if sample.ndim != 1 or len(sample) < 2 or not sample.isfinite().all():
        raise InputError(
            argument="values", expected="at least two finite numbers, of shape [N]", found=f"shape {list(sample.shape)}"
        )
    sample = sample.to(arrays.accumulation_dtype(sample.device))
    if bandwidth is None:
        bandwidth = float(sample.std()) * len(sample) ** -0.2
    if not bandwidth > 0:
        raise InputError(
            argument="bandwidth",
            expected="a positive number",
            found=bandwidth,
            hint="For a sample of equal values, pass a bandwidth",
        )
    low, high = float(sample.min()) - 3 * bandwidth, float(sample.max()) + 3 * bandwidth
    grid = torch.linspace(low, high, POINTS, dtype=sample.dtype, device=sample.device)
    density = torch.zeros_like(grid)
    for _, part in chunks(sample, 2**16):
        density += ((grid[:, None] - part) / bandwidth).square_().mul_(-0.5).exp_().sum(1)
    density /= len(sample) * bandwidth * math.sqrt(2 * math.pi)
    return pd.DataFrame({"value": arrays.to_numpy(grid), "density": arrays.to_numpy(density)})
