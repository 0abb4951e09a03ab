"""Out-of-distribution scores and their evaluation against scikit-learn and SciPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from raised import fields
from scipy.spatial.distance import cdist
from scipy.special import logsumexp
from sklearn.covariance import EmpiricalCovariance
from sklearn.metrics import average_precision_score, roc_auc_score

from zoo.calibration.ood import ClassGaussians, detection, energy_score, knn_score
from zoo.errors import InputError


@given(st.integers(2, 60), st.integers(2, 60), st.integers(0, 10**6))
def test_auroc_and_aupr_are_scikit_learns(inside, outside, seed):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 12, inside) + 2.0, rng.integers(0, 12, outside).astype(float)
    found = detection(a, b, resamples=0)
    is_outside, scores = np.repeat([0, 1], [inside, outside]), -np.concatenate([a, b])
    assert found.auroc == pytest.approx(roc_auc_score(is_outside, scores))
    assert found.aupr == pytest.approx(average_precision_score(is_outside, scores))


def test_fpr_at_95():
    inside, outside = np.arange(100.0), np.array([-1.0, 4.0, 5.0, 200.0])
    assert detection(inside, outside, resamples=0).fpr95 == 0.5  # the threshold 5 accepts 95 of 100


def test_intervals_hold_the_value_and_shrink():
    rng = np.random.default_rng(0)
    widths = []
    for count in (100, 2000):
        found = detection(rng.normal(1, 1, count), rng.normal(0, 1, count))
        low, high = found.intervals["auroc"]
        assert low < found.auroc < high
        widths.append(high - low)
    assert widths[1] < widths[0] / 3


def test_energy_is_scipys_logsumexp():
    z = np.random.default_rng(0).normal(size=(20, 7)) * 30
    np.testing.assert_allclose(energy_score(z, 2.0), 2 * logsumexp(z / 2, axis=1))


def test_knn_distance_is_scipys():
    rng = np.random.default_rng(0)
    x, known = rng.normal(size=(30, 5)), rng.normal(size=(80, 5))
    unit = [v / np.linalg.norm(v, axis=1, keepdims=True) for v in (x, known)]
    expected = -np.sort(cdist(*unit), axis=1)[:, 9]
    np.testing.assert_allclose(knn_score(x, known, k=10), expected, atol=1e-6)


def test_mahalanobis_distance_is_scikit_learns():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 3, 300)
    x = rng.normal(size=(300, 4)) @ rng.normal(size=(4, 4)) + 3 * y[:, None]
    centred = x - np.stack([x[y == k].mean(0) for k in range(3)])[y]
    covariance = EmpiricalCovariance(assume_centered=True).fit(centred)
    test = rng.normal(size=(20, 4)) * 5
    expected = np.min([covariance.mahalanobis(test - x[y == k].mean(0)) for k in range(3)], axis=0)
    np.testing.assert_allclose(ClassGaussians.fit(x, y).score(test), -expected, rtol=1e-6)


def test_fewer_examples_than_dimensions():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(6, 20)), np.array([0, 0, 0, 1, 1, 1])
    assert np.isfinite(ClassGaussians.fit(x, y).score(rng.normal(size=(3, 20)))).all()


@pytest.mark.parametrize(
    ("call", "argument"),
    [
        (lambda: detection(np.array([1.0, np.nan]), np.array([1.0])), "inside"),
        (lambda: detection(np.array([1.0]), np.zeros(0)), "outside"),
        (lambda: knn_score(np.zeros((2, 3)), np.zeros((4, 2))), "embeddings"),
        (lambda: knn_score(np.ones((2, 3)), np.ones((4, 3)), k=5), "k"),
    ],
)
def test_bad_input(call, argument):
    with pytest.raises(InputError, check=fields(argument=argument)):
        call()
