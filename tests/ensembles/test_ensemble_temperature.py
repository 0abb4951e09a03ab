"""The ensemble's temperature against a fit by scipy, and its calibration errors on the test split."""

import numpy as np
import pytest
import torch
from made_runs import logits_of, runs_of, softmax
from numpy.testing import assert_allclose
from scipy.optimize import minimize_scalar

import ensembles
from ensembles import ensemble_temperature
from ensembles.ensemble_temperature import apply_temperature, fit_ensemble_temperature
from zoo.calibration import expected_calibration_error, fit_temperature

pytestmark = pytest.mark.filterwarnings("ignore:the gain in:zoo.errors.ZooWarning")
# Members with independent errors: their mean is underconfident.
RNG = np.random.default_rng(0)
LABELS = RNG.integers(0, 5, 2000)
Z = 1.5 * RNG.standard_normal((6, 2000, 5)) + 2.0 * np.eye(5)[LABELS]
TEMPERATURES = [fit_temperature(z, LABELS).temperature for z in Z]
PROBS = np.stack([softmax(z / t) for z, t in zip(Z, TEMPERATURES, strict=True)])


def best_temperature(p, labels):
    """Return the temperature that minimises the NLL of p^(1/T), by scipy."""

    def loss(log_t):
        powers = p.astype(np.float64) ** (1 / np.exp(log_t))
        return -np.log(powers[np.arange(len(labels)), labels] / powers.sum(1)).mean()

    return np.exp(minimize_scalar(loss, bounds=(-3, 3), method="bounded", options={"xatol": 1e-9}).x)


def test_the_temperature_is_fitted_on_the_selection_split():
    path = ensembles.greedy(PROBS, LABELS, steps=5)
    selection, test = ensembles.stratified_split(LABELS)
    mean = ensembles.average(PROBS, path.weights)
    assert_allclose(path.temperature, best_temperature(mean[selection], LABELS[selection]), rtol=1e-4)
    assert path.temperature < 0.9  # underconfident
    assert path.calibration.examples == len(selection)
    changed = PROBS.copy()
    changed[:, test] = changed[:, test] ** 3 / (changed[:, test] ** 3).sum(2, keepdims=True)
    again = ensembles.greedy(changed, LABELS, steps=5)
    assert again.temperature == path.temperature  # the test split plays no part
    assert again.calibration.ece_after != path.calibration.ece_after


def test_calibration_errors_before_and_after_are_those_on_the_test_split():
    path = ensembles.greedy(PROBS, LABELS, steps=5)
    _, test = ensembles.stratified_split(LABELS)
    mean = ensembles.average(PROBS, path.weights)[test]
    found, after = path.calibration, apply_temperature(mean, path.temperature)
    assert_allclose(found.ece_before, expected_calibration_error(mean, LABELS[test]), atol=1e-6)
    assert_allclose(found.ece_after, expected_calibration_error(after, LABELS[test]), atol=1e-6)
    assert found.ece_after < found.ece_before / 2


def test_the_path_reports_calibration_errors_and_temperature():
    path = ensembles.greedy(PROBS, LABELS, steps=4)
    _, test = ensembles.stratified_split(LABELS)
    for step in range(5):
        mean = PROBS[path.members[: step + 1]].mean(0)[test]
        assert_allclose(path.ece[step], expected_calibration_error(mean, LABELS[test]), atol=1e-6)
    found = path.calibration
    assert_allclose(path.ece[path.best - 1], found.ece_before, atol=1e-6)
    frame = path.to_frame()
    assert_allclose(frame["ece"], path.ece)
    assert frame["ece_calibrated"].dropna().to_dict() == {path.best - 1: found.ece_after}
    assert path.to_dict()["temperature"] == found.temperature
    assert path.to_dict()["calibration"] == {
        "temperature": found.temperature, "ece_before": found.ece_before, "ece_after": found.ece_after, "examples": 1000,
    }  # fmt: skip
    for number in (f"{found.ece_before:.1%}", f"{found.ece_after:.1%}", f"{found.temperature:.2f}"):
        assert number in str(path)


def test_weights_of_members_count():
    path = ensembles.greedy(PROBS, LABELS, steps=8, replace=True, bags=3)
    selection, _ = ensembles.stratified_split(LABELS)
    mean = ensembles.average(PROBS, path.weights)[selection]
    assert_allclose(path.temperature, best_temperature(mean, LABELS[selection]), rtol=1e-4)


def test_a_large_split_is_sampled(monkeypatch):
    exact = ensembles.greedy(PROBS, LABELS, steps=3).calibration
    monkeypatch.setattr(ensemble_temperature, "MAX_ELEMENTS", 2500)
    path = ensembles.greedy(PROBS, LABELS, steps=3)
    assert path.calibration.examples == 500
    assert 0 < abs(path.calibration.ece_before - exact.ece_before) < 0.05
    assert_allclose(path.temperature, exact.temperature, rtol=0.15)


def test_votes_and_few_examples_have_no_temperature():
    assert ensembles.greedy(PROBS.argmax(2), LABELS, kind="predictions", steps=2).temperature is None
    assert ensembles.greedy(PROBS[:, :98], LABELS[:98], steps=2).temperature is None
    assert ensembles.greedy(PROBS[:, :100], LABELS[:100], steps=2).temperature > 0


def test_without_a_test_split_there_is_a_temperature_but_no_calibration_error():
    path = ensembles.greedy(PROBS, LABELS, steps=2, test_fraction=0)
    mean = ensembles.average(PROBS, path.weights)
    assert_allclose(path.temperature, best_temperature(mean, LABELS), rtol=1e-4)
    assert (path.calibration.ece_before, path.calibration.ece_after, path.ece) == (None, None, None)
    assert path.to_frame()["ece_calibrated"].isna().all()
    assert "calibration error" not in str(path)


def test_an_ensemble_without_errors_has_a_temperature():
    perfect = np.eye(5)[LABELS] * 0.6 + 0.08
    assert 0 < fit_ensemble_temperature(perfect, LABELS) < 1


@pytest.mark.parametrize("temperature", [0.2, 1.0, 3.0])
def test_apply_temperature_is_a_normalised_power(temperature):
    p = PROBS[0]
    powers = p ** (1 / temperature)
    assert_allclose(apply_temperature(p, temperature), powers / powers.sum(1, keepdims=True), rtol=1e-6)
    assert isinstance(apply_temperature(torch.from_numpy(p), temperature), torch.Tensor)


def test_runs_have_the_temperature_of_their_arrays():
    z, labels = logits_of(4, 400)
    path = ensembles.greedy(runs_of(z, labels, temperatures=[1.0, 2.0, 0.5, 1.0]), steps=3)
    probs = np.stack([softmax(one / t) for one, t in zip(z, [1.0, 2.0, 0.5, 1.0], strict=True)]).astype(np.float32)
    assert_allclose(path.temperature, ensembles.greedy(probs, labels, steps=3).temperature, rtol=1e-4)
