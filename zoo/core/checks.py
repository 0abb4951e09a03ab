"""Checks of arrays. Each returns the checked values: a NumPy array for arrays and lists, a tensor for a tensor.

`zoo.core.arrays` has functions of the same names that always return tensors. The caller declares what an array holds
(logits, probabilities, predictions). Nothing is guessed from the range of the values; the checks only confirm the
declaration.

In every function, `name` identifies the array in errors: an argument, or a model and the kind of its outputs.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from zoo.core.backend import backend, cast, dtype_name, is_floating, is_tensor
from zoo.errors import InputError

SUM_TOLERANCE = 1e-2  # for the sum of a row of probabilities: in float16, 1,000 classes are off by about 5e-3
NO_PREDICTION = -1  # in place of a predicted class: counts as wrong, and agrees with no other prediction


def array(values: Any, name: str) -> Any:
    """Return `values` as a detached tensor if they are tensors, else as a NumPy array; without a copy if possible."""
    if is_tensor(values):
        return _dense(values, name)
    if isinstance(values, (list, tuple)) and values and all(is_tensor(value) for value in values):
        return _stack([_dense(value, name) for value in values], name)
    if isinstance(values, np.ma.MaskedArray):
        if np.ma.is_masked(values):
            count = int(np.ma.count_masked(values))
            raise InputError(f"{count} entries are masked", argument=name, hint="Fill or drop them first")
        values = values.data
    try:
        found = np.asarray(values)
    except ValueError as error:
        raise _ragged(name) from error
    except (RuntimeError, TypeError) as error:  # tensors that NumPy cannot read, inside nested lists
        raise InputError(f"a {type(values).__name__} is not an array: {error}", argument=name) from error
    if found.dtype.kind not in "biuf":
        raise InputError(argument=name, expected="numbers", found=found.dtype)
    if found.dtype == np.longdouble:
        found = found.astype(np.float64)
    elif found.dtype.kind == "u" and found.dtype.itemsize > 1:
        if found.dtype.itemsize == 8 and found.size and int(found.max()) >= 2**63:
            raise InputError(argument=name, expected="whole numbers below 2^63", found=int(found.max()))
        found = found.astype(np.int64)
    return found if found.dtype.isnative else found.astype(found.dtype.newbyteorder("="))


def _dense(values: Any, name: str) -> Any:
    """Return the detached tensor, after checking that it is dense and holds real numbers."""
    torch = backend(values)
    if values.layout != torch.strided:
        layout = str(values.layout).removeprefix("torch.")
        raise InputError(argument=name, expected="a dense tensor", found=layout, hint="Call .to_dense() first")
    # A subclass of Tensor may report the meta device although it stores values elsewhere.
    if values.is_meta and type(values) in (torch.Tensor, torch.nn.Parameter):
        raise InputError("is on the meta device, so it has no values", argument=name, hint="Load it first")
    if values.is_quantized or values.is_complex():
        raise InputError(argument=name, expected="real numbers", found=values.dtype)
    return values.detach()


def _stack(rows: list[Any], name: str) -> Any:
    if len({tuple(row.shape) for row in rows}) > 1:
        raise _ragged(name)
    if len({(row.device, row.dtype) for row in rows}) > 1:
        raise InputError("tensors differ in device or dtype", argument=name, hint="Convert them to one device and dtype")
    return backend(rows[0]).stack(rows)


def _ragged(name: str) -> InputError:
    return InputError("rows have different lengths", argument=name, expected="a rectangular array")


def matrix(values: Any, name: str) -> Any:
    """Return floating-point numbers [N, K] with N, K >= 1; the values themselves are not checked."""
    x = array(values, name)
    if x.ndim != 2:
        raise InputError(argument=name, expected="of shape [N, K]", found=list(x.shape))
    if not is_floating(x):
        raise InputError(argument=name, expected="floating-point numbers", found=x.dtype)
    if x.shape[0] == 0 or x.shape[1] == 0:
        raise InputError(argument=name, expected="of shape [N, K] with at least one row and one class", found=list(x.shape))
    return x


def logits(values: Any, name: str = "logits") -> Any:
    """Return logits [N, K], after checking that every row has a finite maximum. Minus infinity marks a masked class."""
    z = matrix(values, name)
    check_finite(z, name)
    refuse_probabilities(z, name)
    return z


def check_finite(logits: Any, name: str = "logits", ids: Sequence[Any] | None = None) -> None:
    """Raise an error that names the first row [..., K] with NaN, plus infinity, or no unmasked class.

    Args:
        logits: [..., K].
        name: what the error calls the logits.
        ids: [N] ids of the examples, which the error names instead of row numbers.
    """
    xp = backend(logits)
    bad = ~xp.isfinite(xp.amax(logits, -1))
    if bad.any():
        row = int(xp.where(bad.reshape(-1))[0][0])
        which = f"row {row}" if ids is None else f"example {str(ids[row])!r}"
        problem = f"{which} has NaN, +inf or no finite value ({int(bad.sum())} such rows)"
        raise InputError(problem, argument=name, expected="finite logits")


def refuse_probabilities(values: Any, name: str) -> None:
    """Raise an error if declared logits [N, K] are probabilities: every row sums to one, which logits do not do by chance.

    Only the first rows are checked. Fewer than eight rows, and one-hot rows, are accepted as logits.
    """
    first = values[:64]
    first = first if dtype_name(first) == "float64" else cast(first, "float32")
    if first.shape[0] < 8 or first.shape[1] < 2:
        return
    tolerance = SUM_TOLERANCE if dtype_name(values) in ("float16", "bfloat16") else 1e-4
    sums_to_one = backend(first).abs(first.sum(1) - 1) <= tolerance
    soft = ((first > 0) & (first < 1)).any(1)
    if bool((sums_to_one & soft & (first >= 0).all(1)).all()):
        raise InputError(
            "every row sums to one, so these are probabilities", argument=name, hint="Declare them as such, or pass logits"
        )


def probabilities(values: Any, name: str = "probabilities") -> Any:
    """Return probabilities [N, K], after checking that none is negative and that every row sums to one."""
    p = matrix(values, name)
    xp = backend(p)
    totals = p.sum(1, dtype=xp.float64 if dtype_name(p) == "float64" else xp.float32)
    bad = ~(xp.abs(totals - 1) <= SUM_TOLERANCE) | ~(xp.amin(p, 1) >= 0)
    if bad.any():
        row = int(xp.where(bad)[0][0])
        numbers = f"sum {float(totals[row]):.4g}, minimum {float(p[row].min()):.4g}"
        raise InputError(
            f"row {row} is not a distribution ({numbers}; {int(bad.sum())} such rows)",
            argument=name,
            expected="probabilities",
            hint="Divide percentages by 100"
            if abs(float(totals[row]) - 100) <= 1
            else "Convert logits with zoo.calibration.to_probabilities first",
        )
    return p


def labels(
    values: Any, num_classes: int | None = None, rows: int | None = None, name: str = "labels", least: int = 0
) -> Any:
    """Return class indices [N] as int64, after checking them.

    Args:
        values: [N] whole numbers.
        num_classes: indices must be below it, if it is given.
        rows: the expected N, if it is known.
        name: what errors call the labels.
        least: the lowest valid index.
    """
    y = array(values, name)
    if y.ndim != 1:
        hint = "Pass class indices, not one-hot rows" if y.ndim == 2 else None
        raise InputError(argument=name, expected="of shape [N]", found=list(y.shape), hint=hint)
    if is_floating(y) or dtype_name(y) == "bool":
        raise InputError(argument=name, expected="whole-number class indices", found=y.dtype)
    if rows is not None and len(y) != rows:
        raise InputError(argument=name, expected=f"{rows} class indices, one per example", found=len(y))
    y = cast(y, "int64")
    bad = (y < least) if num_classes is None else (y < least) | (y >= num_classes)
    if bad.any():
        row = int(backend(y).where(bad)[0][0])
        limits = "of at least 0" if num_classes is None else f"from 0 to {num_classes - 1}"
        raise InputError(f"entry {row} is {int(y[row])}", argument=name, expected=f"class indices {limits}")
    return y


def optional_predictions(
    values: Any, num_classes: int | None = None, rows: int | None = None, name: str = "predictions"
) -> Any:
    """Return predicted classes [N] as int64, checked like `labels` except that `NO_PREDICTION` is allowed."""
    return labels(values, num_classes, rows, name, least=NO_PREDICTION)


def whole_number(value: Any, argument: str, minimum: int = 1) -> int:
    """Return `value` as an int, or raise an error unless it is a whole number of at least `minimum`."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < minimum:
        raise InputError(argument=argument, expected=f"a whole number of at least {minimum}", found=value)
    return int(value)
