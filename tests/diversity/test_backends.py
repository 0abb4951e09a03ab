"""Measures of two models: NumPy, torch on NumPy input, and torch on tensors give the same numbers."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

import diversity
from diversity import specialization
from diversity.chance_adjusted import capa_matrix
from diversity.tables import ErrorTable
from zoo.calibration import calibrate, metrics
from zoo.core import arrays
from zoo.outputs.outputs import Outputs, Runs

ROWS, CLASSES = 700, 6


def logits(seed, scale=2.0):
    rng = np.random.default_rng(seed)
    y = np.random.default_rng(9).integers(0, CLASSES, ROWS)
    z = scale * (rng.normal(size=(ROWS, CLASSES)) + 1.5 * np.eye(CLASSES)[y])
    z[5:9] = np.round(z[5:9])  # ties
    z[:3, 0] = -np.inf  # masked
    y[:3] = 1
    return z, y


def runs(make, scale=2.0, link="softmax"):
    found = []
    for name, seed in (("a", 0), ("b", 1), ("c", 2)):
        z, y = logits(seed, scale)
        found.append(Outputs.from_arrays(name, logits=make(z), labels=y, link=link))
    return Runs(found)


@pytest.fixture(params=["tensors", "large"])
def other_runs(request, monkeypatch):
    """Runs of tensors, and runs of arrays that count as large."""

    def made(scale=2.0, link="softmax"):
        found = runs(torch.from_numpy if request.param == "tensors" else np.array, scale, link)
        if request.param == "large":
            monkeypatch.setattr(arrays, "MAX_NUMPY", 0)
        return found

    return made


def assert_same(found, expected):
    assert found.keys() == expected.keys()
    for name in found:
        assert_allclose(found[name], expected[name], rtol=1e-12, atol=1e-14, err_msg=name)


@pytest.mark.parametrize("link", ["softmax", "sigmoid"])
@pytest.mark.parametrize("scale", [2.0, 1e-3, 1e4])
def test_comparisons(other_runs, scale, link):
    expected = runs(np.array, scale, link)
    expected = diversity.compare(expected["a"], expected["b"], resamples=50)
    measured, band, by_class = expected.measured(), expected.band, expected.by_class()
    others = other_runs(scale, link)
    found = diversity.compare(others["a"], others["b"], resamples=50)
    assert_same(found.measured(), measured)
    assert found.band == band
    assert_allclose(found.rows.theta, expected.rows.theta, rtol=1e-12, atol=1e-15)
    assert_array_equal(found.rows.ensemble, expected.rows.ensemble)
    assert_allclose(found.by_class().select_dtypes("number"), by_class.select_dtypes("number"), rtol=1e-12, atol=1e-14)


def test_calibrated_comparisons(other_runs):
    expected = calibrate(runs(np.array))
    table = expected.to_frame().select_dtypes("number")
    found = calibrate(other_runs())
    assert_allclose(found.to_frame().select_dtypes("number"), table, rtol=1e-9)


def test_tables_of_pairs(other_runs):
    expected, frame = diversity.pairwise(runs(np.array)), diversity.pair_frame(runs(np.array))
    others = other_runs()
    assert_array_equal(arrays.to_numpy(diversity.pairwise(others).cells), expected.cells)
    assert diversity.pair_frame(others).equals(frame)


def test_groups(other_runs):
    conditions = np.arange(ROWS) % 3
    expected = diversity.groups(runs(np.array), conditions, resamples=20).frame
    found = diversity.groups(other_runs(), conditions, resamples=20).frame
    assert_allclose(found.drop(columns="group").to_numpy(float), expected.drop(columns="group").to_numpy(float), rtol=1e-10)


def test_functions_of_arrays():
    (z, y), (w, _) = logits(0), logits(1)
    p, q = (np.exp(x - x.max(1, keepdims=True)) for x in (z, w))
    p, q = p / p.sum(1, keepdims=True), q / q.sum(1, keepdims=True)
    tensors = [torch.from_numpy(x) for x in (p, q)]
    assert_allclose(capa_matrix(tensors, y), capa_matrix([p, q], y), rtol=1e-12)
    assert_allclose(diversity.specialization_angle(*tensors), diversity.specialization_angle(p, q), rtol=1e-12, atol=1e-15)
    theta, correct = diversity.specialization_angle(p, q), (p.argmax(1) == y, q.argmax(1) == y)
    assert [rows.tolist() for rows in specialization.extremes(torch.from_numpy(theta), 9)] == [
        rows.tolist() for rows in specialization.extremes(theta, 9)
    ]
    histogram = specialization.theta_histogram(theta, *correct)
    assert specialization.theta_histogram(*map(torch.from_numpy, (theta, *correct))).equals(histogram)
    assert diversity.ensemble_table(*tensors, y).cells.tolist() == diversity.ensemble_table(p, q, y).cells.tolist()
    for metric in (metrics.negative_log_likelihood, metrics.brier_score, metrics.expected_calibration_error):
        assert metric(tensors[0], y) == pytest.approx(metric(p, y), rel=1e-12)
    assert metrics.reliability(tensors[0], y).equals(metrics.reliability(p, y))


def test_mcnemar_of_many_tables():
    from scipy.stats import binom

    rng = np.random.default_rng(0)
    first, second = rng.integers(0, [[3], [40], [3000]], (3, 500)), rng.integers(0, [[3], [40], [3000]], (3, 500))
    cells = np.stack([0 * first, first, second, 0 * first, 0 * first], -1).astype(float)
    expected = np.minimum(1, 2 * binom.cdf(np.minimum(first, second), first + second, 0.5))
    found = ErrorTable(cells).mcnemar
    kept = expected > 1e-250
    assert_allclose(found[kept], expected[kept], rtol=1e-11)
    assert_allclose(ErrorTable(torch.from_numpy(cells)).mcnemar, found)
    assert diversity.mcnemar([0, 0], [0, 0], [0, 0]) == 1
