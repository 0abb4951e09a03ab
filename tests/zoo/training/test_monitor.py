"""Training watched on its way: curves of the weights that would be the result, and snapshots that load like any model."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import diversity
import zoo
from zoo.app.main import app
from zoo.errors import InputError, MissingWeights, UnknownName
from zoo.models import trained
from zoo.training import train, trainer

SETTINGS = {"data": "digits[:300]", "epochs": 4, "save_as": "watched", "ema": 0.9, "shift": 2}


def watched(**arguments) -> trainer.Trained:
    return train("resnet8-cosine", **SETTINGS | {"progress": False} | arguments)


def test_the_curves_are_those_of_the_snapshots_on_plain_images(zoo_home):
    made = watched(measure_every=3, snapshots_every=2)
    assert [epoch["epoch"] for epoch in made.log if "train_accuracy" in epoch] == [3, 4]
    for part, data in {"train": "digits:train[:300]", "test": "digits:test"}.items():
        outputs = zoo.run("watched@epoch4", data=data, progress=False)["watched@epoch4"]
        assert made.log[-1][f"{part}_accuracy"] == pytest.approx(outputs.accuracy, abs=1e-6)
        separation = diversity.class_separation(np.asarray(outputs.embeddings), outputs.labels)
        assert made.log[-1][f"{part}_class_separation"] == pytest.approx(float(separation), abs=1e-4)
    assert zoo.store.open_runs("watched@epoch4", "digits:test").keys() == {"watched@epoch4"}
    assert made.results == {key: made.log[-1][key] for key in made.results}
    # While it trains, images are shifted and the weights are not the average: other figures.
    assert made.log[-1]["class_separation"] != pytest.approx(made.log[-1]["train_class_separation"], abs=1e-3)


def test_watching_changes_nothing(zoo_home, tmp_path):
    plain = trained.read(trained.path(watched(home=tmp_path).name, tmp_path))[1]
    seen = trained.read(trained.path(watched(measure_every=1, snapshots_every=1).name))[1]
    assert plain.keys() == seen.keys()
    for name, values in plain.items():
        np.testing.assert_array_equal(values, seen[name])
    last = trained.read(trained.path("watched@epoch4"))[1]
    before = trained.read(trained.path("watched@epoch3"))[1]
    assert all(np.array_equal(values, last[name]) for name, values in seen.items())
    assert not all(np.array_equal(values, before[name]) for name, values in seen.items())


def test_a_stopped_run_leaves_the_same_snapshots(zoo_home, tmp_path, monkeypatch):
    watched(home=tmp_path, snapshots_every=2)
    keep = trainer._store

    def stop(network, made, place):
        keep(network, made, place)
        if made.epoch == 2:
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


def test_a_snapshot_is_a_name_like_any_other(zoo_home):
    name = "resnet8-cosine.digits@epoch12"
    assert zoo.card("resnet8-cosine@epoch12").name == name
    assert zoo.load(name, pretrained=False).card == zoo.card(name)
    assert zoo.card(name).training == zoo.card("resnet8-cosine.digits").training
    with pytest.raises(MissingWeights, match=r"zoo train resnet8-cosine\.digits --snapshots-every 12"):
        zoo.load(name)
    for wrong in ("resnet8-cosine@epoch0", "resnet8-cosine@12", "nobody@epoch3"):
        with pytest.raises((InputError, UnknownName)):
            zoo.card(wrong)
    watched()
    assert zoo.list("*@*") == []
    with pytest.raises(InputError, match="without a snapshot of epoch 2; train it again"):
        watched(snapshots_every=2)
    with pytest.raises(InputError, match="measure_every is -1"):
        watched(measure_every=-1)


def test_a_pattern_with_an_at_sign_finds_snapshots_and_no_other_does(zoo_home):
    made = watched(snapshots_every=2)
    kept = [f"{made.name}@epoch2", f"{made.name}@epoch4"]
    assert zoo.list("wat*@epoch*") == zoo.list("*@*") == kept
    assert zoo.list("*@epoch4", objective="cosine") == kept[1:]
    assert not any("@" in name for name in zoo.list("*"))
    listed = CliRunner().invoke(app, ["list", "*@epoch*", "--json"])
    assert [(row["name"], row["weights"]) for row in json.loads(listed.stdout)] == [(name, "local") for name in kept]
