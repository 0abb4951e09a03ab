"""`zoo compare` and `zoo calibrate`, on stored outputs and on models that are run."""

import json

import numpy as np
import pytest
from raised import fields

import diversity
from zoo.calibration import calibrate
from zoo.errors import InputError, UnknownName
from zoo.outputs import store


@pytest.fixture
def pair(store_outputs):
    return store_outputs("mine-a", 0), store_outputs("mine-b", 1)


class TestCompare:
    def test_text(self, cli, pair):
        printed = cli("compare", "mine-a", "mine-b")
        for fact in ("mine-a", "mine-b", "400 examples", "cifar10:test", "conversion rate"):
            assert fact in printed.out
        assert "all 400 examples" in printed.err

    def test_json_is_the_comparison_of_calibrated_outputs(self, cli, pair):
        found = cli("compare", "mine-a", "mine-b", "--json").json
        runs = calibrate(pair)
        expected = diversity.compare(*runs.values())
        assert found["examples"] == 400
        assert found["inconsistency"] == expected.inconsistency
        assert found["ensemble_accuracy"] == expected.ensemble_accuracy
        assert found["temperatures"] == [runs["mine-a"].temperature, runs["mine-b"].temperature]
        assert found["intervals"]["kappa"] == pytest.approx(expected.interval("kappa"))

    def test_calibration_examples_are_not_reported(self, cli, pair):
        found = cli("compare", "mine-a", "mine-b", "--temperatures-from", "0.5", "--json").json
        assert found["examples"] == 200
        assert found["temperatures"] == [outputs.temperature for outputs in calibrate(pair, 0.5).values()]

    @pytest.mark.parametrize("fraction", ["1", "0.0001"])
    def test_a_fraction_that_leaves_one_side_empty_names_the_option(self, cli, pair, fraction):
        assert "--temperatures-from" in cli("compare", "mine-a", "mine-b", "--temperatures-from", fraction, code=2).err

    def test_uncalibrated_uses_all_examples(self, cli, pair):
        found = cli("compare", "mine-a", "mine-b", "--uncalibrated", "--json").json
        assert (found["examples"], found["temperatures"]) == (400, [None, None])

    def test_temperatures_from_a_dataset(self, cli, pair, store_outputs):
        store_outputs("mine-a", 5, data="cifar10:train")
        store_outputs("mine-b", 6, data="cifar10:train")
        options = ("--data", "cifar10:test", "--temperatures-from", "cifar10:train", "--json")
        found = cli("compare", "mine-a", "mine-b", *options).json
        assert found["examples"] == 400
        assert None not in found["temperatures"]

    def test_predictions_only(self, cli, store_outputs):
        store_outputs("hard-a", 0, kind="predictions")
        store_outputs("hard-b", 1, kind="predictions")
        assert cli("compare", "hard-a", "hard-b", "--json").json["ensemble_accuracy"] is None
        assert "conversion rate" not in cli("compare", "hard-a", "hard-b").out

    def test_a_model_with_itself(self, cli, pair):
        found = cli("compare", "mine-a", "mine-a", "--json").json
        assert (found["inconsistency"], found["kappa"], found["mean_theta"]) == (0, 1, 0)

    def test_the_dataset_is_inferred_and_shipped_outputs_need_no_images(self, cli):
        found = cli("compare", "resnet7-softmax.cifar10", "r7x2.cifar10", "--json").json
        assert (found["dataset"], found["examples"]) == ("cifar10:test", 10000)

    @pytest.mark.parametrize("ending", [".html", ".svg", ".png", ".json", ".vl.json"])
    def test_files(self, cli, pair, tmp_path, ending):
        path = tmp_path / f"result{ending}"
        printed = cli("compare", "mine-a", "mine-b", "-o", path)
        assert path.stat().st_size > 1000
        assert f"wrote {path}" in printed.err
        assert "wrote" not in printed.out
        if ending == ".json":
            assert json.loads(path.read_text()) == cli("compare", "mine-a", "mine-b", "--json").json
        if ending == ".vl.json":
            assert "vega-lite" in json.loads(path.read_text())["$schema"]

    def test_the_result_is_printed_if_the_file_cannot_be_written(self, cli, pair, tmp_path):
        (tmp_path / "chart.html").mkdir()
        printed = cli("compare", "mine-a", "mine-b", "--json", "-o", tmp_path / "chart.html", code=1)
        assert printed.json["examples"] == 400
        assert "chart.html" in printed.err

    @pytest.fixture
    def files(self, pair, tmp_path):
        """Save the logits of mine-b as other, and those of mine-a without the first ten examples."""
        for name, outputs, first in (("other", pair[1], 0), ("short", pair[0], 10)):
            arrays = {"logits": outputs.logits[first:], "labels": outputs.labels[first:], "ids": outputs.ids[first:]}
            np.savez(tmp_path / f"{name}.npz", **arrays)
        return tmp_path

    def test_from_reads_files_without_storing_them(self, cli, pair, files):
        expected = cli("compare", "mine-a", "mine-b", "--uncalibrated", "--json").json
        mixed = cli("compare", "mine-a", "other", "--from", files / "other.npz", "--uncalibrated", "--json").json
        assert mixed["kappa"] == expected["kappa"]
        assert {run["model"] for run in cli("outputs", "--json").json} == {"mine-a", "mine-b"}

    def test_common_keeps_shared_examples(self, cli, files, invoke):
        words = ("compare", "--from", files / "other.npz", "--from", files / "short.npz", "--uncalibrated")
        assert cli(*words, "--common", "--json").json["examples"] == 390
        with pytest.raises(InputError, match="short"):
            invoke(*words)

    def test_fresh_runs_models_again(self, cli, store_outputs):
        name = "timm:test_vit"
        words = ("compare", name, name, "--data", "digits:test[:20]", "--uncalibrated")
        store_outputs(name, 0, data="digits:test[:20]", rows=20)
        assert cli(*words, "--json").json["examples"] == 20
        assert "weights" in cli(*words, "--fresh", code=1).err  # would have to be downloaded


class TestCalibrate:
    @pytest.mark.parametrize("source", ["0.5", "cross-fit"])
    def test_a_temperature_fitted_on_the_same_examples_is_not_stored(self, cli, pair, source):
        printed = cli("calibrate", "mine-*", "--temperatures-from", source)
        for text in ("mine-a", "mine-b", "NLL at T", "ECE at T"):
            assert text in printed.out
        assert "not stored" in printed.err
        assert store.read_fits(store.open_runs("mine-a")["mine-a"].path) == {}

    def test_a_temperature_from_another_dataset_is_stored(self, cli, pair, store_outputs):
        store_outputs("mine-a", 5, data="cifar10:train")
        store_outputs("mine-b", 6, data="cifar10:train")
        options = ("--data", "cifar10:test", "--temperatures-from", "cifar10:train")
        found = cli("calibrate", "mine-a", "mine-b", *options, "--json").json
        outputs = store.open_runs("mine-a", "cifar10:test")["mine-a"]
        assert outputs.temperature is None
        assert store.read_fits(outputs.path)["cifar10:train"]["temperature"] == found[0]["temperature"]
        expected = calibrate(store.open_runs("mine-a", "cifar10:test"), "cifar10:train").to_frame().iloc[0]
        assert found[0]["nll_after"] == pytest.approx(expected["nll_after"]) != found[0]["fit"]["nll_after"]
        assert found[0]["rows"] == 400
        assert found[0]["fit"]["nll_after"] <= found[0]["fit"]["nll_before"]
        assert "2 models" in cli("calibrate", "mine-a", "mine-b", *options).err

    def test_device(self, cli, pair):
        default, on_cpu = (cli("calibrate", "mine-*", *words, "--json").json for words in ((), ("--device", "cpu")))
        assert [row["temperature"] for row in on_cpu] == pytest.approx([row["temperature"] for row in default], rel=1e-7)
        assert "--device" in cli("calibrate", "mine-*", "--device", "quantum", code=2).err


class TestErrors:
    def test_unknown_model(self, invoke):
        with pytest.raises(UnknownName, check=fields(kind="model", suggestions=("resnet8-softmax",))):
            invoke("compare", "resnet8-softmaxx", "resnet8-cosine")

    def test_unknown_dataset(self, pair, invoke):
        with pytest.raises(InputError, match="cifar11"):
            invoke("compare", "mine-a", "mine-b", "--data", "cifar11:test")

    def test_models_of_different_datasets(self, cli):
        assert "--data" in cli("compare", "resnet8-cosine.digits", "r7x2.cifar10", code=2).err

    def test_the_number_of_models_must_be_two(self, pair, store_outputs, invoke):
        store_outputs("mine-c", 2)
        for models in (["mine-*", "mine-a"], ["mine-a"]):
            with pytest.raises(InputError, check=fields(argument="models", expected="two")):
                invoke("compare", *models)
        with pytest.raises(InputError, check=fields(argument="models")):
            invoke("compare")

    def test_files(self, pair, invoke):
        with pytest.raises(InputError, check=fields(argument="output", found="chart.exe", expected=".html")):
            invoke("compare", "mine-a", "mine-b", "-o", "chart.exe")
        with pytest.raises(InputError, check=fields(argument="output", problem="no such folder")):
            invoke("compare", "mine-a", "mine-b", "-o", "/nowhere/chart.svg")

    def test_temperatures_are_not_fitted_on_reported_examples(self, pair, invoke):
        with pytest.raises(InputError, match="mine-a"):
            invoke("calibrate", "mine-a", "--temperatures-from", "cifar10:test")

    def test_missing_weights(self, cli):
        printed = cli("compare", "resnet50-cosine.in1k", "resnet50-softmax.in1k", "--data", "digits:test", code=1)
        assert "zoo train resnet50-cosine.in1k" in printed.err


@pytest.mark.slow
def test_trained_models_are_calibrated_on_their_calibration_split(cli):
    found = cli("compare", "resnet8-softmax", "resnet8-cosine", "--json").json
    assert (found["dataset"], found["examples"], found["category"]) == ("digits:test", 602, "hparam")
    assert None not in found["temperatures"]
    assert found["cka"] is not None
