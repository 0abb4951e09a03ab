"""Greedy ensemble selection in scikit-learn's shape: fit a library of estimators, keep and weigh those that help."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, clone
from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from ensembles._scores import ObjectiveName, ScoreFunction
from ensembles._setup import stratified_split
from ensembles.search import greedy
from zoo.core.text import check_unique
from zoo.errors import InputError


class GreedyEnsembleClassifier(ClassifierMixin, _BaseComposition):  # type: ignore[misc]
    """The weighted mean of the classifiers that greedy search picks on examples they were not fitted on (Caruana 2004).

    Parameters
    ----------
    estimators : the library, a list of (name, classifier with `predict_proba`); `set_params(linear__C=2)` and a grid over
        `linear__C` reach inside, and `set_params(linear=other)` puts another in its place.
    steps, replace, objective, bags : of the search, as in `ensembles.greedy`.
    holdout : share of the examples, stratified by class, that the search sees and the classifiers do not.
    refit : whether the classifiers that were picked are then fitted again, on all the examples.
    seed : of the division into the two, and of the bags.

    Attributes
    ----------
    path_ : the search, with its score at every step.
    weights_ : shares by name; only estimators with a share are kept.
    named_estimators_ : those, fitted.
    classes_ : the classes, sorted.

    >>> from sklearn.linear_model import LogisticRegression
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = np.array([[0.0], [0.2], [0.1], [1.0], [1.2], [1.1]]), np.array(list("aaabbb"))
    >>> model = GreedyEnsembleClassifier([("linear", LogisticRegression()), ("bayes", GaussianNB())]).fit(X, y)
    >>> model.predict([[0.1], [1.1]])
    array(['a', 'b'], dtype='<U1')
    """

    def __init__(
        self,
        estimators: Sequence[tuple[str, Any]],
        steps: int = 20,
        replace: bool = True,
        objective: ObjectiveName | ScoreFunction = "accuracy",
        bags: int = 0,
        holdout: float = 0.33,
        refit: bool = True,
        seed: int = 0,
    ) -> None:
        self.estimators = estimators
        self.steps = steps
        self.replace = replace
        self.objective = objective
        self.bags = bags
        self.holdout = holdout
        self.refit = refit
        self.seed = seed

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Its own parameters, and with `deep` the estimators by name and theirs as `NAME__PARAMETER`."""
        params: dict[str, Any] = self._get_params("estimators", deep=deep)
        return params

    def set_params(self, **params: Any) -> "GreedyEnsembleClassifier":
        """Set any of what `get_params` names."""
        self._set_params("estimators", **params)
        return self

    def fit(self, X: Any, y: Any) -> "GreedyEnsembleClassifier":
        """Fit the library on one part of the examples, search on the other, and refit what was picked on all."""
        X, y = validate_data(self, X, y, ensure_min_samples=2)  # one to fit on, one to search on
        check_classification_targets(y)
        check_unique([name for name, _ in self.estimators], "estimators")
        self.classes_, labels = np.unique(y, return_inverse=True)
        if not 0 < self.holdout < 1:
            raise InputError(f"holdout: expected a share between 0 and 1, found {self.holdout}")
        fitted_on, searched_on = stratified_split(labels, self.holdout, self.seed)
        library = {name: clone(one).fit(X[fitted_on], y[fitted_on]) for name, one in self.estimators}
        probabilities = {name: self._probabilities(one, X[searched_on], name) for name, one in library.items()}
        self.path_ = greedy(
            probabilities, labels[searched_on], steps=self.steps, replace=self.replace, objective=self.objective,
            bags=self.bags, seed=self.seed, test_fraction=0,
        )  # fmt: skip
        self.weights_ = dict(self.path_.weights)
        self.named_estimators_ = {name: library[name] for name in self.weights_}
        if self.refit:
            self.named_estimators_ = {name: clone(one).fit(X, y) for name, one in self.named_estimators_.items()}
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """[N, K] the weighted mean of the members' probabilities, columns in the order of `classes_`."""
        check_is_fitted(self)
        X = validate_data(self, X, reset=False)
        parts = [self.weights_[name] * self._probabilities(one, X, name) for name, one in self.named_estimators_.items()]
        return np.sum(parts, axis=0)

    def predict(self, X: Any) -> np.ndarray:
        """[N] the most probable class; of equally probable ones the first."""
        top = self.predict_proba(X).argmax(1)
        return self.classes_[top]

    def _probabilities(self, fitted: Any, X: np.ndarray, name: str) -> np.ndarray:
        """[N, K] of one classifier; a class it has not seen gets none."""
        if not hasattr(fitted, "predict_proba"):
            raise InputError(f"estimators: {name} has no predict_proba, so its predictions cannot be averaged")
        columns = np.searchsorted(self.classes_, fitted.classes_)
        whole = np.zeros((len(X), len(self.classes_)))
        whole[:, columns] = fitted.predict_proba(X)
        return whole
