"""The ensemble's temperature against a fit by scipy, and cross-fitted calibration errors."""

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
from zoo.core.splits import stratified_split

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


def test_the_temperature_of_a_path_is_fitted_on_the_test_split():
    path = ensembles.greedy(PROBS, LABELS, steps=5)
    _, test = ensembles.stratified_split(LABELS)
    mean = ensembles.average(PROBS, path.weights)[test]
    assert_allclose(path.temperature, best_temperature(mean, LABELS[test]), rtol=1e-4)
    assert path.temperature < 0.9  # underconfident
    assert path.calibration.examples == len(test)
    changed = PROBS.copy()
    other = np.setdiff1d(np.arange(2000), test)
    changed[:, other] = changed[:, other] ** 3 / (changed[:, other] ** 3).sum(2, keepdims=True)
    again = ensembles.greedy(changed, LABELS, base=path.members[: path.best], steps=1, candidates=path.members[: path.best])
    assert_allclose(again.temperature, path.temperature, rtol=1e-6)  # the selection split plays no part


def test_calibration_errors_before_and_after_are_cross_fitted():
    mean = PROBS.mean(0)
    found = fit_ensemble_temperature(mean, LABELS, ids=np.arange(2000), seed=3)
    half = stratified_split(LABELS, 0.5, 3, np.arange(2000))
    after = np.empty_like(mean)
    for fitted in (half, ~half):
        after[~fitted] = apply_temperature(mean[~fitted], best_temperature(mean[fitted], LABELS[fitted]))
    assert_allclose(found.ece_before, expected_calibration_error(mean, LABELS), atol=1e-6)
    assert_allclose(found.ece_after, expected_calibration_error(after, LABELS), atol=1e-3)
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
    for number in (f"{found.ece_before:.4f}", f"{found.ece_after:.4f}", f"{found.temperature:.3g}"):
        assert number in str(path)


def test_weights_of_members_count():
    path = ensembles.greedy(PROBS, LABELS, steps=8, replace=True, bags=3)
    _, test = ensembles.stratified_split(LABELS)
    mean = ensembles.average(PROBS, path.weights)[test]
    assert_allclose(path.temperature, best_temperature(mean, LABELS[test]), rtol=1e-4)


def test_a_large_test_split_is_sampled(monkeypatch):
    monkeypatch.setattr(ensemble_temperature, "MAX_ELEMENTS", 2500)
    path = ensembles.greedy(PROBS, LABELS, steps=3)
    assert path.calibration.examples == 500
    full = best_temperature(ensembles.average(PROBS, path.weights), LABELS)
    assert_allclose(path.temperature, full, rtol=0.15)


def test_votes_few_examples_and_no_test_split_have_no_temperature():
    assert ensembles.greedy(PROBS.argmax(2), LABELS, kind="predictions", steps=2).temperature is None
    assert ensembles.greedy(PROBS[:, :98], LABELS[:98], steps=2).temperature is None
    path = ensembles.greedy(PROBS, LABELS, steps=2, test_fraction=0)
    assert (path.temperature, path.calibration, path.ece) == (None, None, None)
    assert ensembles.greedy(PROBS[:, :100], LABELS[:100], steps=2).temperature > 0


def test_an_ensemble_without_errors_has_a_temperature():
    perfect = np.eye(5)[LABELS] * 0.6 + 0.08
    assert 0 < fit_ensemble_temperature(perfect, LABELS).temperature < 1


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
