"""`zoo head`: fit a linear head for other classes, also at another image size, and use it by name."""

import numpy as np
import pytest
from raised import fields
from sklearn.linear_model import LogisticRegression

import zoo
from zoo.app.head import STRENGTHS, _best_strength
from zoo.errors import InputError


def test_a_head_for_another_task_at_another_image_size(cli, zoo_home):
    zoo.train("resnet8-softmax", data="digits", epochs=1, save_as="body", progress=False)
    (row,) = cli("head", "body", "--data", "digits-rotated", "--image-size", "8", "--name", "turned", "--json").json
    strength = row.pop("strength")
    assert row == {"model": "turned", "base": "body", "features": 64, "images": 896}
    assert strength in STRENGTHS
    command = zoo.card("turned").details["command"]
    assert command == f"zoo head body --data digits-rotated --image-size 8 --strength {strength:g} --name turned"
    assert float(f"{strength:g}") == strength  # so that the command fits the same head
    body, turned = zoo.load("body", device="cpu"), zoo.load("turned", device="cpu")
    assert (body.transform.size, turned.transform.size) == ((3, 16, 16), (3, 8, 8))
    assert turned.classes == ("0°", "90°", "180°", "270°")
    assert turned.card.dataset == "digits"  # the training data of the embeddings
    assert turned.card.labels == "own"
    cli("head", "body", "--data", "digits", "--name", "again")
    assert (zoo.card("again").labels, zoo.load("again").classes) == ("digits", body.classes)
    test_set = zoo.datasets.load("digits-rotated:test")
    correct = turned.predict(list(test_set)).argmax(1).numpy() == np.asarray(test_set.labels)
    assert correct.mean() > 0.4  # chance: 0.25


def test_noisier_features_get_a_stronger_penalty():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 600)
    signal = np.eye(3)[labels] + 0.5 * rng.normal(size=(600, 3))
    noisy = np.hstack([signal, rng.normal(size=(600, 150))])
    clean = np.hstack([np.eye(3)[labels] + np.array([0, 0.01, 0.1]) * rng.normal(size=(600, 3)), np.zeros((600, 1))])
    assert _best_strength(noisy, labels) >= 10 * STRENGTHS[0]
    train, held_out = np.arange(600) % 5 > 0, np.arange(600) % 5 == 0
    scaled = noisy / noisy.std(0)
    scores = [
        LogisticRegression(C=1 / (2 * strength)).fit(scaled[train], labels[train]).score(scaled[held_out], labels[held_out])
        for strength in (STRENGTHS[0], _best_strength(noisy, labels))
    ]
    assert scores[1] > scores[0] + 0.02
    assert _best_strength(clean, labels) in STRENGTHS  # a constant dimension causes no error


def test_errors(invoke):
    with pytest.raises(InputError, check=fields(argument="name", problem="2 heads")):
        invoke("head", "clip-vit-b32", "clip-vit-b16", "--data", "digits", "--name", "one")
    with pytest.raises(InputError, check=fields(argument="data", where="folder:/nowhere")):
        invoke("head", "clip-vit-b32", "--data", "folder:/nowhere")
