"""The contract of every estimator: scikit-learn's own checks, and what our estimators promise beyond them.

@scikit_learn_checks(LinearProbe(), KNNProbe())
def test_scikit_learn_contract(estimator, check):
    check(estimator)

@pytest.mark.parametrize("estimator", [LinearProbe(), KNNProbe()])
def test_input_contract(estimator):
    check_input_errors(estimator, X, y)
"""

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from raised import fields
from sklearn.base import BaseEstimator, clone
from sklearn.utils.estimator_checks import parametrize_with_checks

from zoo.errors import InputError


def scikit_learn_checks(*estimators: BaseEstimator, known_failures: Mapping[str, str] | None = None) -> Any:
    """Parametrise a test by (estimator, check), with every check of scikit-learn's `check_estimator`.

    Args:
        estimators: the estimators to check, unfitted.
        known_failures: reasons by the name of the check. These checks must fail for every estimator that has them.
    """
    return parametrize_with_checks(
        list(estimators), expected_failed_checks=lambda _: dict(known_failures or {}), xfail_strict=True
    )


def check_input_errors(estimator: BaseEstimator, X: np.ndarray, y: np.ndarray) -> None:
    """Check that masked entries, missing labels and mismatched lengths are errors that name the argument.

    Args:
        estimator: unfitted.
        X: [N, D] floats that the estimator can be fitted on.
        y: [N] or [N, K] numeric labels, or targets, of X.
    """
    clone(estimator).fit(X, y)
    no_label = y.astype(float)
    no_label[0] = np.nan
    bad = {
        "X": [(masked(X), y), (with_nan(X), y)],
        "y": [(X, masked(y)), (X, no_label), (X, y[:-1])],
    }
    for argument, pairs in bad.items():
        for features, labels in pairs:
            with pytest.raises(InputError, check=fields(argument=argument)):
                clone(estimator).fit(features, labels)
    fitted = clone(estimator).fit(X, y)
    for features in (masked(X), with_nan(X)):
        with pytest.raises(InputError, check=fields(argument="X")):
            fitted.predict(features)
    for labels in (masked(y), no_label):
        with pytest.raises(InputError, check=fields(argument="y")):
            fitted.score(X, labels)


def masked(values: np.ndarray) -> np.ma.MaskedArray:
    """Return the array with its first row masked."""
    mask = np.zeros(values.shape, bool)
    mask[0] = True
    return np.ma.masked_array(values, mask)


def with_nan(values: np.ndarray) -> np.ndarray:
    """Return a copy with NaN in the first row."""
    copy = values.astype(float)
    copy[0] = np.nan
    return copy
