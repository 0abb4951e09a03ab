"""Plans of many models, and models that come with the package."""

import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file
from typer.testing import CliRunner, Result

import zoo
from zoo.app.main import app
from zoo.cards import card_index
from zoo.errors import CorruptFile, InputError, ZooWarning
from zoo.training import campaign, train
from zoo.training.ship import ship

PLAN = """
data: digits
models:
- resnet8-softmax
- {name: resnet8-cosine, seeds: 2}
- {name: resnet8-softmax, set: {mixup: 0.2, epochs: 1}, as: softmax-mixed}
"""


def command(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def written(folder: Path, text: str = PLAN) -> Path:
    path = folder / "plan.yaml"
    path.write_text(text)
    return path


def test_a_plan_names_its_models_in_order(tmp_path: Path, zoo_home: Path) -> None:
    entries = campaign.read(written(tmp_path))
    names = ["resnet8-softmax.digits", "resnet8-cosine.digits", "resnet8-cosine-s1.digits", "softmax-mixed"]
    assert [entry.name for entry in entries] == names
    assert {entry.state for entry in entries} == {"left"}
    begun = zoo_home / "weights" / names[1]
    begun.mkdir(parents=True)
    (begun / "checkpoint.safetensors").write_bytes(b"")
    assert [entry.state for entry in entries] == ["left", "begun", "left", "left"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("models: resnet8-softmax", "expected YAML with a list `models`"),
        ("models: [resnet8-softmax]\nepochs: 3", "expected YAML with a list `models`"),
        (
            "models: [{names: x}]",
            r"model 1 is \{'names': 'x'\}, expected a name, or a mapping of name, data, seeds, set, as",
        ),
        ("models: [{name: resnet8-softmax, seeds: two}]", "model 1 is .*seeds"),
        ("models: [resnet8-softmax, resnet8-softmax.digits]", r"model 2: resnet8-softmax\.digits stands there twice"),
        ("models: [resnet8-sofmax]", "did you mean resnet8-softmax"),
        ("models: [", "cannot be read as a plan"),
    ],
)
def test_a_bad_plan_is_said_before_anything_is_trained(tmp_path: Path, zoo_home: Path, text: str, message: str) -> None:
    with pytest.raises(InputError, match=message):
        campaign.read(written(tmp_path, text))


def test_the_command_trains_what_is_left(tmp_path: Path, zoo_home: Path) -> None:
    plan = written(tmp_path, "data: digits\nmodels: [{name: resnet8-softmax, set: {epochs: 1}, as: quick}]")
    words = ("train", "--plan", str(plan), "--json")
    assert json.loads(command(*words, "--status").stdout) == [{"model": "quick", "state": "left"}]
    assert json.loads(command(*words).stdout) == [{"model": "quick", "state": "trained"}]
    file = zoo_home / "weights" / "quick" / "model.safetensors"
    before = file.stat().st_mtime_ns
    assert json.loads(command(*words).stdout) == [{"model": "quick", "state": "trained"}]
    assert file.stat().st_mtime_ns == before
    for wrong in (["--plan", str(plan), "--data", "digits"], []):
        assert isinstance(command("train", *wrong).exception, InputError)


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_model_that_diverges_does_not_stop_the_others(tmp_path: Path, zoo_home: Path, jobs: str) -> None:
    wild = "{name: resnet8-squared-error, set: {epochs: 1, learning_rate: 1.0e+9, warmup_epochs: 0}, as: wild}"
    plan = written(tmp_path, f"data: digits\nmodels: [{wild}, {{name: resnet8-softmax, set: {{epochs: 1}}, as: tame}}]")
    found = command("train", "--plan", str(plan), "--jobs", jobs, "--json")
    assert str(found.exception) == "1 of 2 models could not be trained: wild"
    assert "wild: epoch 1: training diverged, the loss is nan" in found.stderr
    assert {row["model"]: row["state"] for row in json.loads(found.stdout)}["tame"] == "trained"


@pytest.mark.slow
def test_a_plan_killed_at_random_ends_in_the_same_weights(tmp_path: Path) -> None:
    models = "\n".join(f"- {{name: resnet8-{one}, set: {{epochs: 150}}, as: {one}}}" for one in ("softmax", "cosine"))
    plan = written(tmp_path, f"data: digits\nmodels:\n{models}")
    words = [sys.executable, "-m", "zoo", "train", "--plan", str(plan), "--jobs", "2", "--json"]

    def environment(home: str) -> dict[str, str]:
        return {**os.environ, "OMP_NUM_THREADS": "1", "ZOO_HOME": str(tmp_path / home)}

    def weights(home: str) -> dict[str, str]:
        files = (tmp_path / home / "weights").glob("*/model.safetensors")
        return {file.parent.name: hashlib.sha256(file.read_bytes()).hexdigest() for file in files}

    def half_trained() -> list[Path]:
        return list((tmp_path / "killed").glob("weights/*/checkpoint.safetensors"))

    rng = random.Random(0)
    for kill in range(3):
        started = subprocess.Popen(words, env=environment("killed"), stdout=subprocess.DEVNULL, start_new_session=True)
        while not half_trained():
            assert started.poll() is None, "trained before the state was written once: train for longer"
            time.sleep(0.1)
        time.sleep(rng.uniform(0, 20) if kill else 0)
        if started.poll() is None:
            os.killpg(started.pid, signal.SIGKILL)
        started.wait()
    for home in ("killed", "whole"):
        subprocess.run(words, env=environment(home), check=True, stdout=subprocess.DEVNULL)
    assert weights("killed") == weights("whole")
    assert sorted(weights("whole")) == ["cosine", "softmax"]


def test_a_shipped_model_answers_as_its_card_says(tmp_path: Path, zoo_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    assert campaign.read(written(tmp_path, "models: [resnet8-softmax]"))[0].state == "shipped"


def test_a_shipped_head_finds_its_base_and_answers_as_its_card_says(
    tmp_path: Path, zoo_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train("resnet8-softmax", data="digits", progress=False)
    assert command("head", "resnet8-softmax", "--data", "digits-rotated", "--as", "turned.digits-rotated").exit_code == 0
    box = tmp_path / "box"
    shipped = json.loads(command("ship", "resnet8-*", "turned*", "--into", str(box), "--json").stdout)
    assert [row["model"] for row in shipped] == ["resnet8-softmax.digits", "turned.digits-rotated"]
    monkeypatch.setattr(card_index, "shipped_folder", lambda: box)
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the card it was shipped from is still at home, and no news
        card = zoo.card("turned.digits-rotated")
    assert "results" in card.details
    mine = zoo_home / "cards" / "turned.digits-rotated.md"
    mine.write_text(mine.read_text().replace("--strength", "--strength 7 --strength"))
    with pytest.warns(ZooWarning, match="which it cannot replace"):
        assert zoo.card("turned.digits-rotated") == card
    monkeypatch.setenv("ZOO_HOME", str(tmp_path / "elsewhere"))
    begins = "zoo head resnet8-softmax.digits --data digits-rotated --strength "
    assert card.details["command"].startswith(begins)
    assert card.details["command"].endswith(" --as turned.digits-rotated")
    assert zoo.availability("turned.digits-rotated") == "shipped"
    model = zoo.load("turned.digits-rotated")
    assert model.card == zoo.card("turned.digits-rotated")
    test = zoo.datasets.load("digits-rotated:test")
    accuracy = (model.predict(list(test)).argmax(1).numpy() == test.labels).mean()
    assert accuracy == pytest.approx(card.details["results"]["test_accuracy"])
    with pytest.raises(InputError, match="comes with the package"):
        zoo.heads.save_linear(model)
    file = box / "turned.digits-rotated.head.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"?")
    with pytest.raises(CorruptFile, match="install the package again"):
        zoo.load("turned.digits-rotated")


def test_another_seed_of_a_shipped_model_does_not_claim_its_scores(
    tmp_path: Path, zoo_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    train("resnet8-softmax", data="digits", progress=False)
    ship("resnet8-softmax", tmp_path / "box")
    monkeypatch.setattr(card_index, "shipped_folder", lambda: tmp_path / "box")
    other = zoo.card("resnet8-softmax-s7")
    assert (other.sha256, other.details, other.seed) == (None, {}, 7)
    assert other.hyperparameters == zoo.card("resnet8-softmax").hyperparameters
    assert "Right on" not in other.body


def test_only_what_was_trained_here_is_shipped(tmp_path: Path, zoo_home: Path) -> None:
    with pytest.raises(InputError, match="was not trained here"):
        ship("efficientnet-lite0", tmp_path)
    assert "matches no model that was made here" in str(command("ship", "efficientnet*", "--into", str(tmp_path)).exception)
