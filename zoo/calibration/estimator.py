"""Temperature calibration as a scikit-learn estimator."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from zoo.calibration.temperature import fit_temperature
from zoo.core.links import to_probabilities
from zoo.core.types import Link, TemperatureSpace
from zoo.errors import InputError


class TemperatureCalibrator(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Divide logits by the temperature that minimises the NLL.

    `X` has one column of logits for each class. The estimator can be cloned, tuned, and placed at the end of a pipeline
    whose last transformation gives logits. Checks of `check_estimator` in which `X` does not have one column per class do
    not apply.

    Args:
        link: `softmax` or `sigmoid`, how logits become probabilities.
        classes: [K] class of each column. By default the sorted classes of `y`, which must then be as many as the columns;
            pass them if a class may be absent from `y`.
        temperature_space: what the temperature divides if the link is a sigmoid: `logits` or `distribution`.

    Attributes:
        temperature_: the fitted temperature.
        fit_: the `TemperatureFit`, with metrics before and after.
        classes_: [K] class of each column.

    >>> import numpy as np
    >>> z = np.array([[2.0, 0.0], [0.0, 2.0], [2.0, 0.0], [0.0, 2.0]])
    >>> calibrator = TemperatureCalibrator().fit(z, ["cat", "dog", "cat", "cat"])
    >>> calibrator.predict_proba(z[:1]).round(2), calibrator.predict(z[:1])
    (array([[0.75, 0.25]]), array(['cat'], dtype='<U3'))
    """

    def __init__(self, link: Link = "softmax", classes: Any = None, temperature_space: TemperatureSpace = "logits") -> None:
        self.link = link
        self.classes = classes
        self.temperature_space = temperature_space

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> "TemperatureCalibrator":
        """Fit the temperature to logits `X` [N, K] and true classes `y` [N], with optional weights [N] of the examples."""
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32, np.float16], ensure_all_finite=True)
        check_classification_targets(y)
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, X, ensure_non_negative=True, allow_all_zero_weights=False)
            X, y, weights = X[weights > 0], y[weights > 0], weights[weights > 0]
        self.classes_ = np.unique(y) if self.classes is None else np.asarray(self.classes)
        if len(self.classes_) != X.shape[1]:
            hint = "Pass all classes as {classes=...}" if self.classes is None else None
            found = f"{len(self.classes_)} class" + "es" * (len(self.classes_) != 1)
            raise InputError(argument="classes", expected=f"one for each of {X.shape[1]} columns", found=found, hint=hint)
        column = {label: k for k, label in enumerate(self.classes_.tolist())}
        unknown = next((label for label in y.tolist() if label not in column), None)
        if unknown is not None:
            raise InputError(argument="y", expected="classes that are in `classes`", found=unknown)
        indices = np.array([column[label] for label in y.tolist()])
        self.fit_ = fit_temperature(X, indices, self.link, "X", self.temperature_space, weights)
        self.temperature_ = self.fit_.temperature
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return calibrated probabilities [N, K]."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32, np.float16])
        return np.asarray(to_probabilities(X, self.temperature_, self.link, temperature_space=self.temperature_space))

    def predict(self, X: Any) -> np.ndarray:
        """Return the classes [N] with the highest logits, which do not depend on the temperature."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32, np.float16])
        return self.classes_[X.argmax(1)]
