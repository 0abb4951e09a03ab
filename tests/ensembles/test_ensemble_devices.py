"""Tensors stay on their accelerator, and results equal those of the CPU."""

import numpy as np
import pytest
from accelerator import Accelerator, download, upload
from made_runs import logits_of, softmax
from numpy.testing import assert_allclose

import ensembles
from ensembles.combination import mean_logits

Z, LABELS = logits_of(6, 160, skill=0.8)
PROBS = softmax(Z).astype(np.float32)
# Small splits have small gains; that the warning comes when it should is a test of its own.
pytestmark = pytest.mark.filterwarnings("ignore:the gain in:zoo.errors.ZooWarning")


@pytest.mark.parametrize("objective", ["accuracy", "balanced-accuracy", "nll", "brier"])
@pytest.mark.parametrize(
    "options", [{"replace": True}, {"base": 1}, {"init": 2}, {"bags": 2}, {"budget": 9, "cost": range(6)}]
)
def test_greedy(objective, options):
    expected = ensembles.greedy(PROBS, LABELS, steps=5, objective=objective, **options)
    with Accelerator():
        found = ensembles.greedy(upload(PROBS), upload(LABELS), steps=5, objective=objective, **options)
        assert_allclose(found.temperature, expected.temperature, rtol=1e-4)
    assert found.members == expected.members
    assert_allclose(found.score, expected.score)
    assert_allclose(found.test_score, expected.test_score)
    assert_allclose(found.intervals, expected.intervals)
    assert_allclose(found.ece, expected.ece)


def test_a_custom_objective_gets_tensors_of_the_device():
    def accuracy(p, y):
        return float((p.argmax(1) == y).double().mean())

    with Accelerator():
        found = ensembles.greedy(upload(PROBS), upload(LABELS), steps=3, objective=accuracy, resamples=5)
    assert found.members == ensembles.greedy(PROBS, LABELS, steps=3).members


def test_other_functions():
    with Accelerator():
        probs, labels = upload(PROBS), upload(LABELS)
        mean, vote = ensembles.average(probs), ensembles.vote(upload(PROBS.argmax(2)), weights=[1, 1, 1, 1, 1, 2])
        logits = mean_logits(upload(Z), temperatures=[1, 2, 1, 2, 1, 2])
        gain = ensembles.improvement(probs, labels, resamples=5)
        front = ensembles.pareto(probs, labels, cost=[1, 2, 3, 4, 5, 6])
        best = ensembles.best_subset(probs, labels, size=2)
        partners = ensembles.best_partners(probs, labels)
    assert_allclose(download(mean), ensembles.average(PROBS))
    assert_allclose(download(vote), ensembles.vote(PROBS.argmax(2), weights=[1, 1, 1, 1, 1, 2]))
    assert_allclose(download(logits), mean_logits(Z, temperatures=[1, 2, 1, 2, 1, 2]))
    assert gain == ensembles.improvement(PROBS, LABELS, resamples=5)
    assert front.equals(ensembles.pareto(PROBS, LABELS, cost=[1, 2, 3, 4, 5, 6]))
    assert best == ensembles.best_subset(PROBS, LABELS, size=2)
    assert partners.equals(ensembles.best_partners(PROBS, LABELS))
