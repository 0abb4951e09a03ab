"""One code path for NumPy arrays and torch tensors, which does not import torch for arrays.

`backend(x)` is the module, `numpy` or `torch`, that computes with `x`. Many functions have the same name and the same
positional arguments in both: `amax`, `where`, `stack`, `concatenate`, `exp`, `isfinite`, `maximum`, `bincount`, `sum`.
The functions here are for operations whose names or arguments differ.

Importing torch takes longer than most computations on stored outputs. So NumPy arrays of up to `MAX_NUMPY` numbers are
computed by NumPy; larger ones by torch, which uses all cores (`zoo.core.arrays.by_size`). The choice depends on the input
alone.
"""

import sys
from typing import Any

import numpy as np

MAX_NUMPY = 2**20


def is_tensor(x: Any) -> bool:
    """Return whether `x` is a torch tensor, without importing torch: before that import there are no tensors.

    >>> is_tensor(np.ones(2))
    False
    """
    return isinstance(x, getattr(sys.modules.get("torch"), "Tensor", ()))


def backend(x: Any) -> Any:
    """Return the module that computes with `x`: torch for a tensor, else NumPy."""
    return sys.modules["torch"] if is_tensor(x) else np


def dtype_name(x: Any) -> str:
    """Return the name of the dtype, the same for arrays and tensors.

    >>> dtype_name(np.ones(2, np.float32))
    'float32'
    """
    return str(x.dtype).removeprefix("torch.")


def is_floating(x: Any) -> bool:
    """Return whether `x` holds floating-point numbers."""
    return bool(x.is_floating_point() if is_tensor(x) else x.dtype.kind == "f")


def cast(x: Any, dtype: str) -> Any:
    """Return `x` converted to the dtype of that name, without a copy if `x` has this dtype already.

    >>> cast(np.array([1, 2]), "float32")
    array([1., 2.], dtype=float32)
    """
    return x.to(getattr(backend(x), dtype)) if is_tensor(x) else x.astype(dtype, copy=False)


def to_accumulation_dtype(x: Any) -> Any:
    """Return `x` in float64, in which sums and counts are exact enough; in float32 on devices without float64."""
    return cast(x, "float32" if is_tensor(x) and x.device.type == "mps" else "float64")


def single_or_double(x: Any) -> Any:
    """Return `x` in float32 unless it is float64: half precision is for storage only."""
    return x if dtype_name(x) in ("float32", "float64") else cast(x, "float32")


def zeros(shape: tuple[int, ...], x: Any, dtype: str | None = None) -> Any:
    """Return an array or tensor of zeros like `x`: on its device and, by default, of its dtype."""
    if is_tensor(x):
        return x.new_zeros(shape, dtype=None if dtype is None else getattr(backend(x), dtype))
    return np.zeros(shape, dtype or x.dtype)


def pick(x: Any, index: Any) -> Any:
    """Return the entry in column `index` [N] of each row of `x` [..., N, K], as [..., N].

    >>> pick(np.array([[1, 2], [3, 4]]), np.array([1, 0]))
    array([2, 3])
    """
    columns = index.reshape((1,) * (x.ndim - 2) + (-1, 1))
    if is_tensor(x):
        return x.gather(-1, columns.expand(*x.shape[:-1], 1))[..., 0]
    return np.take_along_axis(x, columns, -1)[..., 0]


def replaced(x: Any, index: Any, values: Any) -> Any:
    """Return a copy of `x` [N, K] with `values` [N] in the column `index` [N] of each row.

    >>> replaced(np.array([[1, 2], [3, 4]]), np.array([1, 0]), np.array([7, 8]))
    array([[1, 7],
           [8, 4]])
    """
    if is_tensor(x):
        return x.scatter(1, index[:, None], values[:, None])
    copy = x.copy()
    np.put_along_axis(copy, index[:, None], values[:, None], 1)
    return copy


def sums_by(values: Any, index: Any, count: int) -> Any:
    """Return the sums [..., count] of the values [..., N] that share an index [N].

    >>> sums_by(np.array([1.0, 2.0, 4.0]), np.array([1, 0, 1]), 3)
    array([2., 5., 0.])
    """
    if is_tensor(values):
        return zeros((*values.shape[:-1], count), values).index_add_(-1, index, values)
    rows = [np.bincount(index, row, count) for row in values.reshape(-1, values.shape[-1])]
    return np.stack(rows).reshape(*values.shape[:-1], count).astype(values.dtype, copy=False)


def row_norms(x: Any) -> Any:
    """Return the Euclidean norm [N] of each row of `x` [N, K]."""
    return backend(x).linalg.vector_norm(x, dim=1) if is_tensor(x) else np.sqrt(np.einsum("nk,nk->n", x, x))


def softmax(x: Any) -> Any:
    """Return exp(x), divided by its sum over the last axis.

    >>> softmax(np.array([[0.0, 0.0], [1000.0, 0.0]]))
    array([[0.5, 0.5],
           [1. , 0. ]])
    """
    if is_tensor(x):
        return backend(x).softmax(x, -1)
    # In float64, because NumPy's exp of float32 is off by up to three units in the last place.
    weights = to_accumulation_dtype(x - x.max(-1, keepdims=True))
    np.exp(weights, out=weights)
    weights /= weights.sum(-1, keepdims=True)
    return cast(weights, dtype_name(x))


def log_sigmoid(x: Any) -> Any:
    """Return log(sigmoid(x)), accurate even where the sigmoid underflows.

    >>> log_sigmoid(np.array([-1000.0, 1000.0]))
    array([-1000.,     0.])
    """
    if is_tensor(x):
        return backend(x).nn.functional.logsigmoid(x)
    return np.minimum(x, 0) - np.log1p(np.exp(-np.abs(x)))


def sigmoid(x: Any) -> Any:
    """Return 1 / (1 + exp(-x)).

    >>> sigmoid(np.array([-1000.0, 0.0]))
    array([0. , 0.5])
    """
    if is_tensor(x):
        return backend(x).sigmoid(x)
    with np.errstate(over="ignore"):  # exp(-x) is infinite where the sigmoid is 0
        return 1 / (1 + np.exp(-x))
