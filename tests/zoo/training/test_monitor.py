"""Scores and snapshots during training: they describe the network that training would return at that moment."""

import json

import numpy as np
import pytest
from raised import fields
from typer.testing import CliRunner

import diversity
import zoo
from zoo.app.main import app
from zoo.errors import InputError, MissingWeights, UnknownName
from zoo.models import trained
from zoo.runs import resolver
from zoo.training import train, trainer

SETTINGS = {"data": "digits[:300]", "epochs": 4, "save_as": "watched", "ema": 0.9, "shift": 2}


def watched(**arguments) -> trainer.Trained:
    return train("resnet8-cosine", **SETTINGS | {"progress": False} | arguments)


def test_scores_in_the_log_equal_those_of_the_snapshots_on_plain_images(zoo_home):
    made = watched(measure_every=3, snapshots_every=2)
    assert [epoch["epoch"] for epoch in made.log if "train_accuracy" in epoch] == [3, 4]
    for part, data in {"train": "digits:train[:300]", "test": "digits:test"}.items():
        outputs = zoo.run("watched@epoch4", data=data, progress=False)["watched@epoch4"]
        assert made.log[-1][f"{part}_accuracy"] == pytest.approx(outputs.accuracy, abs=1e-6)
        separation = diversity.class_separation(np.asarray(outputs.embeddings), outputs.labels)
        assert made.log[-1][f"{part}_class_separation"] == pytest.approx(float(separation), abs=1e-4)
    assert zoo.store.open_runs("watched@epoch4", "digits:test").keys() == {"watched@epoch4"}
    assert made.results == {key: made.log[-1][key] for key in made.results}
    # During training images are shifted and the weights are not averaged, so these scores differ.
    assert made.log[-1]["class_separation"] != pytest.approx(made.log[-1]["train_class_separation"], abs=1e-3)


def test_scores_and_snapshots_do_not_change_the_weights(zoo_home, tmp_path):
    plain = trained.read(trained.path(watched(home=tmp_path).name, tmp_path))[1]
    seen = trained.read(trained.path(watched(measure_every=1, snapshots_every=1).name))[1]
    assert plain.keys() == seen.keys()
    for name, values in plain.items():
        np.testing.assert_array_equal(values, seen[name])
    last = trained.read(trained.path("watched@epoch4"))[1]
    before = trained.read(trained.path("watched@epoch3"))[1]
    assert all(np.array_equal(values, last[name]) for name, values in seen.items())
    assert not all(np.array_equal(values, before[name]) for name, values in seen.items())


def test_an_interrupted_run_writes_the_same_snapshots(zoo_home, tmp_path, monkeypatch):
    watched(home=tmp_path, snapshots_every=2)
    store = trainer._store

    def stop(network, record, home):
        store(network, record, home)
        if record.epoch == 2:
            raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(trainer, "_store", stop)
        with pytest.raises(KeyboardInterrupt):
            watched(snapshots_every=2, checkpoint_every=0)
    trained.path("watched@epoch2").unlink()
    watched(snapshots_every=2, checkpoint_every=0)
    for epoch in (2, 4):
        one, other = (trained.read(trained.path(f"watched@epoch{epoch}", home))[1] for home in (tmp_path, None))
        assert all(np.array_equal(values, other[name]) for name, values in one.items())


def test_a_snapshot_has_a_name_and_a_card(zoo_home):
    name = "resnet8-cosine.digits@epoch12"
    assert zoo.card("resnet8-cosine@epoch12").name == name
    assert zoo.load(name, pretrained=False).card == zoo.card(name)
    assert zoo.card(name).training == zoo.card("resnet8-cosine.digits").training
    with pytest.raises(MissingWeights, match=r"resnet8-cosine\.digits.*12"):
        zoo.load(name)
    for wrong in ("resnet8-cosine@epoch0", "resnet8-cosine@12", "nobody@epoch3"):
        with pytest.raises((InputError, UnknownName)):
            zoo.card(wrong)
    watched()
    assert zoo.list("*@*") == []
    with pytest.raises(
        InputError, check=fields(where="watched", argument="snapshots_every", problem="epoch 2", hint="restart")
    ):
        watched(snapshots_every=2)
    with pytest.raises(InputError, check=fields(argument="measure_every", found=-1)):
        watched(measure_every=-1)


def test_only_patterns_with_an_at_sign_match_snapshots(zoo_home):
    made = watched(snapshots_every=2)
    kept = [f"{made.name}@epoch2", f"{made.name}@epoch4"]
    assert zoo.list("wat*@epoch*") == zoo.list("*@*") == kept
    assert zoo.list("*@epoch4", objective="cosine") == kept[1:]
    assert not any("@" in name for name in zoo.list("*"))
    listed = CliRunner().invoke(app, ["list", "*@epoch*", "--json"])
    assert [(row["name"], row["weights"]) for row in json.loads(listed.stdout)] == [(name, "local") for name in kept]
    assert [choice.name for choice in resolver.choose("wat*@epoch*", "digits:test")] == kept
