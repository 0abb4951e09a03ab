"""Conversion of arrays. Every measure takes NumPy arrays or torch tensors, and runs on the device of its input.

A function that computes with torch converts its arguments with `tensor` (without a copy if possible), and returns its result
with `like_input`: NumPy for NumPy, a tensor on the same device for a tensor. `matrix` and the functions below it apply the
checks of `zoo.core.checks` and return tensors. Code that does not need torch calls these checks directly and computes with
`zoo.core.backend`.

In every function, `name` identifies the array in errors: an argument, or a model and the kind of its outputs.
"""

import warnings
from typing import TYPE_CHECKING, Any, TypeAlias, Union

import numpy as np

from zoo.core import checks
from zoo.core.backend import MAX_NUMPY, backend, is_tensor
from zoo.core.checks import NO_PREDICTION as NO_PREDICTION
from zoo.core.checks import SUM_TOLERANCE as SUM_TOLERANCE

if TYPE_CHECKING:
    import torch

Array: TypeAlias = Union[np.ndarray, "torch.Tensor"]  # quoted, so that torch is not imported


def tensor(values: Any, name: str) -> "torch.Tensor":
    """Return an array, tensor or nested list as a tensor, which shares the memory of `values` if possible."""
    array = checks.array(values, name)
    if is_tensor(array):
        return array
    import torch

    if any(stride < 0 for stride in array.strides):
        array = np.ascontiguousarray(array)
    with warnings.catch_warnings():
        # torch warns that writing to the tensor would write to read-only memory (a memory map). Inputs are never written to.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


def by_size(values: Any, elements: int) -> Any:
    """Return an array unchanged if the problem has at most `MAX_NUMPY` numbers, else as a tensor; return a tensor unchanged.

    Args:
        values: an array or tensor.
        elements: how many numbers the whole problem has.
    """
    return values if elements <= MAX_NUMPY else tensor(values, "values")


def like(values: Any, other: Any) -> Any:
    """Return `values` as a NumPy array if `other` is one, else as a tensor on the device of `other`."""
    if is_tensor(other):
        return tensor(values, "values").to(other.device)
    return to_numpy(values)


def seed(value: Any, name: str = "seed") -> int:
    """Return a seed as an int, after checking that it is a whole number of at least 0."""
    return checks.whole_number(value, name, minimum=0)


def like_input(result: Any, given: Any) -> Any:
    """Return `result` unchanged if the caller's input `given` is a tensor, else as a NumPy array."""
    return result if is_tensor(given) or not is_tensor(result) else result.cpu().numpy()


def to_numpy(result: Any) -> np.ndarray:
    """Return an array, or a tensor on any device, as a NumPy array."""
    return result.detach().cpu().numpy() if is_tensor(result) else np.asarray(result)


def accumulation_dtype(device: "torch.device") -> "torch.dtype":
    """Return the dtype for sums and counts: float64, or float32 on devices without float64."""
    import torch

    return torch.float32 if device.type == "mps" else torch.float64


def total(values: Any, dim: int) -> Any:
    """Return the sum along `dim` in float64, or float32 on devices without float64."""
    dtype = accumulation_dtype(values.device) if is_tensor(values) else np.float64
    return backend(values).sum(values, dim, dtype=dtype)


def matrix(values: Any, name: str) -> "torch.Tensor":
    """Return a floating-point tensor [N, K] with N, K >= 1; the values themselves are not checked."""
    return checks.matrix(tensor(values, name), name)


def logits(values: Any, name: str = "logits") -> "torch.Tensor":
    """Return `checks.logits` [N, K] as a tensor."""
    return checks.logits(tensor(values, name), name)


def probabilities(values: Any, name: str = "probabilities") -> "torch.Tensor":
    """Return `checks.probabilities` [N, K] as a tensor."""
    return checks.probabilities(tensor(values, name), name)


def labels(
    values: Any, num_classes: int | None = None, rows: int | None = None, name: str = "labels", least: int = 0
) -> "torch.Tensor":
    """Return `checks.labels` [N] as a tensor."""
    return checks.labels(tensor(values, name), num_classes, rows, name, least)


def optional_predictions(
    values: Any, num_classes: int | None = None, rows: int | None = None, name: str = "predictions"
) -> "torch.Tensor":
    """Return `checks.optional_predictions` [N] as a tensor."""
    return labels(values, num_classes, rows, name, least=NO_PREDICTION)
