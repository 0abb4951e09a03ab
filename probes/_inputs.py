"""What estimators take and give: NumPy through scikit-learn's own validation, tensors on their device, with named rows."""

from typing import Any

import numpy as np
import torch
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
from torch import Tensor

from zoo.errors import InputError


def features(estimator: Any, x: Any, fitting: bool = False) -> Tensor:
    """[N, D] as a finite floating tensor where x is; when not fitting, as wide as what the estimator was fitted on.

    A device without float64 and eigenvectors (Apple's) hands its rows to the host.
    """
    if isinstance(x, Tensor):
        x = x.detach().cpu() if x.device.type == "mps" else x.detach()
        if x.ndim != 2 or 0 in x.shape:
            raise InputError(f"x: expected shape [N, D] with at least one row and column, found {list(x.shape)}")
        if x.is_complex():
            raise InputError("x: expected real numbers, found complex data")
        if fitting:
            estimator.n_features_in_ = x.shape[1]
        elif x.shape[1] != estimator.n_features_in_:
            raise InputError(
                f"x: {x.shape[1]} features, but {type(estimator).__name__} was fitted on {estimator.n_features_in_} features"
            )
        values = x if x.dtype in (torch.float32, torch.float64) else x.float()
    else:
        try:
            array = validate_data(estimator, x, reset=fitting, dtype=(np.float64, np.float32), ensure_all_finite=False)
        except ValueError as error:
            raise InputError(str(error)) from error
        values = torch.from_numpy(np.require(array, requirements=["C", "W"]))
    return finite(values)


def finite(x: Tensor, name: str = "x") -> Tensor:
    """x itself, or an error that names the first row that is not finite."""
    bad = ~torch.isfinite(x.sum(1))  # a NaN or infinity anywhere in a row reaches its sum
    if bad.any():
        bad = ~torch.isfinite(x).all(1)  # a sum may also overflow by itself
    if bad.any():
        row = int(bad.nonzero()[0])
        raise InputError(
            f"{name}: row {row} has NaN or infinite values ({int(bad.sum())} such rows); expected finite features"
        )
    return x


def linear_logits(estimator: Any, x: Any) -> Tensor:
    """[N, K] of a fitted estimator with `coef_` and `intercept_`, in the precision of x."""
    check_is_fitted(estimator)
    rows = features(estimator, x)
    coef, intercept = (torch.as_tensor(part).to(rows) for part in (estimator.coef_, estimator.intercept_))
    return rows @ coef.T + intercept


def classes(estimator: Any, y: Any, x: Tensor) -> tuple[np.ndarray, Tensor]:
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


def among(names: np.ndarray, y: Any, x: Tensor) -> Tensor:
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
