"""Conversion and checks of arrays. Every measure takes NumPy arrays or torch tensors, and runs on the device of its input.

A function converts its arguments with `tensor` (without a copy if possible), computes with torch, and returns its result
with `like_input`: NumPy for NumPy, a tensor on the same device for a tensor. The caller declares what an array holds
(logits, probabilities, predictions). Nothing is guessed from the range of the values; the checks only confirm the
declaration.

In every function `name` is what errors call the array: the caller's argument, or a model and what it holds.
"""

import warnings
from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import torch

from zoo.errors import InputError

Array: TypeAlias = np.ndarray | torch.Tensor

SUM_TOLERANCE = 1e-2  # of a row of probabilities: rows of 1,000 classes in float16 are off by about 5e-3
NO_PREDICTION = -1  # in place of a predicted class: counts as wrong, and agrees with no other prediction


def tensor(values: Any, name: str) -> torch.Tensor:
    """Return an array, tensor or nested list as a tensor, which shares the memory of `values` if possible."""
    if isinstance(values, torch.Tensor):
        return _dense(values, name)
    if isinstance(values, (list, tuple)) and values and all(isinstance(value, torch.Tensor) for value in values):
        return _stack([_dense(value, name) for value in values], name)
    if isinstance(values, np.ma.MaskedArray):
        if np.ma.is_masked(values):
            count = int(np.ma.count_masked(values))
            raise InputError(f"{count} entries are masked", argument=name, hint="Fill or drop them first")
        values = values.data
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise _ragged(name) from error
    except (RuntimeError, TypeError) as error:  # tensors that NumPy cannot read, inside nested lists
        raise InputError(f"a {type(values).__name__} is not an array: {error}", argument=name) from error
    if array.dtype.kind not in "biuf":
        raise InputError(argument=name, expected="numbers", found=array.dtype)
    if array.dtype == np.longdouble:
        array = array.astype(np.float64)
    elif array.dtype.kind == "u" and array.dtype.itemsize > 1:
        if array.dtype.itemsize == 8 and array.size and int(array.max()) >= 2**63:
            raise InputError(argument=name, expected="whole numbers below 2^63", found=int(array.max()))
        array = array.astype(np.int64)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if any(stride < 0 for stride in array.strides):
        array = np.ascontiguousarray(array)
    with warnings.catch_warnings():
        # torch warns that read-only memory (a memory map) could be written through the tensor; no input is written to.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


def _dense(values: torch.Tensor, name: str) -> torch.Tensor:
    """Return the tensor without its gradient, after checking that it holds plain numbers."""
    if values.layout != torch.strided:
        layout = str(values.layout).removeprefix("torch.")
        raise InputError(argument=name, expected="a dense tensor", found=layout, hint="Call .to_dense() first")
    # A subclass of Tensor may use the meta device to stand for a device of its own.
    if values.is_meta and type(values) in (torch.Tensor, torch.nn.Parameter):
        raise InputError("is on the meta device, so it has no values", argument=name, hint="Load it first")
    if values.is_quantized or values.is_complex():
        raise InputError(argument=name, expected="real numbers", found=values.dtype)
    return values.detach()


def _stack(rows: list[torch.Tensor], name: str) -> torch.Tensor:
    if len({tuple(row.shape) for row in rows}) > 1:
        raise _ragged(name)
    if len({(row.device, row.dtype) for row in rows}) > 1:
        raise InputError("tensors differ in device or dtype", argument=name, hint="Stack them first")
    return torch.stack(rows)


def _ragged(name: str) -> InputError:
    return InputError("rows have different lengths", argument=name, expected="a rectangular array")


def seed(value: Any, name: str = "seed") -> int:
    """Return a seed as an int, after checking that it is a whole number of at least 0.

    >>> seed(7)
    7
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
        raise InputError(argument=name, expected="a whole number of at least 0", found=value)
    return int(value)


def like_input(result: torch.Tensor, like: Any) -> Any:
    """Return `result` unchanged if the caller's input `like` is a tensor, else as a NumPy array."""
    return result if isinstance(like, torch.Tensor) else result.cpu().numpy()


def to_numpy(result: torch.Tensor) -> np.ndarray:
    """Return a tensor from any device as a NumPy array: for small results that become a table, a chart or a number."""
    return result.detach().cpu().numpy()


def accumulation_dtype(device: torch.device) -> torch.dtype:
    """Return the dtype for sums and counts: float64, or float32 on devices without float64."""
    return torch.float32 if device.type == "mps" else torch.float64


def total(values: torch.Tensor, dim: int) -> torch.Tensor:
    """Return the sum along `dim` in the accumulation dtype."""
    return values.sum(dim, dtype=accumulation_dtype(values.device))


def matrix(values: Any, name: str) -> torch.Tensor:
    """Return a floating-point tensor [N, K] with N, K >= 1; the values themselves are not checked."""
    x = tensor(values, name)
    if x.ndim != 2:
        raise InputError(argument=name, expected="of shape [N, K]", found=list(x.shape))
    if not x.is_floating_point():
        raise InputError(argument=name, expected="floating-point numbers", found=x.dtype)
    if x.shape[0] == 0 or x.shape[1] == 0:
        raise InputError(argument=name, expected="of shape [N, K] with at least one row and one class", found=list(x.shape))
    return x


def logits(values: Any, name: str = "logits") -> torch.Tensor:
    """Return logits [N, K], after checking that every row has a finite maximum. Minus infinity marks a masked class."""
    z = matrix(values, name)
    check_finite(z, name)
    refuse_probabilities(z, name)
    return z


def check_finite(logits: torch.Tensor, name: str = "logits", ids: Sequence[Any] | None = None) -> None:
    """Raise an error that names the first row [..., K] with NaN, plus infinity, or no unmasked class.

    Args:
        logits: [..., K].
        name: what the error calls the logits.
        ids: [N] ids of the examples, which the error names instead of row numbers.
    """
    bad = ~torch.isfinite(logits.amax(-1))
    if bad.any():
        row = int(bad.reshape(-1).nonzero()[0])
        which = f"row {row}" if ids is None else f"example {str(ids[row])!r}"
        problem = f"{which} has NaN, +inf or no finite value ({int(bad.sum())} such rows)"
        raise InputError(problem, argument=name, expected="finite logits")


def refuse_probabilities(values: torch.Tensor, name: str) -> None:
    """Raise an error if declared logits [N, K] are probabilities: every row sums to one, which logits do not do by chance.

    Only the first rows are checked. Fewer than eight rows, and one-hot rows, may be logits all the same.
    """
    first = values[:64]
    first = first if first.dtype == torch.float64 else first.float()
    if first.shape[0] < 8 or first.shape[1] < 2:
        return
    sums_to_one = (first.sum(1) - 1).abs() <= (SUM_TOLERANCE if values.element_size() < 4 else 1e-4)
    soft = ((first > 0) & (first < 1)).any(1)
    if bool((sums_to_one & soft & (first >= 0).all(1)).all()):
        raise InputError(
            "every row sums to one, so these are probabilities", argument=name, hint="Declare them as such, or pass logits"
        )


def probabilities(values: Any, name: str = "probabilities") -> torch.Tensor:
    """Return probabilities [N, K], after checking that none is negative and that every row sums to one."""
    p = matrix(values, name)
    totals = p.sum(1, dtype=torch.float32 if p.dtype != torch.float64 else torch.float64)
    bad = ~((totals - 1).abs() <= SUM_TOLERANCE) | ~(p.amin(1) >= 0)
    if bad.any():
        row = int(bad.nonzero()[0])
        numbers = f"sum {float(totals[row]):.4g}, minimum {float(p[row].amin()):.4g}"
        raise InputError(
            f"row {row} is not a distribution ({numbers}; {int(bad.sum())} such rows)",
            argument=name,
            expected="probabilities",
            hint="Convert logits with zoo.calibration.to_probabilities first",
        )
    return p


def labels(
    values: Any, num_classes: int | None = None, rows: int | None = None, name: str = "labels", least: int = 0
) -> torch.Tensor:
    """Return class indices [N] as int64, after checking them.

    Args:
        values: [N] whole numbers.
        num_classes: indices must be below it, if it is given.
        rows: the expected N, if it is known.
        name: what errors call the labels.
        least: the lowest valid index.
    """
    y = tensor(values, name)
    if y.ndim != 1:
        hint = "Pass class indices, not one-hot rows" if y.ndim == 2 else None
        raise InputError(argument=name, expected="of shape [N]", found=list(y.shape), hint=hint)
    if y.is_floating_point() or y.dtype == torch.bool:
        raise InputError(argument=name, expected="whole-number class indices", found=y.dtype)
    if rows is not None and len(y) != rows:
        raise InputError(argument=name, expected=f"{rows} class indices, one per example", found=len(y))
    y = y.long()
    bad = (y < least) if num_classes is None else (y < least) | (y >= num_classes)
    if bad.any():
        row = int(bad.nonzero()[0])
        limits = "of at least 0" if num_classes is None else f"from 0 to {num_classes - 1}"
        raise InputError(f"entry {row} is {int(y[row])}", argument=name, expected=f"class indices {limits}")
    return y


def predictions(values: Any, rows: int | None = None, name: str = "predictions") -> torch.Tensor:
    """Return predicted classes [N] as int64, checked as `labels` are."""
    return labels(values, rows=rows, name=name)


def optional_predictions(
    values: Any, num_classes: int | None = None, rows: int | None = None, name: str = "predictions"
) -> torch.Tensor:
    """Return predicted classes [N] as int64, where `NO_PREDICTION` is allowed; otherwise checked as `labels` are.

    >>> optional_predictions([2, -1, 0]).tolist()
    [2, -1, 0]
    """
    return labels(values, num_classes, rows, name, least=NO_PREDICTION)
