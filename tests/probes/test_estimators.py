"""The contract of the probes as scikit-learn estimators."""

import numpy as np
import pytest
from estimator_contract import check_input_errors, scikit_learn_checks
from sklearn.base import BaseEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from probes import KNNProbe, LinearProbe, MultilabelProbe


class BinarisedMultilabelProbe(MultilabelProbe):
    """The probe on targets derived from those of scikit-learn's checks: above the median or not."""

    def fit(self, X, y, sample_weight=None):
        return super().fit(X, self._above_median(y), sample_weight)

    def score(self, X, y):
        return super().score(X, self._above_median(y))

    def _above_median(self, y):
        if y is None:
            return None
        y = np.real(np.asarray(y))
        y = y.reshape(len(y), -1)
        if len(y) > 1 and np.ptp(y) == 0:
            y = np.arange(len(y))[:, None] % 2
        above = y > np.median(y, 0)
        return (above if above.any() else y == np.median(y, 0)).astype(int)


# Copies of a row may be on both sides of the random validation split; a row of weight 2 is on one side.
# `test_linear` and `test_multilabel` compare weights and copies without a split.
RANDOM_SPLIT = {"check_sample_weight_equivalence_on_dense_data": "copies of a row may be split, a row of weight 2 is not"}


@scikit_learn_checks(LinearProbe(), BinarisedMultilabelProbe(), known_failures=RANDOM_SPLIT)
def test_regularised_probes_pass_scikit_learns_checks(estimator, check) -> None:
    check(estimator)


@scikit_learn_checks(KNNProbe())
def test_knn_probe_passes_scikit_learns_checks(estimator, check) -> None:
    check(estimator)


X = np.random.default_rng(0).normal(size=(60, 4))


@pytest.mark.parametrize(
    ("estimator", "y"),
    [
        (LinearProbe(strengths=[1.0, 0.1]), np.arange(60) % 3),
        (KNNProbe(), np.arange(60) % 3),
        (MultilabelProbe(strengths=[1.0, 0.1]), (X[:, :2] > 0).astype(int)),
    ],
    ids=["linear", "knn", "multilabel"],
)
def test_bad_input_is_an_error_that_names_the_argument(estimator: BaseEstimator, y: np.ndarray) -> None:
    check_input_errors(estimator, X, y)


def test_multilabel_probe_works_in_a_pipeline_and_a_search() -> None:
    x = np.random.default_rng(0).normal(size=(120, 4))
    y = (x[:, :2] > 0).astype(int)
    model = make_pipeline(StandardScaler(), MultilabelProbe(strengths=[1e4], validation=0))
    search = GridSearchCV(model, {"multilabelprobe__strengths": [[1e-3], [1e5]]}, cv=3).fit(x, y)
    assert search.best_score_ > 0.95
