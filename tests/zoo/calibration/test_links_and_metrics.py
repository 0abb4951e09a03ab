"""Links and metrics: against scikit-learn, SciPy and a loop over bins."""

import math

import numpy as np
import pytest
import torch
from accelerator import Accelerator, download, upload
from hypothesis import given, settings
from hypothesis import strategies as st
from raised import fields
from scipy.special import expit, softmax
from sklearn.metrics import brier_score_loss, log_loss

from zoo.calibration import (
    brier_score,
    expected_calibration_error,
    negative_log_likelihood,
    reliability,
    to_probabilities,
)
from zoo.errors import InputError


def naive_error(p, y, bins):
    """One bin after the other, (low, high], with the first one closed on both sides."""
    confidence, right = p.max(1), p.argmax(1) == y
    error = 0.0
    for i in range(bins):
        low, high = i / bins, (i + 1) / bins
        inside = (confidence > low) & (confidence <= high) | ((i == 0) & (confidence == 0))
        if inside.any():
            error += inside.mean() * abs(confidence[inside].mean() - right[inside].mean())
    return error


def drawn(seed, rows, classes, concentration=0.3):
    rng = np.random.default_rng(seed)
    return rng.dirichlet(np.full(classes, concentration), rows), rng.integers(0, classes, rows)


@settings(max_examples=80, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 60), st.integers(2, 12), st.integers(1, 30), st.floats(0.05, 3))
def test_against_loops_and_scikit_learn(seed, rows, classes, bins, concentration):
    p, y = drawn(seed, rows, classes, concentration)
    assert expected_calibration_error(p, y, bins) == pytest.approx(naive_error(p, y, bins), abs=1e-12)
    assert negative_log_likelihood(np.maximum(p, 1e-15), y) == pytest.approx(
        log_loss(y, np.maximum(p, 1e-15), labels=range(classes)), rel=1e-9
    )
    assert brier_score(p, y) == pytest.approx(
        brier_score_loss(y, p, labels=range(classes), scale_by_half=False), rel=1e-9, abs=1e-12
    )


def test_certainty_falls_in_the_last_bin_and_empty_bins_count_nothing():
    p = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0], [0.5, 0.5]])
    frame = reliability(p, [0, 1, 1, 0])
    assert frame["count"].tolist() == [0] * 7 + [1] + [0] * 6 + [3]
    assert frame["accuracy"].iloc[-1] == pytest.approx(2 / 3)
    assert frame["confidence"].isna().sum() == 13
    assert expected_calibration_error(p, [0, 1, 1, 0]) == pytest.approx((3 * (1 - 2 / 3) + 0.5) / 4)


@pytest.mark.parametrize("edge", range(1, 15))
def test_a_confidence_on_an_edge_belongs_below_it(edge):
    rest = 40  # of the mass, spread thin so that the edge is the maximum
    p = np.full((1, rest + 1), (1 - edge / 15) / rest)
    p[0, 0] = edge / 15
    assert reliability(p, [0])["count"].to_numpy().nonzero()[0].tolist() == [edge - 1]


def test_a_perfectly_calibrated_model_has_no_error():
    p = np.tile([0.75, 0.25], (400, 1))
    y = np.array([0, 0, 0, 1] * 100)
    assert expected_calibration_error(p, y) == pytest.approx(0, abs=1e-12)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_a_label_with_probability_zero_counts_as_the_least_of_float32(dtype):
    least = -math.log(np.finfo(np.float32).tiny)
    assert negative_log_likelihood(np.array([[1.0, 0.0]], dtype), [1]) == pytest.approx(least)
    assert negative_log_likelihood(np.array([[1.0, 0.0], [0.5, 0.5]], dtype), [1, 0]) == pytest.approx(
        (least + math.log(2)) / 2
    )


@pytest.mark.parametrize("link", ["softmax", "sigmoid"])
@pytest.mark.parametrize("row", [[0.0, math.nan], [math.inf, 0.0], [-math.inf, -math.inf]])
def test_rows_that_are_not_finite_become_no_probabilities(link, row):
    with pytest.raises(InputError, check=fields(argument="logits", problem="row 1")):
        to_probabilities(np.array([[1.0, 2.0], row]), link=link)


def test_one_class():
    p = np.ones((3, 1))
    assert (
        negative_log_likelihood(p, [0, 0, 0]) == brier_score(p, [0, 0, 0]) == expected_calibration_error(p, [0, 0, 0]) == 0
    )


@pytest.mark.parametrize("temperature", [0.01, 0.5, 1.0, 30.0])
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_links(temperature, dtype):
    z = np.random.default_rng(0).normal(0, 3, (20, 6)).astype(dtype)
    wide = z.astype(np.float64) / temperature
    expected = {"softmax": softmax(wide, 1)}
    if temperature >= 0.5:  # below, SciPy's sigmoids underflow and have no ratio left
        expected["sigmoid"] = expit(wide) / expit(wide).sum(1, keepdims=True)
    for link, p in expected.items():
        found = to_probabilities(z, temperature, link)
        assert found.dtype == (np.float64 if dtype == np.float64 else np.float32)
        np.testing.assert_allclose(found, p, rtol=1e-10 if dtype == np.float64 else 2e-4, atol=1e-7)


@pytest.mark.parametrize("link", ["softmax", "sigmoid"])
def test_extreme_and_masked_logits(link):
    p = to_probabilities(torch.tensor([[800.0, -800.0, -torch.inf], [-800.0, -801.0, -800.0]]), 1.0, link)
    assert p[0].tolist() == [1, 0, 0]
    torch.testing.assert_close(p[1, 0] / p[1, 1], torch.tensor(math.e), rtol=1e-4, atol=0)
    assert p.isfinite().all()


@pytest.mark.parametrize("link", ["softmax", "sigmoid"])
@pytest.mark.parametrize("temperature", [1e-308, 1e-30, 1.0, 1e30, 1e308])
@pytest.mark.parametrize("scale", [1e-30, 1.0, 1e30, 3e38])
def test_extreme_scales_and_temperatures_give_probabilities(link, temperature, scale):
    z = np.array([[1.0, -1.0, 0.5], [-0.5, -1.0, -np.inf], [0.0, 0.0, 0.0]])
    for dtype in (np.float32, np.float64):
        for logits in ((z * scale).astype(dtype), torch.from_numpy((z * scale).astype(dtype))):
            p = np.asarray(to_probabilities(logits, temperature, link))
            assert np.isfinite(p).all()
            assert p.sum(1) == pytest.approx(1)
            assert (p[:, 0] >= p[:, 1]).all()
            assert p[1, 2] == 0
            assert p[2] == pytest.approx(1 / 3)


@pytest.mark.parametrize("temperature", [0, -1.0, math.nan, math.inf, "1", None])
def test_temperature_must_be_positive(temperature):
    with pytest.raises(InputError, check=fields(argument="temperature")):
        to_probabilities(torch.zeros(2, 2), temperature)


def test_faults():
    with pytest.raises(InputError, check=fields(problem="row 1")):
        expected_calibration_error(np.array([[0.5, 0.5], [2.0, 3.0]]), [0, 1])
    with pytest.raises(InputError, check=fields(problem="row 0")):
        brier_score(np.array([[1.5, -0.5]]), [0])
    with pytest.raises(InputError, check=fields(problem="row 0")):
        negative_log_likelihood(np.array([[np.nan, 0.5]]), [0])
    with pytest.raises(InputError, check=fields(argument="bins")):
        expected_calibration_error(np.array([[0.5, 0.5]]), [0], bins=0)
    with pytest.raises(InputError, check=fields(argument="link")):
        to_probabilities(torch.zeros(1, 2), 1.0, "relu")


def test_stays_on_the_stand_in_device():
    p, y = drawn(0, 50, 5)
    z = np.log(p)
    with Accelerator():
        here = [f(upload(p), upload(y)) for f in (expected_calibration_error, brier_score, negative_log_likelihood)]
        frame = reliability(upload(p), upload(y))
        remote = [to_probabilities(upload(z), 2.0, link) for link in ("softmax", "sigmoid")]
    assert here == pytest.approx([expected_calibration_error(p, y), brier_score(p, y), negative_log_likelihood(p, y)])
    assert frame.equals(reliability(p, y))
    for link, found in zip(("softmax", "sigmoid"), remote, strict=True):
        np.testing.assert_allclose(download(found), to_probabilities(z, 2.0, link))
