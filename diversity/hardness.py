"""Angular visual hardness: how far an example points from its own class among all (Kornblith et al. 2021, Fig. E.1)."""

from typing import Any

import torch

from diversity._activations import chunks, matrix, unit_rows
from zoo.core import arrays
from zoo.errors import InputError

# Angles held at a time: rows times classes.
ANGLES = 2**24


def angular_visual_hardness(x: Any, labels: Any, weight: Any) -> Any:
    """[N] arccos(sim(x, w_y)) / sum_k arccos(sim(x, w_k)), from embeddings x [N, D] and classifier `weight` [K, D].

    Low is easy: 0 where x points along the weights of its own class, 1 / K where it is as far from that as from the others.

    >>> import numpy as np
    >>> angular_visual_hardness(np.array([[1.0, 0.0], [1.0, 1.0]]), np.array([0, 1]), np.eye(2))
    array([0. , 0.5])
    """
    rows = matrix(x)
    w = unit_rows(matrix(weight, "weight").to(rows.device, rows.dtype), "weight")
    if w.shape[1] != rows.shape[1]:
        raise InputError(f"weight: expected shape [K, {rows.shape[1]}] to fit x, found {list(w.shape)}")
    if len(w) < 2:
        raise InputError("weight: expected at least two classes, found 1")
    y = arrays.labels(labels, len(w), len(rows)).to(rows.device)
    hardness = torch.empty(len(rows), dtype=rows.dtype, device=rows.device)
    for start, part in chunks(rows, max(1, ANGLES // len(w))):
        angles = (unit_rows(part, "x", start) @ w.T).clamp_(-1, 1).acos_()
        own = angles.gather(1, y[start : start + len(part), None]).squeeze(1)
        hardness[start : start + len(part)] = own / angles.sum(1)
    return arrays.like_input(hardness, x)
