"""Runs made of numbers: logits of models with partly shared errors, with cards where a test wants them."""

import dataclasses

import numpy as np

from zoo.cards.card import Card, Training
from zoo.outputs.outputs import Outputs, Runs


def logits_of(models=6, examples=240, classes=5, seed=0, skill=1.2):
    """(z [M, N, K] float32, labels): accuracies of about 60-80%, errors half shared."""
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, classes, examples)
    z = 0.7 * rng.standard_normal((examples, classes)) + rng.standard_normal((models, examples, classes))
    z[:, np.arange(examples), labels] += skill + np.linspace(0, 0.8, models)[:, None]
    return (2 * z).astype(np.float32), labels


def card(name, family="resnet", dataset="in1k", framework="supervised", objective="softmax", **options):
    training = Training(dataset, framework, objective)
    return Card(name, "reference", family, family + "50", dataset, "softmax", "trained", training, **options)


def runs_of(z, labels, names=None, cards=None, temperatures=None, **options):
    """Runs of logits [M, N, K]; models are called m0, m1, ... unless named."""
    names = names or [f"m{i}" for i in range(len(z))]
    made = []
    for i, name in enumerate(names):
        one = Outputs.from_arrays(name, logits=z[i], labels=labels, dataset="made:test", **options)
        changes = {"temperature": None if temperatures is None else temperatures[i]}
        made.append(dataclasses.replace(one, card=cards[i] if cards else None, **changes))
    return Runs(made)


def softmax(z):
    e = np.exp(z.astype(np.float64) - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)
