"""`zoo recommend` and `zoo ensemble --cascade`, on stored outputs."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import ensembles
import zoo
from zoo.app.main import app
from zoo.calibration import calibrate
from zoo.errors import InputError
from zoo.outputs import store
from zoo.outputs.outputs import Outputs

CLI = CliRunner()
CANDIDATES = ["resnet20-softmax.cifar10", "resnet20-cosine.cifar10"]


def stored(names, examples=400):
    y = np.random.default_rng(0).integers(0, 4, examples)
    made = []
    for i, name in enumerate(names):
        z = np.random.default_rng(i + 1).normal(size=(examples, 4)) + (0.8 + 0.1 * i) * np.eye(4)[y]
        ids = [f"cifar10:test/{n}" for n in range(examples)]
        made.append(store.save(Outputs.from_arrays(name, logits=3 * z, labels=y, dataset="cifar10:test", ids=ids)))
    return made


def run(*arguments):
    result = CLI.invoke(app, [*arguments, "--data", "cifar10:test", "--split", "0.5"], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def wanted():
    return [part for name in CANDIDATES for part in ("--candidates", name)]


def test_cards_alone_are_judged_by_all_models_whose_outputs_are_stored(zoo_home):
    runs = stored([f"mine-{letter}" for letter in "abcdefghijkl"])
    found = json.loads(run("recommend", "--base", "mine-b", *wanted(), "--json").stdout)
    expected = ensembles.recommend(calibrate(runs, 0.5), [zoo.card(name) for name in CANDIDATES], base="mine-b")
    assert found["settings"]["known"] == 11
    assert [row["model"] for row in found["candidates"]] == expected.table["model"].tolist()
    assert [row["gain"] for row in found["candidates"]] == pytest.approx(expected.table["gain"].tolist())
    assert found["population"].startswith("200 of 400 examples")


def test_what_is_known_in_full_is_no_candidate(zoo_home):
    stored(["mine-a", "resnet20-softmax.cifar10"])
    result = run("recommend", "--base", "mine-a", *wanted())
    assert "1 candidates are known in full" in result.stderr
    assert "resnet20-cosine.cifar10" in result.stdout
    assert "resnet20-softmax" not in result.stdout
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
    with pytest.raises(InputError, match="none of resnet20-softmax"):
        run("recommend", "--base", "mine-a", "--candidates", "resnet20-softmax.cifar10")


def test_a_cascade_is_that_of_the_search(zoo_home):
    names = ["timm:test_resnet", "timm:test_vit"]
    runs = stored(names, 800)
    found = json.loads(run("ensemble", *names, "--together", "--cascade", "--seed", "2", "--json").stdout)
    expected = ensembles.cascade(calibrate(runs, 0.5), members=names, seed=2)
    assert found["members"] == expected.members
    assert found["thresholds"] == pytest.approx(expected.thresholds)
    assert found["test_cost"] == pytest.approx(expected.test_cost)
    assert found["settings"]["cost"] == "flops"
    text = run("ensemble", *names, "--together", "--cascade").stdout
    assert all(len(line) <= 80 for line in text.splitlines())
    with pytest.raises(InputError, match="--replace: a cascade"):
        run("ensemble", *names, "--cascade", "--replace")
