"""Greedy ensemble selection as a scikit-learn classifier."""

import numpy as np
import pytest
from estimator_contract import masked, scikit_learn_checks
from numpy.testing import assert_allclose, assert_array_equal
from raised import fields
from sklearn.base import clone
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier

import ensembles
from zoo.errors import InputError

LIBRARY = [
    ("linear", make_pipeline(StandardScaler(), LogisticRegression(max_iter=200))),
    ("bayes", GaussianNB()),
    ("near", KNeighborsClassifier(3)),
    ("tree", DecisionTreeClassifier(max_depth=6, random_state=0)),
]


@scikit_learn_checks(ensembles.GreedyEnsembleClassifier(LIBRARY[1:], steps=3))
def test_scikit_learn_contract(estimator, check):
    check(estimator)


@pytest.fixture(scope="module")
def digits():
    X, y = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(X))
    return X[order[:900]], y[order[:900]], X[order[900:]], y[order[900:]]


def test_predicts_the_weighted_mean_and_is_as_accurate_as_its_best_member(digits):
    X, y, X_test, y_test = digits
    model = ensembles.GreedyEnsembleClassifier(LIBRARY).fit(X, y)
    parts = [one.predict_proba(X_test) * model.weights_[name] for name, one in model.named_estimators_.items()]
    assert_allclose(model.predict_proba(X_test), np.sum(parts, 0))
    assert_allclose(sum(model.weights_.values()), 1)
    alone = [one.fit(X, y).score(X_test, y_test) for _, one in LIBRARY]
    assert model.score(X_test, y_test) >= max(alone) - 0.01


def test_the_search_runs_on_held_out_examples(digits):
    X, y, *_ = digits
    model = ensembles.GreedyEnsembleClassifier(LIBRARY, holdout=0.4, seed=2, refit=False).fit(X, y)
    fitted_on, searched_on = ensembles.stratified_split(y, 0.4, 2)
    first = model.path_.members[0]
    again = dict(LIBRARY)[first].fit(X[fitted_on], y[fitted_on])
    assert_allclose(model.path_.score[0], again.score(X[searched_on], y[searched_on]))
    assert_array_equal(model.named_estimators_[first].predict(X[:50]), again.predict(X[:50]))


def test_class_names_and_a_class_that_one_part_lacks():
    rng = np.random.default_rng(0)
    y = np.array(["cat"] * 20 + ["dog"] * 20 + ["eel"])
    X = rng.normal(size=(41, 2)) + (y == "dog")[:, None] * 3
    model = ensembles.GreedyEnsembleClassifier(LIBRARY[1:], refit=False).fit(X, y)
    assert model.predict_proba(X).shape == (41, 3)
    assert set(model.predict(X)) <= {"cat", "dog", "eel"}


def test_nested_parameters(digits):
    X, y, *_ = digits
    model = ensembles.GreedyEnsembleClassifier([("lr", LogisticRegression(max_iter=500)), ("tree", LIBRARY[3][1])], steps=2)
    assert model.get_params()["lr__C"] == 1.0
    assert "lr__C" not in model.get_params(deep=False)
    search = GridSearchCV(model, {"lr__C": [1e-6, 1.0], "steps": [1, 2]}, cv=2).fit(X[:300] / 16, y[:300])
    assert search.best_params_["lr__C"] == 1.0
    other = clone(model).set_params(lr__C=3, tree=GaussianNB(), steps=4)
    assert (dict(other.estimators)["lr"].C, type(dict(other.estimators)["tree"]), other.steps) == (3, GaussianNB, 4)
    assert dict(model.estimators)["lr"].C == 1.0
    with pytest.raises(ValueError, match="Invalid parameter 'svm'"):
        model.set_params(svm__C=1)


def test_bad_parameters_and_masked_entries(digits):
    X, y, *_ = digits
    with pytest.raises(InputError, check=fields(argument="estimators", where="svm", expected="predict_proba")):
        ensembles.GreedyEnsembleClassifier([("svm", LinearSVC(max_iter=50, tol=1))]).fit(X[:99], y[:99])
    with pytest.raises(InputError, match="'a'"):
        ensembles.GreedyEnsembleClassifier([("a", GaussianNB()), ("a", GaussianNB())]).fit(X, y)
    with pytest.raises(InputError, check=fields(argument="holdout", found=1.0)):
        ensembles.GreedyEnsembleClassifier(LIBRARY, holdout=1.0).fit(X, y)
    model = ensembles.GreedyEnsembleClassifier(LIBRARY[1:2])
    for argument, data in {"X": (masked(X), y), "y": (X, masked(y))}.items():
        with pytest.raises(InputError, check=fields(argument=argument)):
            model.fit(*data)
    with pytest.raises(InputError, check=fields(argument="X")):
        model.fit(X, y).predict(masked(X))
