"""`zoo recommend`, on stored outputs."""

import pytest
from raised import fields

import ensembles
import zoo
from zoo.calibration import calibrate
from zoo.errors import InputError

CANDIDATES = ["resnet20-softmax.cifar10", "resnet20-cosine.cifar10"]
OPTIONS = ("--data", "cifar10:test", "--temperatures-from", "0.5")


@pytest.fixture
def recommend(cli):
    options = [word for name in CANDIDATES for word in ("--candidates", name)]
    return lambda base, *more: cli("recommend", "--base", base, *options, *OPTIONS, *more)


def test_models_with_stored_outputs_predict_the_gains_of_candidates(recommend, store_outputs):
    outputs = [store_outputs(f"mine-{letter}", seed, skill=0.8 + 0.1 * seed) for seed, letter in enumerate("abcdefghijkl")]
    found = recommend("mine-b", "--examples", "0", "--json").json
    expected = ensembles.recommend(calibrate(outputs, 0.5), [zoo.card(name) for name in CANDIDATES], base="mine-b")
    assert found["settings"]["known"] == 11
    assert [row["model"] for row in found["candidates"]] == expected.table["model"].tolist()
    assert [row["gain"] for row in found["candidates"]] == pytest.approx(expected.table["gain"].tolist())
    assert found["population"].startswith("200 of 400 examples")


def test_models_with_outputs_are_not_candidates(recommend, store_outputs, invoke):
    store_outputs("mine-a", 0)
    store_outputs("resnet20-softmax.cifar10", 1)
    printed = recommend("mine-a")
    assert "1 candidates have outputs" in printed.remarks
    assert "resnet20-cosine" in printed.out
    assert "resnet20-softmax" not in printed.out
    with pytest.raises(InputError, check=fields(argument="candidates", found="resnet20-softmax.cifar10")):
        invoke("recommend", "--base", "mine-a", "--candidates", "resnet20-softmax.cifar10", *OPTIONS)


def test_shipped_outputs_replace_missing_images(cli):
    names = ["efficientnet-lite0-linear.cifar10", "efficientnet-lite2-linear.cifar10"]
    words = [word for name in names for word in ("--candidates", name)]
    printed = cli("recommend", "--base", "r7x2.cifar10", *words, "--data", "cifar10:test", "--examples", "200", "--json")
    rows = printed.json["candidates"]
    assert {row["model"]: row["examples"] for row in rows} == dict.fromkeys(names, 200)
    assert "cards only" not in printed.remarks


def test_stored_predictions_are_skipped(recommend, store_outputs):
    for seed, letter in enumerate("abc"):
        store_outputs(f"mine-{letter}", seed)
    without = recommend("mine-b", "--examples", "0", "--json").json
    store_outputs("votes", 3, kind="predictions")
    printed = recommend("mine-b", "--examples", "0", "--json")
    assert printed.json["candidates"] == without["candidates"]
    assert "votes" in printed.remarks
