"""Shipping: local models written into a folder of cards, with float16 weights and their test scores."""

import hashlib
import json
import warnings
from pathlib import Path

import numpy as np
import pytest
from raised import fields
from safetensors.numpy import load_file
from typer.testing import CliRunner, Result

import zoo
from zoo.app.main import app
from zoo.cards import card_index
from zoo.errors import CorruptFile, InputError, UnknownName, ZooWarning
from zoo.training import campaign, train
from zoo.training.ship import ship


def command(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def test_a_shipped_model_has_the_accuracy_on_its_card(
    tmp_path: Path, zoo_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    trained = train("resnet8-softmax", data="digits", progress=False)
    box = tmp_path / "box"
    card = ship("resnet8-softmax", box)
    weights = box / "resnet8-softmax.digits.safetensors"
    assert card.sha256 == hashlib.sha256(weights.read_bytes()).hexdigest()
    assert {values.dtype for values in load_file(weights).values()} <= {np.dtype(np.float16), np.dtype(np.int64)}
    monkeypatch.setattr(card_index, "shipped_folder", lambda: box)
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "elsewhere"))
    assert zoo.availability("resnet8-softmax") == "shipped"
    assert zoo.card("resnet8-softmax") == zoo.load("resnet8-softmax").card
    runs = zoo.run("resnet8-softmax", data="digits:test", progress=False)
    assert runs["resnet8-softmax"].accuracy == card.details["results"]["test_accuracy"]
    assert abs(card.details["results"]["test_accuracy"] - trained.results["test_accuracy"]) <= 0.01
    plan = tmp_path / "plan.yaml"
    plan.write_text("models: [resnet8-softmax]")
    assert campaign.read(plan)[0].state == "shipped"


def test_a_shipped_head_finds_its_base_and_has_the_accuracy_on_its_card(
    tmp_path: Path, zoo_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train("resnet8-softmax", data="digits", progress=False)
    assert command("head", "resnet8-softmax", "--data", "digits-rotated", "--name", "turned.digits-rotated").exit_code == 0
    box = tmp_path / "box"
    shipped = json.loads(command("ship", "resnet8-*", "turned*", "--output", str(box), "--json").stdout)
    assert [row["model"] for row in shipped] == ["resnet8-softmax.digits", "turned.digits-rotated"]
    monkeypatch.setattr(card_index, "shipped_folder", lambda: box)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the local card it was shipped from is no cause for a warning
        card = zoo.card("turned.digits-rotated")
    assert "results" in card.details
    local = zoo_home / "cards" / "turned.digits-rotated.md"
    local.write_text(local.read_text().replace("--strength", "--strength 7 --strength"))
    with pytest.warns(ZooWarning, match="turned.digits-rotated"):
        assert zoo.card("turned.digits-rotated") == card
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "elsewhere"))
    begins = "zoo head resnet8-softmax.digits --data digits-rotated --strength "
    assert card.details["command"].startswith(begins)
    assert card.details["command"].endswith(" --name turned.digits-rotated")
    assert zoo.availability("turned.digits-rotated") == "shipped"
    model = zoo.load("turned.digits-rotated")
    assert model.card == zoo.card("turned.digits-rotated")
    test = zoo.datasets.load("digits-rotated:test")
    accuracy = (model.predict(list(test)).argmax(1).numpy() == test.labels).mean()
    assert accuracy == pytest.approx(card.details["results"]["test_accuracy"])
    with pytest.raises(InputError, match=r"turned\.digits-rotated"):
        zoo.heads.save_linear(model)
    file = box / "turned.digits-rotated.head.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    with pytest.raises(CorruptFile, match=file.name):
        zoo.load("turned.digits-rotated")


def test_the_card_of_another_seed_has_no_scores_of_the_shipped_model(
    tmp_path: Path, zoo_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train("resnet8-softmax", data="digits", progress=False)
    ship("resnet8-softmax", tmp_path / "box")
    monkeypatch.setattr(card_index, "shipped_folder", lambda: tmp_path / "box")
    other = zoo.card("resnet8-softmax-s7")
    assert (other.sha256, other.details, other.seed) == (None, {}, 7)
    assert other.hyperparameters == zoo.card("resnet8-softmax").hyperparameters
    assert "Accuracy" in zoo.card("resnet8-softmax").body
    assert "Accuracy" not in other.body


def test_only_local_models_are_shipped(tmp_path: Path, zoo_home: Path) -> None:
    with pytest.raises(InputError, check=fields(where="efficientnet-lite0", problem="model.safetensors")):
        ship("efficientnet-lite0", tmp_path)
    assert isinstance(command("ship", "efficientnet*", "--output", str(tmp_path)).exception, UnknownName)
