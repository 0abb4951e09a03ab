"""`zoo ensemble`: search, combine, partners, budget and cascade, on stored outputs and on models that are run."""

import numpy as np
import pandas as pd
import pytest
import scipy.stats
from raised import fields

import ensembles
import zoo
from ensembles.costs import parse_budget
from zoo.calibration import calibrate
from zoo.core.units import short_number
from zoo.errors import InputError, UnknownName, ZooError
from zoo.outputs import store
from zoo.outputs.outputs import Outputs

NAMES = ["mine-a", "mine-b", "mine-c", "other-d"]
# Gains on a few hundred synthetic examples may be within noise, which causes warnings.
pytestmark = pytest.mark.filterwarnings("ignore::zoo.errors.ZooWarning")


@pytest.fixture
def outputs(store_outputs):
    return [store_outputs(name, seed, skill=0.8 + 0.2 * seed) for seed, name in enumerate(NAMES)]


class TestSearch:
    def test_text(self, cli, outputs):
        lines = cli("ensemble", "search", *NAMES, "--base", "mine-a", "--steps", "3").out.splitlines()
        assert lines[0].split()[:2] == ["#", "model"]
        assert lines[1].split()[1] == "mine-a"
        assert [line.split()[0][0] for line in lines[1:5]] == ["1", "2", "3", "4"]

    def test_json_is_the_search_on_calibrated_outputs(self, cli, outputs):
        options = ("--steps", "4", "--with-replacement", "--objective", "nll", "--seed", "5")
        found = cli("ensemble", "search", *NAMES, *options, "--json").json
        path = ensembles.greedy(calibrate(outputs), steps=4, replace=True, objective="nll", seed=5)
        assert found["members"] == path.members
        assert found["score"] == pytest.approx(path.score)
        assert found["test_score"] == pytest.approx(path.test_score)
        assert found["interval"] == pytest.approx(path.interval)
        assert found["settings"]["selection_examples"] == 200
        assert found["population"].startswith("all 400 examples")

    def test_candidates_and_uncalibrated(self, cli, outputs):
        words = ("ensemble", "search", *NAMES, "--uncalibrated", "--json")
        found = cli(*words, "--base", "other-d", "--candidates", "mine-*").json
        assert found["members"][0] == "other-d"
        assert set(found["members"][1:]) == {"mine-a", "mine-b", "mine-c"}
        assert found["settings"]["selection_examples"] == 200
        assert found["population"] == "all 400 examples"
        accuracies = {one.name: one.accuracy for one in outputs}
        limit = sorted(accuracies.values())[1] + 0.001
        below = cli(*words, "--accuracy", f"..{100 * limit}", "--test-fraction", "0").json
        assert set(below["members"]) == {name for name, accuracy in accuracies.items() if accuracy <= limit}
        assert below["test_score"] is None

    def test_candidates_need_not_be_repeated(self, cli, outputs):
        found = cli("ensemble", "search", "mine-a", "--base", "mine-a", "--candidates", "mine-b", "mine-c", "--json").json
        assert set(found["members"]) <= {"mine-a", "mine-b", "mine-c"}
        assert found["settings"]["candidates"] == 2
        frame = cli("ensemble", "partners", "mine-a", "--base", "mine-a", "--candidates", "mine-b", "--json").json
        assert [row["partner"] for row in frame["partners"]] == ["mine-b"]

    def test_steps_count_the_models_added(self, cli, outputs):
        free = cli("ensemble", "search", *NAMES, "--steps", "1", "--json").json
        based = cli("ensemble", "search", *NAMES, "--steps", "1", "--base", free["members"][0], "--json").json
        assert len(free["members"]) == 2
        assert free["members"] == based["members"]

    def test_predictions_vote(self, cli, zoo_home, invoke):
        y = np.random.default_rng(0).integers(0, 4, 300)
        predictions = {}
        for i, name in enumerate(NAMES):
            rng = np.random.default_rng(i + 1)
            predictions[name] = np.where(rng.random(300) < 0.6, y, rng.integers(0, 4, 300))
            store.save(
                Outputs.from_arrays(name, predictions=predictions[name], labels=y, dataset="mine", classes=list("abcd"))
            )
        words = ("ensemble", "search", *NAMES, "--with-replacement", "--steps", "5", "--test-fraction", "0")
        found = cli(*words, "--votes", "--json").json
        voted = scipy.stats.mode([predictions[name] for name in found["members"]], axis=0).mode
        assert found["score"][-1] == pytest.approx((voted == y).mean())
        assert "--votes" in cli(*words, code=2).err

    def test_the_result_is_printed_if_it_cannot_be_saved(self, cli, outputs, tmp_path):
        words = ("ensemble", "search", *NAMES, "--json")
        assert set(cli(*words, "--name", "../x", code=None).json["members"]) == set(NAMES)
        assert set(cli(*words, "--name", "x", code=None).json["members"]) == set(NAMES)  # the members have no cards
        (tmp_path / "path.svg").mkdir()
        assert set(cli(*words, "-o", tmp_path / "path.svg", code=1).json["members"]) == set(NAMES)

    def test_files(self, cli, outputs, tmp_path):
        paths = [tmp_path / "path.svg", tmp_path / "path.csv"]
        cli("ensemble", "search", *NAMES, *(word for path in paths for word in ("-o", path)))
        assert paths[0].read_text().startswith("<svg")
        assert pd.read_csv(paths[1])["model"].tolist()[0] in NAMES


class TestCombine:
    def test_json_equals_the_function(self, cli, outputs):
        found = cli("ensemble", "combine", *NAMES, "--json").json
        expected = ensembles.improvement(calibrate(outputs))
        assert found["members"] == NAMES
        assert found["ensemble_accuracy"] == expected.ensemble_accuracy
        assert found["gain_over_best"] == expected.gain_over_best
        assert found["interval"] == pytest.approx(expected.interval)
        text = " ".join(cli("ensemble", "combine", *NAMES).out.split())
        low, high = (f"{100 * end:.1f}" for end in expected.interval)
        assert f"{100 * expected.ensemble_accuracy:.1f}% accuracy" in text
        assert f"95% CI {low} to {high}" in text
        assert found["best_member"] in text

    def test_voting(self, cli, outputs):
        found = cli("ensemble", "combine", *NAMES, "--votes", "--json").json
        assert found["ensemble_accuracy"] == ensembles.improvement(outputs, combine="predictions").ensemble_accuracy

    def test_files_that_are_not_stored(self, cli, outputs, tmp_path):
        for one in outputs[:2]:
            np.savez(tmp_path / f"{one.name}.npz", logits=one.logits, labels=one.labels, ids=one.ids)
        stored = cli("ensemble", "combine", *NAMES[:2], "--json").json
        assert cli("ensemble", "combine", "--from", tmp_path, "--json").json["interval"] == stored["interval"]


def test_partners(cli, outputs, tmp_path):
    words = ("ensemble", "partners", *NAMES)
    expected = ensembles.best_partners(calibrate(outputs))
    found = cli(*words, "--json", "-o", tmp_path / "partners.csv").json["partners"]
    assert [(row["base"], row["partner"]) for row in found] == list(zip(expected["base"], expected["partner"], strict=True))
    assert [row["gain"] for row in found] == pytest.approx(expected["gain"].tolist())
    assert len(pd.read_csv(tmp_path / "partners.csv")) == 4
    (row,) = cli(*words, "--base", "mine-b", "--json").json["partners"]
    assert row == found[1]
    text = cli(*words, "--base", "mine-b").out
    assert f"{100 * row['gain']:+.1f}" in text
    assert f"{100 * row['interval'][0]:.1f} to {100 * row['interval'][1]:.1f}" in text
    assert "nan" not in cli(*words, "--objective", "nll", "--test-fraction", "0").out


class TestCosts:
    MODELS = ("timm:test_resnet", "timm:test_vit")
    DATA = ("--data", "cifar10:test")

    @pytest.fixture
    def runs(self, store_outputs):
        return [store_outputs(name, seed, rows=800) for seed, name in enumerate(self.MODELS)]

    def test_budget(self, cli, runs):
        words = ("ensemble", "budget", *self.MODELS, *self.DATA)
        found = cli(*words, "--json").json
        expected = ensembles.pareto(calibrate(runs))
        assert [row["cost"] for row in found["front"]] == expected["cost"].tolist()
        assert [tuple(row["members"]) for row in found["front"]] == expected["members"].tolist()
        assert found["best"] is None
        cheapest = expected["cost"].min()
        best = cli(*words, "--max-cost", f"{cheapest / 1e6}M", "--json").json["best"]
        assert best["cost"] == pytest.approx(cheapest)
        text = cli(*words, "--max-cost", "1G").out
        assert short_number(cheapest) in text
        assert all(name in text for name in self.MODELS)

    def test_cascade(self, cli, runs):
        words = ("ensemble", "cascade", *self.MODELS, *self.DATA, "--all")
        found = cli(*words, "--seed", "2", "--json").json
        expected = ensembles.cascade(calibrate(runs), members=list(self.MODELS), seed=2)
        assert found["members"] == expected.members
        assert found["thresholds"] == pytest.approx(expected.thresholds)
        assert found["test_cost"] == pytest.approx(expected.test_cost)
        assert found["settings"]["cost"] == "flops"
        assert all(name in cli(*words).out for name in self.MODELS)

    def test_errors(self, runs, invoke):
        with pytest.raises(InputError, check=fields(argument="limit", found="much")):
            invoke("ensemble", "budget", *self.MODELS, *self.DATA, "--max-cost", "much")
        with pytest.raises(InputError, check=fields(argument="budget", found="much")):
            invoke("ensemble", "cascade", *self.MODELS, *self.DATA, "--max-cost", "much")
        with pytest.raises(InputError, check=fields(argument="name")):
            invoke("ensemble", "budget", *self.MODELS, *self.DATA, "--name", "mine")


@pytest.mark.parametrize(("text", "number"), [("2M", 2e6), ("1.5G", 1.5e9), ("300", 300), ("7k", 7000), ("1e3", 1000)])
def test_costs_have_units(text, number):
    assert parse_budget(text, "limit") == number
    assert parse_budget(short_number(number), "limit") == number


@pytest.mark.slow
def test_an_ensemble_of_trained_models_is_saved_and_used_like_any_model(cli, zoo_home):
    names = ["resnet8-softmax", "resnet8-cosine"]
    result = cli("ensemble", "search", *names, "--base", names[0], "--steps", "1", "--name", "mine")
    assert "hyper-parameters" in result.out
    assert (zoo_home / "cards" / "mine.md").exists()
    saved = zoo.card("mine")
    assert {member.name for member in saved.members} <= {f"{name}.digits" for name in names}
    found = cli("ensemble", "search", "mine", "resnet8-sigmoid", "--json").json
    assert set(found["members"]) == {"mine", "resnet8-sigmoid.digits"}
    # The saved model gives the scored predictions: the mean of both members on the same images.
    alone = zoo.run("mine", data="digits:test", progress=False)["mine"]
    parts = calibrate(zoo.run(names, data="digits:test", progress=False), "digits:calibration")
    mean = ensembles.average(parts, {member.name: member.weight for member in saved.members})
    assert (alone.predictions == mean.argmax(1)).mean() > 0.998
    cli("ensemble", "combine", *names, "--name", "pair")
    assert {member.weight for member in zoo.card("pair").members} == {0.5}
    cli("ensemble", "budget", *names, "--max-cost", "1G", "--name", "cheap")
    assert zoo.card("cheap").members
    cli("ensemble", "cascade", *names, "--all", "--name", "fast")
    assert zoo.load("fast").classes == zoo.load("mine").classes


class TestPredictionSets:
    @pytest.mark.parametrize("kind", ["search", "combine", "cascade"])
    def test_prediction_sets_are_printed_and_saved(self, cli, zoo_home, kind):
        """Uses shipped outputs, so no model is run before the ensemble is used."""
        names = ["resnet7-softmax.cifar10", "resnet7-cosine.cifar10"]
        words = (
            "ensemble",
            kind,
            *names,
            "--sets",
            "0.2",
            "--set-method",
            "raps",
            "--set-threshold",
            "class",
            "--name",
            "mine",
        )
        words += ("--all", "--cost", "params") if kind == "cascade" else ()
        found = cli(*words, "--json").json
        rule, measured = found["sets"], found["sets_measured"]
        assert (rule["method"], rule["alpha"], rule["conditioning"], rule["classes"]) == ("raps", 0.2, "class", 10)
        assert (rule["calibration_examples"], measured["examples"]) == (2500, 2500)
        assert measured["coverage"] == pytest.approx(0.8, abs=0.03)
        assert zoo.card("mine").details["sets"] == rule
        sets = zoo.load("mine").predict_sets(np.zeros((2, 32, 32, 3), np.uint8))
        assert sets.shape == (2, 10)
        assert "80% coverage by RAPS" in " ".join(cli("show", "mine").out.split())
        printed = " ".join(cli(*words, "--replace").out.split())
        assert f"coverage {measured['coverage']:.1%}" in printed
        assert f"mean size {measured['mean_size']:.2f}" in printed

    def test_a_run_reports_prediction_sets(self, cli, zoo_home):
        cli("ensemble", "combine", "resnet7-softmax.cifar10", "--sets", "0.1", "--name", "one")
        printed = cli("run", "one", "--data", "digits:test[:5]")
        assert "one has prediction sets: 90% coverage by LAC" in printed.remarks

    def test_errors(self, cli, outputs, invoke):
        assert "--sets" in cli("ensemble", "search", *NAMES, "--sets", "1.5", code=2).err
        with pytest.raises(InputError, check=fields(argument="test_fraction")):
            invoke("ensemble", "search", *NAMES, "--sets", "0.1", "--test-fraction", "0")
        with pytest.raises(InputError, check=fields(argument="kind", found="predictions")):
            invoke("ensemble", "search", *NAMES, "--sets", "0.1", "--votes")
        with pytest.raises(InputError, check=fields(argument="alpha", hint="{limit}")):
            invoke("ensemble", "budget", *NAMES, "--sets", "0.1")


@pytest.mark.parametrize(
    ("arguments", "option"),
    [
        (["--steps", "0"], "--steps"),
        (["--seed", "-1"], "--seed"),
        (["--test-fraction", "1e-9"], "--test-fraction"),
        (["--accuracy", "78"], "--accuracy"),
        (["-o", "path.gif"], "--output"),
    ],
)
def test_errors_name_the_option(cli, outputs, arguments, option):
    assert option in cli("ensemble", "search", *NAMES, *arguments, code=2).err.splitlines()[-1]


def test_errors(outputs, invoke):
    for models in (["no-such-model"], [*NAMES, "--base", "mine-x"]):
        with pytest.raises(UnknownName):
            invoke("ensemble", "search", *models)
    with pytest.raises(InputError, match="nothing"):
        invoke("ensemble", "search", *NAMES, "--candidates", "nothing-*")
    for name in ("../x", "x"):
        with pytest.raises(ZooError, match="x"):
            invoke("ensemble", "search", *NAMES, "--name", name)


def test_models_with_stored_outputs_only(invoke, tmp_path):
    rng = np.random.default_rng(0)
    labels = rng.integers(0, 3, 60)
    for name in "ab":
        logits = rng.normal(size=(60, 3)) + np.eye(3)[labels]
        np.savez(tmp_path / f"{name}.npz", logits=logits, labels=labels)
        invoke("import", tmp_path / f"{name}.npz", "--data", "mine")
    with pytest.raises(InputError, check=fields(where="a", argument="cost", hint="zoo import --meta")):
        invoke("ensemble", "budget", "a", "b", "--data", "mine", "--max-cost", "2M")
    with pytest.raises(InputError, check=fields(where="c: member a", hint="outputs")):
        invoke("ensemble", "combine", "a", "b", "--data", "mine", "--name", "c")
