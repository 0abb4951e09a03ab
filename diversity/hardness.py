"""Angular visual hardness: the angle between an example and the weights of its class (Kornblith et al. 2021, Fig. E.1)."""

from typing import Any

import torch
from numpy.typing import ArrayLike

from diversity._activations import chunks, matrix, unit_rows
from zoo.core import arrays
from zoo.core.arrays import Array
from zoo.errors import InputError

MAX_ANGLES = 2**24  # rows times classes computed at a time


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
