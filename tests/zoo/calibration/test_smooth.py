"""The smooth calibration error against the integral written out, on calibrated and on miscalibrated models."""

import numpy as np
import pytest
from raised import fields
from scipy.stats import norm

from zoo.calibration.smooth import smooth_calibration_error
from zoo.errors import InputError


def naive_error(confidence, correct, bandwidth, points=1000):
    """The integral over t of |mean residual x reflected Gaussian kernel at t|."""
    t = (np.arange(points) + 0.5) / points
    residual, smoothed = correct - confidence, np.zeros(points)
    for shift in range(-1, 2):
        for image in (confidence + 2 * shift, -confidence + 2 * shift):
            smoothed += (residual[:, None] * norm.pdf(t, image[:, None], bandwidth)).mean(0)
    return np.abs(smoothed).mean()


def naive_fixed_point(confidence, correct):
    low, high = 1e-3, 1.0
    for _ in range(12):
        middle = (low + high) / 2
        low, high = (middle, high) if naive_error(confidence, correct, middle) > middle else (low, middle)
    return (low + high) / 2


@pytest.mark.parametrize("power", [1.0, 1.7, 4.0])
def test_it_is_the_fixed_point_of_the_naive_integral(power):
    rng = np.random.default_rng(0)
    confidence = rng.random(200)
    correct = rng.random(200) < confidence**power
    expected = naive_fixed_point(confidence, correct)
    assert smooth_calibration_error(confidence, correct)[0] == pytest.approx(expected, abs=1e-3)


def test_confidence_exactly_one():
    rng = np.random.default_rng(1)
    confidence = np.where(rng.random(500) < 0.5, 1.0, rng.random(500))
    correct = rng.random(500) < 0.9 * confidence
    expected = naive_fixed_point(confidence, correct)
    assert smooth_calibration_error(confidence, correct)[0] == pytest.approx(expected, abs=2e-3)
    assert smooth_calibration_error(np.ones(100), np.ones(100, bool))[0] == 0


def test_a_calibrated_model_has_a_small_error_that_falls_with_examples():
    rng = np.random.default_rng(2)
    errors = []
    for examples in (500, 50_000):
        confidence = rng.random(examples)
        errors.append(smooth_calibration_error(confidence, rng.random(examples) < confidence)[0])
    assert errors[1] < errors[0] < 0.06


def test_a_constant_bias_is_found():
    rng = np.random.default_rng(3)
    confidence = np.full(20_000, 0.8)
    error, interval = smooth_calibration_error(confidence, rng.random(20_000) < 0.6, resamples=50)
    assert error == pytest.approx(0.2, abs=0.01)
    assert interval[0] < error < interval[1]


@pytest.mark.parametrize("confidence", [[0.5, 1.2], [0.5, np.nan], [0.5]])
def test_bad_input(confidence):
    with pytest.raises(InputError, check=fields(argument="confidence")):
        smooth_calibration_error(np.array(confidence), np.array([True, False]))


def test_the_interval_holds_the_error_of_a_calibrated_model():
    rng = np.random.default_rng(4)
    for _ in range(20):
        confidence = rng.random(1000)
        error, (low, high) = smooth_calibration_error(confidence, rng.random(1000) < confidence, resamples=100)
        assert 0 <= low < error < high
