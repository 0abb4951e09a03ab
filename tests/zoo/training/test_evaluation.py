"""Accuracy, NLL and class separation from sums over batches."""

import numpy as np
import pytest
import torch

from zoo.training.evaluation import Tally, class_separation


def test_class_separation_equals_that_of_all_pairs_of_examples():
    """Compared with Equation 11 of Kornblith et al. (2021) over all pairs."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 6)) + 0.5, rng.integers(0, 3, 40)
    tally = Tally.empty(4, 6, torch.device("cpu"))  # a class without examples does not count
    for rows in (slice(0, 15), slice(15, 40)):
        embeddings, labels = torch.tensor(x[rows]), torch.tensor(y[rows])
        tally.add(embeddings, torch.zeros(len(labels), 4), labels, "softmax")
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    distance = 1 - unit @ unit.T
    within = np.mean([distance[np.ix_(y == k, y == k)].mean() for k in range(3)])
    total = np.mean([distance[np.ix_(y == j, y == k)].mean() for j in range(3) for k in range(3)])
    assert tally.summary()["class_separation"] == pytest.approx(1 - within / total, abs=1e-6)
    assert class_separation(torch.ones(2, 3) * 5, torch.tensor([5, 5])) == pytest.approx(0.0)


def test_accuracy_and_nll_are_means_over_examples():
    rng = np.random.default_rng(1)
    z, y = rng.normal(size=(30, 5)), rng.integers(0, 5, 30)
    tally = Tally.empty(5, 2, torch.device("cpu"))
    tally.add(torch.ones(10, 2), torch.tensor(z[:10]), torch.tensor(y[:10]), "softmax", torch.tensor(2.0))
    tally.add(torch.ones(20, 2), torch.tensor(z[10:]), torch.tensor(y[10:]), "softmax", torch.tensor(5.0))
    p = np.exp(z) / np.exp(z).sum(1, keepdims=True)
    summary = tally.summary()
    assert summary["accuracy"] == pytest.approx((z.argmax(1) == y).mean())
    assert summary["nll"] == pytest.approx(-np.log(p[np.arange(30), y]).mean(), rel=1e-5)
    assert float(tally.loss / tally.examples) == pytest.approx(4.0)
