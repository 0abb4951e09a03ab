"""Temperature calibration in scikit-learn's shape."""

from typing import Any

import numpy as np
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from zoo.calibration.temperature import fit_temperature
from zoo.core import arrays
from zoo.core.links import to_probabilities
from zoo.core.types import Link, TemperatureSpace
from zoo.errors import InputError


class TemperatureCalibrator(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """Divides logits by the temperature that minimises the NLL; one column of `X` for each class.

    In scikit-learn it clones, searches and stands at the end of a pipeline whose last transformation gives logits. It does
    not take any `X`: those of `check_estimator`'s checks fail whose `X` has another number of columns than `y` has classes.

    Parameters
    ----------
    link : "softmax" or "sigmoid", how logits become probabilities.
    temperature_space : "logits" or "distribution", what the temperature divides where the link is a sigmoid.
    classes : the classes the columns stand for, in their order. By default those seen in `y`, sorted, which must then be as
        many as the columns; name them where a class may be absent from `y`.

    Attributes
    ----------
    temperature_ : the fitted temperature.
    fit_ : the `TemperatureFit`, with metrics before and after.
    classes_ : the class of each column.

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
        """Fit the temperature to logits `X` [N, K] and the true classes `y` [N], each counted as its weight [N] says."""
        X, y = validate_data(self, X, y, dtype=[np.float64, np.float32, np.float16], ensure_all_finite=True)
        check_classification_targets(y)
        weights = None
        if sample_weight is not None:
            weights = _check_sample_weight(sample_weight, X, ensure_non_negative=True, allow_all_zero_weights=False)
            X, y, weights = X[weights > 0], y[weights > 0], weights[weights > 0]
        self.classes_ = np.unique(y) if self.classes is None else np.asarray(self.classes)
        if len(self.classes_) != X.shape[1]:
            where = "seen in y; name them all in `classes`" if self.classes is None else "in `classes`"
            raise InputError(f"X has {X.shape[1]} columns of logits for {len(self.classes_)} classes {where}")
        column = {label: k for k, label in enumerate(self.classes_.tolist())}
        unknown = next((label for label in y.tolist() if label not in column), None)
        if unknown is not None:
            raise InputError(f"y has the class {unknown!r}, which is not in `classes`")
        known = np.array([column[label] for label in y.tolist()])
        self.fit_ = fit_temperature(X, known, self.link, "X", self.temperature_space, weights)
        self.temperature_ = self.fit_.temperature
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """[N, K] calibrated probabilities."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32, np.float16])
        return np.asarray(to_probabilities(X, self.temperature_, self.link, temperature_space=self.temperature_space))

    def predict(self, X: Any) -> np.ndarray:
        """[N] the class of the greatest logit, the same at every temperature."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False, dtype=[np.float64, np.float32, np.float16])
        return self.classes_[arrays.tensor(X, "X").argmax(1).numpy()]
