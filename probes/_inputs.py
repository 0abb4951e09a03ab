"""Inputs and results of the estimators: NumPy arrays checked by scikit-learn, tensors kept on their device.

Errors name the argument and the row at fault. Masked entries and missing labels are refused, never ignored.
"""

from collections.abc import Iterator

import numpy as np
import pandas as pd
import torch
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, column_or_1d, validate_data
from torch import Tensor

from probes._rows import Features, Rows, Values, rows_of
from probes.metrics import metric
from zoo.core import arrays
from zoo.core.arrays import Array
from zoo.core.columns import Column
from zoo.errors import InputError


class ProbeClassifier(ClassifierMixin):  # type: ignore[misc]
    """Classifier whose `score` is the metric that its parameter `metric` names."""

    metric: str

    def score(self, X: Features, y: Values, sample_weight: Values | None = None) -> float:
        """Return the accuracy or mean per-class accuracy, according to `metric`.

        Args:
            X: [N, D] features.
            y: [N] labels. A label that did not occur in training counts as misclassified.
            sample_weight: [N] weights of the rows; default: all equal.
        """
        predicted, labels = common_codes(self.predict(X), y)
        return metric(self.metric)(predicted, labels, sample_weights(sample_weight, len(labels)))


def features(estimator: BaseEstimator, X: Features, fitting: bool = False) -> Rows:
    """Return features [N, D] as rows, all of them finite.

    Args:
        estimator: when fitting, it learns the number of features; otherwise X must have that number.
        X: [N, D].
        fitting: whether the estimator is being fitted.
    """
    if isinstance(X, Tensor | Rows | Column):
        rows = rows_of(X)
        if fitting:
            estimator.n_features_in_ = rows.shape[1]
        elif rows.shape[1] != estimator.n_features_in_:
            expected = f"{estimator.n_features_in_} features wide, as {type(estimator).__name__} was fitted"
            raise InputError(argument="X", expected=expected, found=rows.shape[1])
    else:
        dtypes = (np.float64, np.float32, np.float16)
        refuse_masked(X, "X")
        try:
            checked = validate_data(estimator, X, reset=fitting, dtype=dtypes, ensure_all_finite=False)
        except ValueError as error:
            raise InputError(str(error)) from error
        rows = rows_of(checked)
    return finite(rows)


def finite(rows: Rows, argument: str = "X") -> Rows:
    """Return the rows unchanged, or raise an error that names the first row with NaN or infinite values."""
    first, count = 0, 0
    for span, block in rows.blocks():
        bad = ~torch.isfinite(block.sum(1))  # a NaN or infinity anywhere in a row reaches its sum
        if bad.any():
            bad = ~torch.isfinite(block).all(1)  # a sum of finite numbers may overflow
        if bad.any():
            first = first if count else span.start + int(bad.nonzero()[0])
            count += int(bad.sum())
    if count:
        raise InputError(f"row {first} has NaN or infinite values ({count} such rows)", argument=argument)
    return rows


def refuse_masked(values: object, argument: str) -> None:
    """Raise an error for a masked array with masked entries, whose mask NumPy and scikit-learn would drop."""
    if np.ma.is_masked(values):
        count = int(np.ma.count_masked(values))
        raise InputError(f"{count} entries are masked", argument=argument, hint="Fill them or leave their rows out")


def label_array(values: Values, argument: str = "y") -> np.ndarray:
    """Return labels of any type as a NumPy array; masked, missing (NaN, None) and infinite labels are an error."""
    refuse_masked(values, argument)
    try:
        labels = values.detach().cpu().numpy() if isinstance(values, Tensor) else np.asarray(values)
    except ValueError as error:
        raise InputError("the entries differ in length", argument=argument) from error
    bad = np.atleast_1d(pd.isna(labels) if labels.dtype.kind != "f" else ~np.isfinite(labels))
    if bad.any():
        row, label = int(np.argwhere(bad)[0, 0]), labels[bad.reshape(labels.shape)][0]
        raise InputError(f"row {row} has the label {label} ({int(bad.sum())} such labels)", argument=argument)
    return labels


def sample_weights(values: Values | None, rows: int) -> np.ndarray | None:
    """Return sample weights [N] in float64, not negative and not all zero; None if all rows have the same weight."""
    if values is None:
        return None
    weights = arrays.to_numpy(arrays.tensor(values, "sample_weight").double())
    if weights.ndim == 0:
        weights = np.full(rows, weights)
    if weights.shape != (rows,):
        expected = f"of shape [{rows}], one weight per row of X"
        raise InputError(argument="sample_weight", expected=expected, found=list(weights.shape))
    bad = ~(np.isfinite(weights) & (weights >= 0))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise InputError(f"row {row} has {weights[row]}, not a finite number of at least 0", argument="sample_weight")
    if not weights.any():
        raise InputError("all weights are zero", argument="sample_weight")
    return weights


def logit_blocks(estimator: BaseEstimator, X: Features) -> Iterator[Tensor]:
    """Yield the logits [n, K] of a fitted estimator with `coef_` and `intercept_`, block by block, in the precision of X."""
    check_is_fitted(estimator)
    rows = features(estimator, X)
    coef, intercept = (torch.as_tensor(part).to(rows.device, rows.dtype) for part in (estimator.coef_, estimator.intercept_))
    for _, block in rows.blocks():
        yield block @ coef.T + intercept


def linear_logits(estimator: BaseEstimator, X: Features) -> Tensor:
    """Return the logits [N, K] of all rows."""
    return torch.cat(list(logit_blocks(estimator, X)))


def encode(estimator: BaseEstimator, y: Values, rows: Rows) -> tuple[np.ndarray, Tensor]:
    """Return (the distinct labels, sorted; each row's index among them [N], on the device of the rows).

    Labels may be of any type that sorts.
    """
    name = type(estimator).__name__
    if y is None:
        raise InputError(f"{name} requires y to be passed, but the target y is None", argument="y")
    if isinstance(y, Tensor):
        if y.ndim != 1 or y.is_floating_point():
            found = list(y.shape) if y.ndim != 1 else y.dtype
            raise InputError(argument="y", expected="whole-number labels of shape [N]", found=found)
        unique, codes = torch.unique(y.detach().to(rows.device), return_inverse=True)
        classes = unique.cpu().numpy()
    else:
        labels = label_array(y)
        try:
            labels = column_or_1d(labels, warn=True)
            check_classification_targets(labels)
            classes, index = np.unique(labels, return_inverse=True)
        except (TypeError, ValueError) as error:  # labels of several types do not sort
            raise InputError(str(error), argument="y") from error
        codes = torch.from_numpy(index).to(rows.device)
    if len(codes) != len(rows):
        raise InputError(argument="y", expected=f"{len(rows)} labels, one per row of X", found=len(codes))
    if len(classes) < 2:
        raise InputError(f"has one class, {classes[0].item()!r}, and a probe needs at least two", argument="y")
    return classes, codes


def encode_known(classes: np.ndarray, y: Values, rows: Rows) -> Tensor:
    """Return each label's index among the classes [N], on the device of the rows; any other label is an error."""
    labels = label_array(y, "validation")
    if labels.shape != (len(rows),):
        expected = f"a pair with labels of shape [{len(rows)}], one per row"
        raise InputError(argument="validation", expected=expected, found=list(labels.shape))
    unknown = ~np.isin(labels, classes)
    if unknown.any():
        row = int(np.flatnonzero(unknown)[0])
        problem = f"row {row} has label {labels[row].item()!r}, which no training row has"
        raise InputError(problem, argument="validation")
    return torch.from_numpy(np.searchsorted(classes, labels)).to(rows.device)


def decode(codes: Tensor, classes: np.ndarray, like: Features) -> Array:
    """Return the labels [N] of class indices: a tensor if `like` is one and the labels are numbers, else NumPy."""
    if isinstance(like, Tensor) and classes.dtype.kind in "biuf":
        return torch.from_numpy(classes).to(like.device)[codes.to(like.device)]
    labels: np.ndarray = classes[codes.cpu().numpy()]
    return labels


def common_codes(predicted: Array, y: Values) -> tuple[Tensor, Tensor]:
    """Return predicted and true labels, of any type, as whole numbers that are equal where the labels are."""
    if isinstance(predicted, Tensor) and isinstance(y, Tensor):
        joined = torch.cat([predicted, y.detach().to(predicted.device, predicted.dtype)])
        codes = torch.unique(joined, return_inverse=True)[1]
    else:
        both = np.concatenate([label_array(predicted), label_array(y)])
        codes = torch.from_numpy(np.unique(both, return_inverse=True)[1])
    count = len(predicted)
    if len(codes) != 2 * count:
        raise InputError(argument="y", expected=f"{count} labels, one per row of X", found=len(codes) - count)
    return codes[:count], codes[count:]


def like_input(result: Tensor, like: Features) -> Array:
    """Return the result as a tensor on the device of `like` if that is a tensor, else as a NumPy array."""
    return result.to(like.device) if isinstance(like, Tensor) else result.cpu().numpy()


def check_positive(value: object, argument: str) -> None:
    """Raise an error unless a parameter is a number above 0."""
    if not _is_number(value) or not value > 0:  # type: ignore[operator]
        raise InputError(argument=argument, expected="a number above 0", found=value)


def is_fraction(value: object) -> bool:
    """Return whether a parameter is a number strictly between 0 and 1."""
    return _is_number(value) and 0 < value < 1  # type: ignore[operator]


def _is_number(value: object) -> bool:
    return isinstance(value, int | float | np.number) and not isinstance(value, bool)
