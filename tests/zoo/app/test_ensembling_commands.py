"""`zoo ensemble`, on stored outputs and on models that are run."""

import json
import subprocess
import sys

import numpy as np
import pytest
import scipy.stats
from typer.testing import CliRunner

import ensembles
import zoo
from zoo.app.main import app
from zoo.calibration import calibrate
from zoo.errors import InputError
from zoo.outputs import store
from zoo.outputs.outputs import Outputs

CLI = CliRunner()
NAMES = ["mine-a", "mine-b", "mine-c", "other-d"]


@pytest.fixture
def outputs():
    y = np.random.default_rng(0).integers(0, 4, 400)
    made = []
    for i, name in enumerate(NAMES):
        z = np.random.default_rng(i + 1).normal(size=(400, 4)) + (0.8 + 0.2 * i) * np.eye(4)[y]
        ids = [f"cifar10:test/{n}" for n in range(400)]
        made.append(store.save(Outputs.from_arrays(name, logits=3 * z, labels=y, dataset="cifar10:test", ids=ids)))
    return made


def run(*arguments):
    result = CLI.invoke(app, ["ensemble", *arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def test_text_fits_a_terminal_and_says_what_is_gained(outputs):
    result = run(*NAMES, "--base", "mine-a", "--steps", "3")
    assert all(len(line) <= 80 for line in result.stdout.splitlines())
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["step", "model", "category", "select", "test", "gain", "95%", "interval"]
    assert lines[1].split()[1] == "mine-a"
    assert len(lines) == 4 + 3 - 1 + 1
    assert "unseen examples" in lines[-1]


def test_json_is_the_search_on_calibrated_outputs(outputs):
    found = json.loads(run(*NAMES, "--steps", "4", "--replace", "--objective", "nll", "--seed", "5", "--json").stdout)
    path = ensembles.greedy(calibrate(outputs, 0.5), steps=4, replace=True, objective="nll", seed=5)
    assert found["members"] == path.members
    assert found["score"] == pytest.approx(path.score)
    assert found["test_score"] == pytest.approx(path.test_score)
    assert found["weights"] == pytest.approx(path.weights)
    assert found["interval"] == pytest.approx(path.interval)
    assert found["settings"]["selection_examples"] == 100
    assert found["population"] == "200 of 400 examples; the other 200 fitted the temperatures"


def test_candidates_and_uncalibrated(outputs):
    found = json.loads(run(*NAMES, "--base", "other-d", "--candidates", "mine-*", "--uncalibrated", "--json").stdout)
    assert found["members"][0] == "other-d"
    assert set(found["members"][1:]) == {"mine-a", "mine-b", "mine-c"}
    assert found["settings"]["selection_examples"] == 200
    assert found["population"] == "all 400 examples"
    accuracies = {one.name: one.accuracy for one in outputs}
    limit = sorted(accuracies.values())[1] + 0.001
    below = json.loads(run(*NAMES, "--below", str(limit), "--uncalibrated", "--test-fraction", "0", "--json").stdout)
    assert set(below["members"]) == {name for name, accuracy in accuracies.items() if accuracy <= limit}
    assert below["test_score"] is None


def test_steps_counts_what_is_added_to_the_base_or_to_the_best(outputs):
    free = json.loads(run(*NAMES, "--steps", "1", "--json").stdout)
    based = json.loads(run(*NAMES, "--steps", "1", "--base", free["members"][0], "--json").stdout)
    assert len(free["members"]) == 2
    assert free["members"] == based["members"]
    assert "nothing was added: no candidate is left beside the start" in run("mine-a", "--steps", "3").stdout


def test_predictions_alone_vote(zoo_home):
    y = np.random.default_rng(0).integers(0, 4, 300)
    predictions = {}
    for i, name in enumerate(NAMES):
        rng = np.random.default_rng(i + 1)
        predictions[name] = np.where(rng.random(300) < 0.6, y, rng.integers(0, 4, 300))
        store.save(Outputs.from_arrays(name, predictions=predictions[name], labels=y, dataset="mine", classes=list("abcd")))
    found = json.loads(run(*NAMES, "--votes", "--replace", "--steps", "5", "--test-fraction", "0", "--json").stdout)
    voted = scipy.stats.mode([predictions[name] for name in found["members"]], axis=0).mode
    assert found["score"][-1] == pytest.approx((voted == y).mean())
    with pytest.raises(InputError, match="only predictions are stored; --votes"):
        run(*NAMES, "--uncalibrated")


def test_a_table_is_printed_though_saving_fails(outputs):
    result = CLI.invoke(app, ["ensemble", *NAMES, "--save", "x", "--json"])
    assert "has no card" in str(result.exception)
    assert set(json.loads(result.stdout)["members"]) == set(NAMES)


def test_a_table_is_printed_though_the_chart_fails(outputs, tmp_path):
    (tmp_path / "path.svg").mkdir()
    result = CLI.invoke(app, ["ensemble", *NAMES, "--json", "--chart", str(tmp_path / "path.svg")])
    assert str(result.exception).startswith("--chart ")
    assert set(json.loads(result.stdout)["members"]) == set(NAMES)


def test_noise_is_a_note_and_charts_are_written(outputs, tmp_path):
    result = run(*NAMES, "--base", "other-d", "--candidates", "mine-a", "--chart", str(tmp_path / "path.svg"))
    assert "within noise" in result.stderr
    assert "wrote" in result.stderr
    assert (tmp_path / "path.svg").read_text().startswith("<svg")


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # whatever a training says
def test_an_ensemble_of_trained_models_is_saved_and_taken_like_any_model(zoo_home):
    names = ["resnet8-softmax", "resnet8-cosine"]
    result = run(*names, "--base", names[0], "--steps", "1", "--budget", "1e7", "--save", "mine")
    assert "hparam" in result.stdout
    assert "wrote" in result.stderr
    assert (zoo_home / "cards" / "mine.md").exists()
    saved = zoo.card("mine")
    assert {member.name for member in saved.members} <= {f"{name}.digits" for name in names}
    found = json.loads(run("mine", "resnet8-sigmoid", "--json").stdout)
    assert set(found["members"]) == {"mine", "resnet8-sigmoid.digits"}
    # What the search scored is what the model does: the mean of both members on the same images.
    alone = zoo.run("mine", data="digits:test", progress=False)["mine"]
    parts = calibrate(zoo.run(names, data="digits:test", progress=False), "digits:calibration")
    mean = ensembles.average(parts, {member.name: member.weight for member in saved.members})
    assert (alone.predictions == mean.argmax(1)).mean() > 0.998


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["no-such-model"], "unknown model 'no-such-model'"),
        ([*NAMES, "--base", "mine-x"], "unknown model 'mine-x'"),
        ([*NAMES, "--steps", "0"], "^--steps: expected at least 1"),
        ([*NAMES, "--seed", "-1"], "^--seed: "),
        ([*NAMES, "--test-fraction", "1e-9"], "pass --test-fraction 0 to search on all"),
        ([*NAMES, "--candidates", "nothing-*"], "none of the 4 models matches"),
        ([*NAMES, "--below", "78"], "fractions between 0 and 1"),
        ([*NAMES, "--chart", "path.gif"], "expected a name that ends in"),
        ([*NAMES, "--save", "../x"], "ensemble name"),
        ([*NAMES, "--save", "x"], "has no card"),
    ],
)
def test_mistakes_are_named(outputs, arguments, words):
    with pytest.raises(InputError, match=words):
        run(*arguments)


def test_a_mistake_ends_in_one_line_and_exit_code_2(outputs):
    command = [sys.executable, "-m", "zoo", "ensemble", *NAMES, "--base", "mine-x"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("zoo: unknown model 'mine-x'")
    assert done.stderr.count("\n") == 1


def test_together_takes_all_as_they_are(outputs):
    found = json.loads(run(*NAMES[:3], "--together", "--data", "cifar10:test", "--json").stdout)
    assert sorted(found["members"]) == NAMES[:3]
    assert found["best"] == 3
    runs = calibrate(store.open_runs(NAMES[:3], "cifar10:test"))
    _, test = ensembles.stratified_split(runs.labels)
    assert found["test_score"][-1] == ensembles.improvement(runs.select(test)).ensemble_accuracy
    with pytest.raises(InputError, match="no --base"):
        CLI.invoke(app, ["ensemble", *NAMES, "--together", "--base", NAMES[0]], catch_exceptions=False)
