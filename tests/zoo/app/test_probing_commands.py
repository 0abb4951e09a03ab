"""`zoo probe`, run as a command on networks with random weights."""

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from typer.testing import CliRunner, Result

import probes
from probes.transfer import features_of
from zoo.app import probing
from zoo.app.main import app
from zoo.errors import InputError
from zoo.runs.runner import run

RESNET, VIT = "timm:test_resnet", "timm:test_vit"
TRAIN, TEST = "digits:train[:160]", "digits:test[:80]"
SPLITS = ("--data", TRAIN, "--test", TEST, "--random")


@pytest.fixture(scope="module", autouse=True)
def kept_outputs(tmp_path_factory: pytest.TempPathFactory):
    """One home for all: the models run once."""
    return tmp_path_factory.mktemp("probing")


@pytest.fixture(autouse=True)
def one_home(zoo_home, kept_outputs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_HOME", str(kept_outputs))


def zoo(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["probe", *arguments])


def result(*arguments: str) -> Result:
    found = zoo(*arguments)
    assert found.exception is None, found.exception
    return found


def both() -> tuple:
    return tuple(run([RESNET, VIT], data=spec, pretrained=False, progress=False) for spec in (TRAIN, TEST))


@pytest.mark.parametrize("kind", ["linear", "knn"])
def test_scores_are_the_functions(kind: str, tmp_path: Path) -> None:
    chart = tmp_path / "scores.svg"
    found = result(RESNET, VIT, *SPLITS, "--kind", kind, "--json", "--chart", str(chart))
    value = json.loads(found.stdout)
    expected = probes.probe(*both(), kind=kind)
    assert (value["train"], value["test"], value["kind"], value["metric"]) == (TRAIN, TEST, kind, "accuracy")
    assert {row["model"]: row["score"] for row in value["models"]} == dict(
        zip(expected["model"], expected["score"], strict=True)
    )
    assert [row["score"] for row in value["models"]] == sorted((row["score"] for row in value["models"]), reverse=True)
    assert chart.read_text().startswith("<svg")
    table = result(RESNET, VIT, *SPLITS, "--kind", kind)
    assert RESNET in table.stdout
    assert max(map(len, table.stdout.splitlines())) <= 80


def test_concatenation_and_stacking(tmp_path: Path) -> None:
    drawn = result(RESNET, VIT, *SPLITS, "--kind", "concat", "--seeds", "1", "--json", "--chart", str(tmp_path / "c.html"))
    value = json.loads(drawn.stdout)
    (features, labels), test = (features_of(side) for side in both())
    expected = probes.concatenate(features, labels, RESNET, seeds=1, test=test)
    assert value["base"] == RESNET
    assert [row["accuracy"] for row in value["draws"]] == pytest.approx(expected["accuracy"].tolist())
    table = result(RESNET, VIT, *SPLITS, "--kind", "concat", "--seeds", "2").stdout
    assert "100/0" in table
    assert "±" in table
    assert max(map(len, table.splitlines())) <= 80
    pairs = json.loads(result(RESNET, VIT, *SPLITS, "--kind", "stack", "--json").stdout)["results"]
    assert [(row["first"], row["second"]) for row in pairs] == [(RESNET, None), (VIT, None), (RESNET, VIT)]
    raw = json.loads(result(RESNET, VIT, *SPLITS, "--kind", "stack", "--raw", "--json").stdout)["results"]
    expected = probes.stack(features, labels, test, standardised=False)
    assert [row["score"] for row in raw] == pytest.approx(expected["score"].tolist())


def test_compression_aims_at_what_the_base_reaches(tmp_path: Path) -> None:
    chart = tmp_path / "compression.json"
    found = result(VIT, RESNET, *SPLITS, "--kind", "compress", "--multiples", "80", "--json", "--chart", str(chart))
    value = json.loads(found.stdout)
    alone = probes.probe(*both())
    assert value["base"] == VIT
    assert value["results"][RESNET]["target"] == pytest.approx(alone.set_index("model")["score"][VIT])
    assert [row["dimensions"] for row in value["results"][RESNET]["frame"]] == [80, 160]
    assert "what timm:test_vit reaches alone" in found.stderr
    assert "data" in json.loads(chart.read_text())["layer"][0] or "datasets" in json.loads(chart.read_text())
    table = result(VIT, RESNET, *SPLITS, "--kind", "compress", "--multiples", "80", "--target", "0.1").stdout
    assert " 80 " in table
    options = ("--kind", "compress", "--multiples", "160", "--target", "0.1", "--order", "variance", "--json")
    order = json.loads(result(VIT, RESNET, *SPLITS, *options).stdout)["results"][RESNET]["order"]
    assert order["variance"] == sorted(order["variance"], reverse=True)


def test_a_dataset_without_a_split_is_split() -> None:
    found = result(RESNET, "--data", TRAIN, "--random", "--json")
    assert "a fifth of each class is held out" in found.stderr
    (row,) = json.loads(found.stdout)["models"]
    assert 120 <= row["examples"] <= 135


def test_stacking_of_voc_ignores_what_is_difficult(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = tmp_path / "voc2007/VOCdevkit/VOC2007"
    (root / "ImageSets/Main").mkdir(parents=True)
    (root / "JPEGImages").mkdir()
    rng = np.random.default_rng(0)
    marks = {}
    for split, rows in (("trainval", range(60)), ("test", range(60, 100))):
        for name in ("cat", "dog"):
            marks[split, name] = rng.choice([-1, 0, 1], len(rows), p=[0.5, 0.2, 0.3])
            lines = [f"{row:06} {mark:2}" for row, mark in zip(rows, marks[split, name], strict=True)]
            (root / f"ImageSets/Main/{name}_{split}.txt").write_text("\n".join(lines) + "\n")
        for n, row in enumerate(rows):
            red, green = (128 + 60 * int(marks[split, name][n]) for name in ("cat", "dog"))
            Image.new("RGB", (32, 32), (red, green, int(rng.integers(256)))).save(root / f"JPEGImages/{row:06}.jpg")
    monkeypatch.setenv("ZOO_DATA", str(tmp_path))
    value = json.loads(result(RESNET, VIT, "--data", "voc2007", "--random", "--kind", "stack", "--json").stdout)
    assert value["metric"] == "map"
    sides = [run([RESNET, VIT], data=f"voc2007:{split}", pretrained=False, progress=False) for split in ("train", "test")]
    x, test_x = ({name: outputs.embeddings for name, outputs in side.items()} for side in sides)
    seen = [np.stack([marks[split, name] for name in ("cat", "dog")], 1) for split in ("trainval", "test")]
    y, test_y = (np.select([part == 1, part == -1], [1, 0], -1) for part in seen)
    expected = probes.stack(x, y, (test_x, test_y), multilabel=True)
    assert [row["score"] for row in value["results"]] == pytest.approx(expected["score"].tolist())
    error = zoo(RESNET, VIT, "--data", "voc2007", "--random", "--kind", "concat").exception
    assert "several classes; use --kind linear or stack" in str(error)


def test_a_name_alone_means_its_two_splits() -> None:
    assert probing._specs("digits", None) == ("digits:train", "digits:test")
    assert probing._specs("in1k", None) == ("in1k:train", "in1k:validation")
    assert probing._specs("in-v2", None) == ("in-v2:test", None)
    assert probing._specs("digits:test", None) == ("digits:test", None)
    assert probing._specs("cifar10:train[:9]", "cifar10") == ("cifar10:train[:9]", "cifar10:test")
    with pytest.raises(InputError, match="unknown dataset"):
        probing._specs("digitz", None)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--kind", "concat", "--base", "nobody"), "nobody"),
        (("--kind", "compress", "--base", "nobody"), "nobody"),
        (("--metric", "map"), "accuracy, mean-per-class"),
        (("--kind", "knn", "--distance", "manhattan"), "cosine, euclidean"),
        (("--chart", "scores.bmp"), "expected a name that ends in"),
    ],
)
def test_mistakes_are_named(arguments: tuple[str, ...], words: str) -> None:
    error = zoo(RESNET, VIT, *SPLITS, *arguments).exception
    assert isinstance(error, InputError)
    assert words in str(error)
