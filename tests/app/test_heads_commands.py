"""`zoo head`: a head on a model's features of other images, found by name, at the side it was fitted on."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import zoo
from zoo.app.main import app
from zoo.errors import InputError


def run(*arguments: str):
    return CliRunner().invoke(app, ["head", *arguments], catch_exceptions=True)


def test_a_head_for_another_task_at_another_side(zoo_home):
    zoo.train("resnet8-softmax", data="digits", epochs=1, save_as="body", progress=False)
    result = run("body", "--data", "digits-rotated", "--side", "8", "--as", "turned", "--json")
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout) == [{"model": "turned", "base": "body", "features": 64, "images": 896}]
    body, turned = zoo.load("body", device="cpu"), zoo.load("turned", device="cpu")
    assert (body.transform.size, turned.transform.size) == ((3, 16, 16), (3, 8, 8))
    assert turned.classes == ("0°", "90°", "180°", "270°")
    assert turned.card.dataset == "digits"  # what its features learnt from
    test_set = zoo.datasets.load("digits-rotated:test")
    right = turned.predict(list(test_set)).argmax(1).numpy() == np.asarray(test_set.labels)
    assert right.mean() > 0.4  # a quarter by chance


def test_mistakes():
    for arguments, message in (
        (["a", "b", "--data", "digits", "--as", "one"], "one name for 2 heads"),
        (["a", "--data", "folder:/nowhere"], "no training split"),
    ):
        result = run(*arguments)
        assert isinstance(result.exception, InputError)
        with pytest.raises(InputError, match=message):
            raise result.exception
