"""Greedy ensemble selection as a scikit-learn classifier."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin, clone
from sklearn.utils.metaestimators import _BaseComposition
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted, validate_data

from ensembles.scores import ObjectiveName, ScoreFunction
from ensembles.search import greedy
from ensembles.selection_split import stratified_split
from zoo.core.text import check_unique
from zoo.errors import InputError


class GreedyEnsembleClassifier(ClassifierMixin, _BaseComposition):  # type: ignore[misc]
    """Weighted mean of the classifiers that greedy search selects on held-out examples (Caruana et al. 2004).

    Parameters
    ----------
    estimators : list of (name, classifier with `predict_proba`). Their parameters are available as `NAME__PARAMETER`, for
        example in a grid search, and `set_params(NAME=other)` replaces a classifier.
    steps : how many classifiers the search adds to the best one.
    replace : whether a classifier may be added more than once, which raises its weight.
    objective : accuracy, balanced-accuracy, nll, brier, or a function (probabilities [N, K], labels [N]) -> number.
    bags : how many searches on samples of the classifiers to average; 0: one search on all of them.
    holdout : fraction of the examples, stratified by class, on which the search runs and the classifiers are not fitted.
    refit : whether to fit the selected classifiers again, on all examples.
    seed : random seed of the holdout split and of the bags.

    Attributes
    ----------
    path_ : the search, a `Path`.
    weights_ : weights by name; only the selected classifiers have one.
    named_estimators_ : the selected classifiers by name, fitted.
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
        """Return the parameters by name; with `deep` also the classifiers and their parameters (`NAME__PARAMETER`)."""
        params: dict[str, Any] = self._get_params("estimators", deep=deep)
        return params

    def set_params(self, **params: Any) -> "GreedyEnsembleClassifier":
        """Set parameters that `get_params` names, and return self."""
        self._set_params("estimators", **params)
        return self

    def fit(self, X: Any, y: Any) -> "GreedyEnsembleClassifier":
        """Fit the classifiers on one part of the examples, search on the other, and refit the selected ones on all."""
        _refuse_masked(X=X, y=y)
        X, y = validate_data(self, X, y, ensure_min_samples=2)  # one to fit on, one to search on
        check_classification_targets(y)
        check_unique([name for name, _ in self.estimators], "estimators")
        self.classes_, labels = np.unique(y, return_inverse=True)
        if not 0 < self.holdout < 1:
            raise InputError(argument="holdout", expected="a fraction between 0 and 1", found=self.holdout)
        fitted_on, searched_on = stratified_split(labels, self.holdout, self.seed)
        fitted = {name: clone(one).fit(X[fitted_on], y[fitted_on]) for name, one in self.estimators}
        probabilities = {name: self._probabilities(one, X[searched_on], name) for name, one in fitted.items()}
        self.path_ = greedy(
            probabilities, labels[searched_on], steps=self.steps, replace=self.replace, objective=self.objective,
            bags=self.bags, seed=self.seed, test_fraction=0,
        )  # fmt: skip
        self.weights_ = dict(self.path_.weights)
        self.named_estimators_ = {name: fitted[name] for name in self.weights_}
        if self.refit:
            self.named_estimators_ = {name: clone(one).fit(X, y) for name, one in self.named_estimators_.items()}
        return self

    def predict_proba(self, X: Any) -> np.ndarray:
        """Return the weighted mean of the members' probabilities [N, K], with columns in the order of `classes_`."""
        check_is_fitted(self)
        _refuse_masked(X=X)
        X = validate_data(self, X, reset=False)
        parts = [self.weights_[name] * self._probabilities(one, X, name) for name, one in self.named_estimators_.items()]
        return np.sum(parts, axis=0)

    def predict(self, X: Any) -> np.ndarray:
        """Return the most probable class [N]; ties go to the first class."""
        top = self.predict_proba(X).argmax(1)
        return self.classes_[top]

    def _probabilities(self, fitted: Any, X: np.ndarray, name: str) -> np.ndarray:
        """Return one classifier's probabilities [N, K]; 0 for classes it has not seen."""
        if not hasattr(fitted, "predict_proba"):
            raise InputError(where=name, argument="estimators", expected="classifiers with predict_proba", found=fitted)
        columns = np.searchsorted(self.classes_, fitted.classes_)
        probabilities = np.zeros((len(X), len(self.classes_)))
        probabilities[:, columns] = fitted.predict_proba(X)
        return probabilities


def _refuse_masked(**values: Any) -> None:
    """Raise an error for masked entries, whose mask scikit-learn would drop."""
    for argument, value in values.items():
        if np.ma.is_masked(value):
            problem = f"{np.ma.count_masked(value)} entries are masked"
            raise InputError(problem, argument=argument, hint="Fill them or leave their rows out")
