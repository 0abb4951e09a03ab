"""`zoo list`, `zoo show` and `zoo datasets`."""

import dataclasses
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from raised import fields

import zoo
from zoo.cards import card as cards
from zoo.errors import InputError, UnknownName


def names(printed) -> list[str]:
    return [row["name"] for row in printed.json]


def run_code(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, **environment})


class TestList:
    def test_all_models_are_listed_with_full_names(self, cli):
        printed = cli("list")
        lines = printed.out.splitlines()
        assert [line.split()[0] for line in lines[1:]] == zoo.list()
        assert lines[0].split()[:3] == ["name", "family", "data"]
        assert f"{len(lines) - 1} models" in printed.err

    @pytest.mark.parametrize(
        "selectors",
        [["clip-*"], ["resnet50-cosine.in1k", "clip-*"], ["@cifar10"], ["@cifar10", "objective=cosine"], ["tau=0.05"]],
    )
    def test_selectors(self, cli, selectors):
        assert names(cli("list", *selectors, "--json")) == zoo.list(selectors)

    def test_fields(self, cli):
        rows = cli("list", "accuracy=74..78", "source=timm", "--json").json
        assert rows
        assert all(74 <= row["accuracy"] <= 78 and row["source"] == "timm" for row in rows)
        assert {row["accuracy_by"] for row in rows} == {"library"}
        assert f"{zoo.card('resnet50-ra').accuracy:.2f} l" in cli("list", "resnet50-ra").out

    def test_availability_of_weights(self, cli):
        printed = cli("list")
        words = {line.split()[0]: line.split()[1:] for line in printed.out.splitlines()}
        for name, state in {
            "efficientnet-lite0": "local", "clip-vit-b32": "download", "resnet50-cosine.in1k": "train",
            "simclr-resnet50": "never", "r7x2.cifar10": "shipped",
        }.items():  # fmt: skip
            assert state in words[name]
        here = zoo.list(available=True)
        assert f"{len(here)} with weights on this machine" in printed.remarks
        assert names(cli("list", "--available", "here", "--json")) == here
        assert names(cli("list", "--available", "to train", "--available", "local", "--json")) == zoo.list(
            available=["to train", "local"]
        )

    def test_data_selects_models_with_outputs_on_the_dataset(self, cli, store_outputs):
        store_outputs("mine", 0, data="my-set")
        assert names(cli("list", "--data", "my-set", "--json")) == ["mine"]
        assert names(cli("list", "r7*", "--data", "cifar10", "--json")) == zoo.list("r7*", data="cifar10")

    def test_no_matching_model_is_not_an_error(self, cli):
        assert cli("list", "no-such-*").out == ""
        assert cli("list", "no-such-*", "--json").json == []

    def test_errors(self, invoke):
        with pytest.raises(UnknownName, check=fields(kind="field", suggestions=("objective",))):
            invoke("list", "objectiv=cosine")
        with pytest.raises(UnknownName, check=fields(kind="model", suggestions=("resnet50-cosine",))):
            invoke("list", "resnet50-cosin")
        with pytest.raises(InputError, check=fields(argument="available", found="nowhere")):
            invoke("list", "--available", "nowhere")

    def test_imports_no_large_library(self, cli):
        """The command takes about half a second of CPU time; the limit leaves room for slow machines."""
        cli("list")  # fills caches
        result = run_code(
            "import sys, time\n"
            "from zoo.app.main import main\n"
            "sys.argv = ['zoo', 'list']\n"
            "try:\n"
            "    main()\n"
            "finally:\n"
            "    loaded = {'torch', 'numpy', 'timm', 'rich.table'} & {*sys.modules}\n"
            "    print(time.process_time(), sorted(loaded), file=sys.stderr)\n"
        )
        seconds, loaded = result.stderr.splitlines()[-1].split(" ", 1)
        assert loaded == "[]"
        assert float(seconds) < 3


class TestShow:
    @pytest.mark.parametrize(
        "name", ["resnet50-cosine.in1k", "clip-vit-b32", "resnet8", "mpl-efficientnet-l2", "resnet8-cosine-s3"]
    )
    def test_card_is_shown(self, invoke, name):
        card = zoo.card(name)
        text = invoke("show", name).stdout
        for fact in (
            zoo.availability(name),
            card.license,
            card.architecture,
            card.training.dataset,
            card.training.objective,
        ):
            assert fact in text
        # long URLs are not wrapped
        assert all(len(line) <= 80 or "https://" in line for line in text.splitlines())

    def test_json(self, cli):
        shown = cli("show", "resnet50-cosine.imagenet-1k", "--json").json
        assert (shown["name"], shown["weights"], shown["trained_here"]) == ("resnet50-cosine.in1k", "to train", None)
        assert (shown["training"]["objective"], shown["accuracy"]) == ("cosine", 77.9)

    def test_card_text_is_printed(self, invoke):
        assert invoke("show", "resnet50-cosine.in1k", "--card").stdout == zoo.card("resnet50-cosine.in1k").path.read_text()
        for name in ("resnet8-cosine.digits", "wrn-16-8-softmax.cifar10"):
            assert cards.parse(invoke("show", name, "--card").stdout, "printed") == zoo.card(name)

    def test_a_card_in_the_home(self, cli, zoo_home: Path):
        (zoo_home / "cards").mkdir()
        card = dataclasses.replace(zoo.card("resnet8-cosine"), name="mine", title="Mine", body="# Mine\n\nA remark.")
        (zoo_home / "cards" / "mine.md").write_text(cards.write(card))
        assert "A remark." in cli("show", "mine").out
        assert names(cli("list", "mine", "--json")) == ["mine"]

    def test_unknown_models(self, invoke):
        with pytest.raises(UnknownName, check=fields(suggestions=("r7x2.cifar10",))):
            invoke("show", "r7x2")
        with pytest.raises(InputError):
            invoke("show", "../../etc/passwd")


def test_imported_models_are_listed_and_shown(cli, tmp_path: Path):
    rng = np.random.default_rng(0)
    for name in ("plain", "described"):
        np.savez(tmp_path / f"{name}.npz", logits=rng.normal(size=(30, 3)), labels=np.arange(30) % 3)
    (tmp_path / "models.csv").write_text("model,family,framework\ndescribed,convnext,supervised\n")
    options = ("--kind", "logits", "--data", "my-set")
    cli("import", tmp_path / "plain.npz", *options)
    cli("import", tmp_path / "described.npz", "--meta", tmp_path / "models.csv", *options)
    listed = {row["name"]: row for row in cli("list", "--json").json}
    assert (listed["plain"]["weights"], listed["plain"]["family"]) == ("outputs only", "unknown")
    assert (listed["described"]["weights"], listed["described"]["family"]) == ("outputs only", "convnext")
    assert names(cli("list", "family=convnext", "--available", "outputs only", "--json")) == ["described"]
    assert names(cli("list", "plai*", "clip-vit-b32", "--json")) == ["clip-vit-b32", "plain"]
    for name in ("plain", "described"):
        assert "logits of 30 examples, 3 classes, on my-set" in cli("show", name).out
        assert cli("show", name, "--json").json["outputs"][0]["dataset"] == "my-set"
    assert "convnext" in cli("show", "described").out


def test_views_of_a_dataset_use_its_images(cli, tmp_path, monkeypatch):
    def listed():
        return {row["name"]: (row["state"], row["place"]) for row in cli("datasets", "--json").json}

    views = ("cifar10-half", "cifar10-other-half", "cifar10-grey")
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hub"))
    monkeypatch.setenv("ZOO_DATA", str(tmp_path))
    assert {listed()[name] for name in ("cifar10", *views)} == {("missing", "hf:uoft-cs/cifar10")}
    (tmp_path / "cifar10").mkdir()
    assert {listed()[name] for name in ("cifar10", *views)} == {("found", str(tmp_path / "cifar10"))}
    assert listed()["cifar100"][0] == "missing"


def test_datasets(cli, store_outputs, invoke):
    store_outputs("mine", 0, data="my-set", rows=30)
    states = {row["name"]: row["state"] for row in cli("datasets", "--json").json}
    assert (states["digits"], states["my-set"]) == ("embedded", "outputs only")
    assert "my-set" in cli("datasets").out
    assert cli("datasets", "my-set", "--list-ids").out.splitlines() == [f"my-set/{row}" for row in range(30)]
    assert "299 examples, 10 classes: 0, 1, 2" in cli("datasets", "digits:calibration").out
    assert len(cli("datasets", "digits:test", "--list-ids", "--json").json["ids"]) == 602
    with pytest.raises(InputError, check=fields(argument="ids")):
        invoke("datasets", "--list-ids")
    with pytest.raises(UnknownName, match="digits"):
        invoke("datasets", "digitz")


@pytest.mark.parametrize(
    ("settings", "expected"),
    [({}, "10000"), ({"GOMP_SPINCOUNT": "7"}, "7"), ({"OMP_WAIT_POLICY": "active"}, "None")],
)
def test_threads_spin_briefly_by_default(settings, expected, monkeypatch):
    """Uses a new process because torch reads the setting only when it is imported."""
    for name in ("GOMP_SPINCOUNT", "OMP_WAIT_POLICY"):
        monkeypatch.delenv(name, raising=False)
    result = run_code(
        "import os, sys\n"
        "from zoo.app.main import main\n"
        "sys.argv = ['zoo', '--version']\n"
        "try:\n"
        "    main()\n"
        "finally:\n"
        "    print(os.environ.get('GOMP_SPINCOUNT'), 'torch' in sys.modules)\n",
        **settings,
    )
    assert result.stdout.splitlines()[-1] == f"{expected} False"
