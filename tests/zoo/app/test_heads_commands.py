"""`zoo head`: a head on a model's features of other images, found by name, at the side it was fitted on."""

import json

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression
from typer.testing import CliRunner

import zoo
from zoo.app.heads import STRENGTHS, _best_strength
from zoo.app.main import app
from zoo.errors import InputError


def run(*arguments: str):
    return CliRunner().invoke(app, ["head", *arguments], catch_exceptions=True)


def test_a_head_for_another_task_at_another_side(zoo_home):
    zoo.train("resnet8-softmax", data="digits", epochs=1, save_as="body", progress=False)
    result = run("body", "--data", "digits-rotated", "--side", "8", "--as", "turned", "--json")
    assert result.exit_code == 0, result.output
    row = json.loads(result.stdout)[0]
    strength = row.pop("strength")
    assert row == {"model": "turned", "base": "body", "features": 64, "images": 896}
    assert strength in STRENGTHS
    assert f" --strength {strength:g} " in zoo.card("turned").details["command"]
    assert float(f"{strength:g}") == strength  # the command makes the same head again
    body, turned = zoo.load("body", device="cpu"), zoo.load("turned", device="cpu")
    assert (body.transform.size, turned.transform.size) == ((3, 16, 16), (3, 8, 8))
    assert turned.classes == ("0°", "90°", "180°", "270°")
    assert turned.card.dataset == "digits"  # what its features learnt from
    assert turned.card.labels == "own"
    assert run("body", "--data", "digits", "--as", "again").exit_code == 0
    assert (zoo.card("again").labels, zoo.load("again").classes) == ("digits", body.classes)
    test_set = zoo.datasets.load("digits-rotated:test")
    right = turned.predict(list(test_set)).argmax(1).numpy() == np.asarray(test_set.labels)
    assert right.mean() > 0.4  # a quarter by chance


def test_noisier_features_get_a_stronger_penalty():
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 600)
    signal = np.eye(3)[labels] + 0.5 * rng.normal(size=(600, 3))
    noisy = np.hstack([signal, rng.normal(size=(600, 150))])
    clean = np.hstack([np.eye(3)[labels] + np.array([0, 0.01, 0.1]) * rng.normal(size=(600, 3)), np.zeros((600, 1))])
    assert _best_strength(noisy, labels) >= 10 * STRENGTHS[0]
    kept, held = np.arange(600) % 5 > 0, np.arange(600) % 5 == 0
    scaled = noisy / noisy.std(0)
    right = [  # of scikit-learn's own fits, on another split
        LogisticRegression(C=1 / (2 * strength)).fit(scaled[kept], labels[kept]).score(scaled[held], labels[held])
        for strength in (STRENGTHS[0], _best_strength(noisy, labels))
    ]
    assert right[1] > right[0] + 0.02
    assert _best_strength(clean, labels) in STRENGTHS  # a dimension that never varies is no obstacle


def test_mistakes():
    for arguments, message in (
        (["a", "b", "--data", "digits", "--as", "one"], "one name for 2 heads"),
        (["a", "--data", "folder:/nowhere"], "no training split"),
    ):
        result = run(*arguments)
        assert isinstance(result.exception, InputError)
        with pytest.raises(InputError, match=message):
            raise result.exception
