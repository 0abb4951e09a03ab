"""Arrays in, arrays out: every measure takes NumPy arrays or torch tensors and runs where the data are.

A function converts its arguments with `tensor` (no copy when there is a way round it), computes with torch on the device
of the input, and hands the result back with `like_input`: NumPy for NumPy, a tensor on the same device for a tensor.
The kind of an array (logits, probabilities, predictions) is always declared by the caller, never guessed from its range;
the checks here only confirm the declaration.
"""

import warnings
from typing import Any, TypeAlias

import numpy as np
import torch

from zoo.errors import InputError

Array: TypeAlias = np.ndarray | torch.Tensor

# How far a row of declared probabilities may stray from one: float16 rows of 1,000 classes stray by about 5e-3.
SUM_TOLERANCE = 1e-2
NO_PREDICTION = -1  # among predicted classes: an answer that is none of them, never right and never another's


def tensor(values: Any, name: str) -> torch.Tensor:
    """`values` as a tensor that shares memory where possible; `name` is what error messages call it."""
    if isinstance(values, torch.Tensor):
        return _dense(values, name)
    if isinstance(values, (list, tuple)) and values and all(isinstance(value, torch.Tensor) for value in values):
        return _stacked([_dense(value, name) for value in values], name)
    if isinstance(values, np.ma.MaskedArray):
        if np.ma.is_masked(values):
            raise InputError(f"{name}: {int(np.ma.count_masked(values))} entries are masked; fill or drop them first")
        values = values.data
    try:
        array = np.asarray(values)
    except ValueError as error:
        raise InputError(f"{name}: expected a rectangular array, found rows of different lengths") from error
    except (RuntimeError, TypeError) as error:  # tensors that NumPy cannot read, deeper in lists
        raise InputError(f"{name}: expected an array, found {type(values).__name__}: {error}") from error
    if array.dtype.kind not in "biuf":
        raise InputError(f"{name}: expected numbers, found dtype {array.dtype}")
    if array.dtype == np.longdouble:
        array = array.astype(np.float64)
    elif array.dtype.kind == "u" and array.dtype.itemsize > 1:
        if array.dtype.itemsize == 8 and array.size and int(array.max()) >= 2**63:
            raise InputError(f"{name}: has the entry {int(array.max())}, expected whole numbers below 2^63")
        array = array.astype(np.int64)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    if any(stride < 0 for stride in array.strides):
        array = np.ascontiguousarray(array)
    with warnings.catch_warnings():
        # torch warns that read-only memory (a memory map) could be written through it; nothing here writes to an input.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return torch.from_numpy(array)


def _dense(values: torch.Tensor, name: str) -> torch.Tensor:
    """The tensor without its gradient; an error where it does not hold plain numbers."""
    if values.layout != torch.strided:
        kind = str(values.layout).removeprefix("torch.")
        raise InputError(f"{name}: expected a dense tensor, found a {kind} one; call .to_dense() first")
    if values.is_meta and type(values) in (torch.Tensor, torch.nn.Parameter):  # a subclass may stand for its own device
        raise InputError(f"{name}: a tensor on the meta device has a shape and no numbers; load it first")
    if values.is_quantized or values.is_complex():
        raise InputError(f"{name}: expected real numbers, found dtype {values.dtype}")
    return values.detach()


def _stacked(rows: list[torch.Tensor], name: str) -> torch.Tensor:
    if len({tuple(row.shape) for row in rows}) > 1:
        raise InputError(f"{name}: expected a rectangular array, found rows of different lengths")
    if len({row.device for row in rows}) > 1 or len({row.dtype for row in rows}) > 1:
        raise InputError(f"{name}: expected tensors of one device and dtype, found several; join them first")
    return torch.stack(rows)


def seed(value: Any, name: str = "seed") -> int:
    """A seed that every generator takes: a whole number, zero or above.

    >>> seed(7)
    7
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < 0:
        raise InputError(f"{name}: expected a whole number of at least 0, found {value!r}")
    return int(value)


def like_input(result: torch.Tensor, like: Any) -> Any:
    """`result` in the caller's own kind: unchanged if `like` is a tensor, else NumPy."""
    return result if isinstance(like, torch.Tensor) else result.cpu().numpy()


def to_numpy(result: torch.Tensor) -> np.ndarray:
    """The one way to the host's memory: for small results that become a table, a chart or a number to print."""
    return result.detach().cpu().numpy()


def accumulation_dtype(device: torch.device) -> torch.dtype:
    """The type for sums and counts: float64, or float32 on devices that have nothing wider."""
    return torch.float32 if device.type == "mps" else torch.float64


def total(values: torch.Tensor, dim: int) -> torch.Tensor:
    """Sum along `dim` in the widest type the device has."""
    return values.sum(dim, dtype=accumulation_dtype(values.device))


def matrix(values: Any, name: str) -> torch.Tensor:
    """Floating [N, K] with at least one row and one column; what it holds is not looked at."""
    x = tensor(values, name)
    if x.ndim != 2:
        raise InputError(f"{name}: expected shape [N, K], found {list(x.shape)}")
    if not x.is_floating_point():
        raise InputError(f"{name}: expected floating-point numbers, found dtype {x.dtype}")
    if x.shape[0] == 0 or x.shape[1] == 0:
        raise InputError(f"{name}: expected at least one row and one class, found shape {list(x.shape)}")
    return x


def logits(values: Any, name: str = "logits") -> torch.Tensor:
    """Floating [N, K] with a finite maximum in every row; minus infinity marks a masked class."""
    z = matrix(values, name)
    top = z.amax(1)
    bad = ~torch.isfinite(top)
    if bad.any():
        row = int(bad.nonzero()[0])
        raise InputError(
            f"{name}: row {row} has NaN, +inf or no finite value ({int(bad.sum())} such rows); expected finite logits"
        )
    refuse_probabilities(z, name)
    return z


def refuse_probabilities(values: torch.Tensor, name: str) -> None:
    """An error where declared logits [N, K] are distributions row after row, which logits never are by accident.

    The first rows are looked at; a few rows, or one-hot ones, are given the benefit of the doubt.
    """
    few = values[:64]
    few = few if few.dtype == torch.float64 else few.float()
    if few.shape[0] < 8 or few.shape[1] < 2:
        return
    sums_to_one = (few.sum(1) - 1).abs() <= (SUM_TOLERANCE if values.element_size() < 4 else 1e-4)
    soft = ((few > 0) & (few < 1)).any(1)
    if bool((sums_to_one & soft & (few >= 0).all(1)).all()):
        raise InputError(f"{name}: every row sums to one, so these are probabilities; declare them as such, or pass logits")


def probabilities(values: Any, name: str = "probabilities") -> torch.Tensor:
    """Floating [N, K], nothing negative, every row summing to one."""
    p = matrix(values, name)
    totals = p.sum(1, dtype=torch.float32 if p.dtype != torch.float64 else torch.float64)
    bad = ~((totals - 1).abs() <= SUM_TOLERANCE) | ~(p.amin(1) >= 0)
    if bad.any():
        row = int(bad.nonzero()[0])
        raise InputError(
            f"{name}: row {row} is not a distribution (sum {float(totals[row]):.4g}, least {float(p[row].amin()):.4g}; "
            f"{int(bad.sum())} such rows); expected probabilities, pass logits through their link first"
        )
    return p


def labels(
    values: Any, num_classes: int | None = None, rows: int | None = None, name: str = "labels", least: int = 0
) -> torch.Tensor:
    """Whole numbers [N] as int64, from `least` to num_classes - 1 where `num_classes` is known."""
    y = tensor(values, name)
    if y.ndim != 1:
        hint = "; pass class indices, not one-hot rows" if y.ndim == 2 else ""
        raise InputError(f"{name}: expected shape [N], found {list(y.shape)}{hint}")
    if y.is_floating_point() or y.dtype == torch.bool:
        raise InputError(f"{name}: expected whole-number class indices, found dtype {y.dtype}")
    if rows is not None and len(y) != rows:
        raise InputError(f"{name}: expected {rows} entries, one per example, found {len(y)}")
    y = y.long()
    if len(y):
        low, high = int(y.min()), int(y.max())
        if low < least or (num_classes is not None and high >= num_classes):
            limit = "" if num_classes is None else f"..{num_classes - 1}"
            row = int(((y < least) | (y >= (num_classes or high + 1))).nonzero()[0])
            raise InputError(f"{name}: entry {row} is {int(y[row])}, expected class indices in 0{limit}")
    return y


def predictions(values: Any, rows: int | None = None, name: str = "predictions") -> torch.Tensor:
    """Predicted classes [N] as int64; the same checks as labels."""
    return labels(values, rows=rows, name=name)


def optional_predictions(
    values: Any, num_classes: int | None = None, rows: int | None = None, name: str = "predictions"
) -> torch.Tensor:
    """Predicted classes [N] as int64, `NO_PREDICTION` where there is none; otherwise the same checks as labels.

    >>> answers([2, -1, 0]).tolist()
    [2, -1, 0]
    """
    return labels(values, num_classes, rows, name, least=NO_PREDICTION)
