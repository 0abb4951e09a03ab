"""`zoo compare` and `zoo calibrate`, on imported outputs and on models that are run."""

import json
import subprocess
import sys

import numpy as np
import pytest
from typer.testing import CliRunner

import diversity
from zoo.app.main import app
from zoo.calibration import calibrate
from zoo.errors import InputError, UnknownName
from zoo.outputs import store
from zoo.outputs.outputs import Outputs

CLI = CliRunner()


def saved(name, seed, kind="logits", data="cifar10:test", rows=400, first_id=0):
    rng = np.random.default_rng(seed)
    y = np.random.default_rng(len(data)).integers(0, 4, rows)
    z = 3 * (rng.normal(size=(rows, 4)) + 1.5 * np.eye(4)[y])
    values = {kind: z if kind == "logits" else z.argmax(1)}
    ids = [f"{data}/{i}" for i in range(first_id, first_id + rows)]
    return store.save(Outputs.from_arrays(name, **values, labels=y, dataset=data, ids=ids))


def run(*arguments):
    result = CLI.invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


@pytest.fixture
def pair():
    return saved("mine-a", 0), saved("mine-b", 1)


class TestCompare:
    def test_text_fits_a_terminal(self, pair):
        text = run("compare", "mine-a", "mine-b").stdout
        assert all(len(line) <= 80 for line in text.splitlines())
        assert "First: mine-a. Second: mine-b. 200 examples on cifar10:test" in text
        assert "conversion rate" in text

    def test_json_is_the_comparison_of_calibrated_outputs(self, pair):
        found = json.loads(run("compare", "mine-a", "mine-b", "--json").stdout)
        runs = calibrate(pair, 0.5)
        expected = diversity.compare(*runs.values())
        assert found["examples"] == 200
        assert found["inconsistency"] == expected.inconsistency
        assert found["ensemble_accuracy"] == expected.ensemble_accuracy
        assert found["temperatures"] == [runs["mine-a"].temperature, runs["mine-b"].temperature]
        assert found["intervals"]["kappa"] == pytest.approx(expected.interval("kappa"))

    def test_uncalibrated_reports_on_every_row(self, pair):
        found = json.loads(run("compare", "mine-a", "mine-b", "--uncalibrated", "--json").stdout)
        assert found["examples"] == 400
        assert found["temperatures"] == [None, None]

    def test_a_calibration_dataset(self, pair):
        for name, seed in (("mine-a", 5), ("mine-b", 6)):
            saved(name, seed, data="cifar10:train")
        options = ("--data", "cifar10:test", "--split", "cifar10:train", "--json")
        found = json.loads(run("compare", "mine-a", "mine-b", *options).stdout)
        assert found["examples"] == 400
        assert None not in found["temperatures"]

    def test_predictions_only(self):
        saved("hard-a", 0, "predictions")
        saved("hard-b", 1, "predictions")
        assert "Only predictions were compared" in run("compare", "hard-a", "hard-b").stdout
        assert json.loads(run("compare", "hard-a", "hard-b", "--json").stdout)["ensemble_accuracy"] is None

    def test_a_model_with_itself(self, pair):
        found = json.loads(run("compare", "mine-a", "mine-a", "--json").stdout)
        assert (found["inconsistency"], found["kappa"], found["mean_theta"]) == (0, 1, 0)

    @pytest.mark.parametrize("suffix", [".html", ".svg", ".png", ".json"])
    def test_chart(self, pair, tmp_path, suffix):
        path = tmp_path / f"chart{suffix}"
        result = run("compare", "mine-a", "mine-b", "--chart", str(path))
        assert path.stat().st_size > 1000
        assert "wrote" in result.stderr
        assert "wrote" not in result.stdout

    def test_a_chart_that_fails_leaves_the_table(self, pair, tmp_path):
        (tmp_path / "chart.html").mkdir()
        result = CLI.invoke(app, ["compare", "mine-a", "mine-b", "--json", "--chart", str(tmp_path / "chart.html")])
        assert "chart.html: cannot be written" in str(result.exception)
        assert json.loads(result.stdout)["examples"] == 200

    def test_a_file_that_fails_leaves_the_table(self, pair, tmp_path):
        (tmp_path / "kappa.csv").mkdir()
        result = CLI.invoke(app, ["pairs", "mine-a", "mine-b", "--out", str(tmp_path / "kappa.csv")])
        assert "kappa.csv: cannot be written" in str(result.exception)
        assert "mine-b" in result.stdout

    def test_help_has_an_example(self):
        assert "zoo compare resnet8-softmax resnet8-cosine" in run("compare", "--help").stdout


class TestCalibrate:
    def test_a_share_is_shown_and_not_kept(self, pair):
        result = run("calibrate", "mine-*")
        assert all(len(line) <= 80 for line in result.stdout.splitlines())
        for expected in ("mine-a", "mine-b", "NLL at T", "ECE at T"):
            assert expected in result.stdout
        assert "not recorded" in result.stderr
        assert store.read_fits(store.open_runs("mine-a")["mine-a"].path) == {}

    def test_another_dataset_is_kept(self, pair):
        for name, seed in (("mine-a", 5), ("mine-b", 6)):
            saved(name, seed, data="cifar10:train")
        options = ("--data", "cifar10:test", "--split", "cifar10:train", "--json")
        found = json.loads(run("calibrate", "mine-a", "mine-b", *options).stdout)
        kept = store.open_runs("mine-a", "cifar10:test")["mine-a"]
        assert kept.temperature is None
        assert store.read_fits(kept.path)["cifar10:train"]["temperature"] == found[0]["temperature"]
        expected = calibrate(store.open_runs("mine-a", "cifar10:test"), "cifar10:train").to_frame().iloc[0]
        assert found[0]["nll_after"] == pytest.approx(expected["nll_after"]) != found[0]["fit"]["nll_after"]
        assert (found[0]["rows"], found[0]["fitted_on"]) == (400, "400 rows of cifar10:train")
        assert found[0]["population"] == "all 400 examples; temperatures fitted on 400 rows of cifar10:train"
        assert found[0]["fit"]["nll_after"] <= found[0]["fit"]["nll_before"]


class TestFaults:
    def test_unknown_model(self):
        with pytest.raises(UnknownName, match=r"unknown model 'resnet8-softmaxx'.*did you mean"):
            run("compare", "resnet8-softmaxx", "resnet8-cosine")

    def test_unknown_dataset(self, pair):
        with pytest.raises(InputError, match="cifar11"):
            run("compare", "mine-a", "mine-b", "--data", "cifar11:test")

    def test_more_than_two(self, pair):
        saved("mine-c", 2)
        with pytest.raises(InputError, match="expected two models, found 3"):
            run("compare", "mine-*", "mine-a")

    def test_chart_type(self, pair):
        with pytest.raises(InputError, match=r"chart.exe: expected a name that ends in \.html"):
            run("compare", "mine-a", "mine-b", "--chart", "chart.exe")

    def test_overlap(self, pair):
        with pytest.raises(InputError, match="both in the calibration split"):
            run("calibrate", "mine-a", "--split", "cifar10:test")

    def test_from_the_shell_it_is_one_line_and_exit_code_2(self, zoo_home):
        command = [sys.executable, "-m", "zoo", "compare", "nobody", "no-one"]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        assert result.returncode == 2
        assert len(result.stderr.strip().splitlines()) == 1
        assert "unknown model 'nobody'" in result.stderr


@pytest.mark.slow
def test_models_trained_here_are_run_and_calibrated_on_their_own_split():
    found = json.loads(run("compare", "resnet8-softmax", "resnet8-cosine", "--json").stdout)
    assert found["dataset"] == "digits:test"
    assert found["examples"] == 602
    assert found["category"] == "hparam"
    assert None not in found["temperatures"]
    assert found["cka"] is not None
