"""What estimators take and give: NumPy through scikit-learn's own validation, tensors on their device, with named rows."""

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
from torch import Tensor

from probes._rows import Rows, rows_of
from zoo.core.columns import Column
from zoo.errors import InputError


def features(estimator: Any, x: Any, fitting: bool = False) -> Rows:
    """[N, D], finite, where x is; when not fitting, as wide as what the estimator was fitted on."""
    if isinstance(x, Tensor | Rows | Column):
        if isinstance(x, Tensor) and x.is_complex():
            raise InputError("x: expected real numbers, found complex data")
        rows = rows_of(x)
        if fitting:
            estimator.n_features_in_ = rows.shape[1]
        elif rows.shape[1] != estimator.n_features_in_:
            found = f"{rows.shape[1]} features, but {type(estimator).__name__} was fitted on"
            raise InputError(f"x: {found} {estimator.n_features_in_} features")
    else:
        kinds = (np.float64, np.float32, np.float16)
        try:
            rows = rows_of(validate_data(estimator, x, reset=fitting, dtype=kinds, ensure_all_finite=False))
        except ValueError as error:
            raise InputError(str(error)) from error
    return finite(rows)


def finite(x: Rows, name: str = "x") -> Rows:
    """x itself, or an error that names the first row that is not finite."""
    first, count = 0, 0
    for span, rows in x.blocks():
        bad = ~torch.isfinite(rows.sum(1))  # a NaN or infinity anywhere in a row reaches its sum
        if bad.any():
            bad = ~torch.isfinite(rows).all(1)  # a sum may also overflow by itself
        if bad.any():
            first = first if count else span.start + int(bad.nonzero()[0])
            count += int(bad.sum())
    if count:
        raise InputError(f"{name}: row {first} has NaN or infinite values ({count} such rows); expected finite features")
    return x


def weights(sample_weight: Any, rows: int) -> np.ndarray | None:
    """[N] float64, not negative and not all zero; None where every row counts alike."""
    if sample_weight is None:
        return None
    given = sample_weight.detach().cpu() if isinstance(sample_weight, Tensor) else sample_weight
    found = np.asarray(given, dtype=np.float64)
    if found.ndim == 0:
        found = np.full(rows, found)
    if found.shape != (rows,):
        raise InputError(f"sample_weight: expected {rows} weights, one per row of x, found shape {list(found.shape)}")
    if not np.isfinite(found).all() or (found < 0).any():
        row = int(np.flatnonzero(~(np.isfinite(found) & (found >= 0)))[0])
        raise InputError(f"sample_weight: row {row} has {found[row]}, expected finite numbers of at least 0")
    if not found.any():
        raise InputError("sample_weight: all weights are zero, expected some row to count")
    return found


def logit_blocks(estimator: Any, x: Any) -> Iterator[Tensor]:
    """[n, K] after [n, K] of a fitted estimator with `coef_` and `intercept_`, in the precision of x."""
    check_is_fitted(estimator)
    rows = features(estimator, x)
    coef, intercept = (torch.as_tensor(part).to(rows.device, rows.dtype) for part in (estimator.coef_, estimator.intercept_))
    for _, block in rows.blocks():
        yield block @ coef.T + intercept


def linear_logits(estimator: Any, x: Any) -> Tensor:
    """[N, K] of all rows."""
    return torch.cat(list(logit_blocks(estimator, x)))


def classes(estimator: Any, y: Any, x: Rows) -> tuple[np.ndarray, Tensor]:
    """(the distinct labels sorted, each row's index among them [N] where x is); labels may be of any type that sorts."""
    name = type(estimator).__name__
    if y is None:
        raise InputError(f"{name} requires y to be passed, but the target y is None")
    if isinstance(y, Tensor):
        if y.ndim != 1 or y.is_floating_point():
            raise InputError(f"y: expected whole-number labels of shape [N], found {y.dtype} of shape {list(y.shape)}")
        found, index = torch.unique(y.detach().to(x.device), return_inverse=True)
        found = found.cpu().numpy()
    else:
        try:
            y = column_or_1d(y, warn=True)
            if y.dtype.kind == "f" and not np.isfinite(y).all():
                raise ValueError("Input y contains NaN or infinity; expected class labels")
            check_classification_targets(y)
        except ValueError as error:
            raise InputError(str(error)) from error
        found, index = np.unique(y, return_inverse=True)
        index = torch.from_numpy(index).to(x.device)
    if len(index) != len(x):
        raise InputError(
            f"y: expected {len(x)} labels, one per row of x, found {len(index)}: inconsistent numbers of samples"
        )
    if len(found) < 2:
        raise InputError(f"{name}: expected at least two classes in y, found one class: {found[0].item()!r}")
    return found, index


def among(names: np.ndarray, y: Any, x: Rows) -> Tensor:
    """Each label's index among `names` [N], where x is; a label that is not among them is an error."""
    y = y.detach().cpu().numpy() if isinstance(y, Tensor) else np.asarray(y)
    if y.shape != (len(x),):
        raise InputError(f"y: expected {len(x)} labels, one per row of x, found shape {list(y.shape)}")
    unknown = ~np.isin(y, names)
    if unknown.any():
        row = int(np.flatnonzero(unknown)[0])
        raise InputError(f"y: row {row} has label {y[row].item()!r}, which the training part does not have")
    return torch.from_numpy(np.searchsorted(names, y)).to(x.device)


def handed_back(result: Tensor, like: Any) -> Any:
    """`result` in the caller's kind: a tensor on the device of the tensor `like`, else NumPy."""
    return result.to(like.device) if isinstance(like, Tensor) else result.cpu().numpy()


def named(index: Tensor, names: np.ndarray, like: Any) -> Any:
    """Class indices [N] as labels: a tensor on the same device for a tensor if the labels are numbers, else NumPy."""
    if isinstance(like, Tensor) and names.dtype.kind in "biuf":
        return torch.from_numpy(names).to(like.device)[index.to(like.device)]
    return names[index.cpu().numpy()]


def paired(predicted: Any, y: Any) -> tuple[Tensor, Tensor]:
    """Predicted and true labels, of any type, as whole numbers that are equal where they are."""
    if isinstance(predicted, Tensor) and isinstance(y, Tensor):
        both = torch.cat([predicted, y.detach().to(predicted.device, predicted.dtype)])
        codes = torch.unique(both, return_inverse=True)[1]
    else:
        sides = [side.cpu().numpy() if isinstance(side, Tensor) else np.asarray(side) for side in (predicted, y)]
        codes = torch.from_numpy(np.unique(np.concatenate(sides), return_inverse=True)[1])
    if len(codes) != 2 * len(predicted):
        raise InputError(f"y: expected {len(predicted)} labels, one per row of x, found {len(codes) - len(predicted)}")
    return codes[: len(predicted)], codes[len(predicted) :]
