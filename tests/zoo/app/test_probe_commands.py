"""`zoo probe`, on networks with random weights."""

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from raised import fields

import probes
from probes.model_probes import features_of
from zoo.app.probe import split_specs
from zoo.errors import InputError, UnknownName
from zoo.runs.runner import run

RESNET, VIT = "timm:test_resnet", "timm:test_vit"
TRAIN, TEST = "digits:train[:160]", "digits:test[:80]"
SPLITS = ("--data", TRAIN, "--test", TEST, "--random")


@pytest.fixture(scope="module")
def shared_home(tmp_path_factory: pytest.TempPathFactory):
    """Use one home for all tests of this module, so that each model runs only once."""
    return tmp_path_factory.mktemp("probe")


@pytest.fixture(autouse=True)
def one_home(zoo_home, shared_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ZOO_HOME", str(shared_home))


def both() -> tuple:
    return tuple(run([RESNET, VIT], data=spec, pretrained=False, progress=False) for spec in (TRAIN, TEST))


@pytest.mark.parametrize("kind", ["linear", "knn"])
def test_scores_equal_the_function(cli, kind: str, tmp_path: Path) -> None:
    words = ("probe", RESNET, VIT, *SPLITS, "--method", kind)
    value = cli(*words, "--json", "-o", tmp_path / "scores.svg", "-o", tmp_path / "scores.csv").json
    expected = probes.probe(*both(), kind=kind)
    assert (value["train"], value["test"], value["kind"], value["metric"]) == (TRAIN, TEST, kind, "accuracy")
    assert {row["model"]: row["score"] for row in value["models"]} == dict(
        zip(expected["model"], expected["score"], strict=True)
    )
    assert [row["score"] for row in value["models"]] == sorted((row["score"] for row in value["models"]), reverse=True)
    assert (tmp_path / "scores.svg").read_text().startswith("<svg")
    assert set(pd.read_csv(tmp_path / "scores.csv")["model"]) == {RESNET, VIT}
    assert f"{100 * value['models'][0]['score']:.1f}%" in cli(*words).out


def test_concatenation_and_stacking(cli, tmp_path: Path) -> None:
    words = ("probe", RESNET, VIT, *SPLITS, "--method")
    value = cli(*words, "concat", "--seeds", "1", "--json", "-o", tmp_path / "c.html").json
    (features, labels), test = (features_of(side) for side in both())
    expected = probes.concatenate(features, labels, RESNET, seeds=1, test=test)
    assert value["base"] == RESNET
    assert [row["accuracy"] for row in value["draws"]] == pytest.approx(expected["accuracy"].tolist())
    table = cli(*words, "concat", "--seeds", "2").out
    assert "100/0" in table
    assert "±" in table
    pairs = cli(*words, "stack", "--json").json["results"]
    assert [(row["first"], row["second"]) for row in pairs] == [(RESNET, None), (VIT, None), (RESNET, VIT)]
    raw = cli(*words, "stack", "--raw", "--json").json["results"]
    expected = probes.stack(features, labels, test, standardised=False)
    assert [row["score"] for row in raw] == pytest.approx(expected["score"].tolist())


def test_compression_reaches_the_score_of_the_base(cli, tmp_path: Path) -> None:
    words = ("probe", VIT, RESNET, *SPLITS, "--method", "compress")
    printed = cli(*words, "--dimensions-per-step", "80", "--json", "-o", tmp_path / "chart.vl.json")
    alone = probes.probe(*both()).set_index("model")["score"][VIT]
    assert printed.json["base"] == VIT
    result = printed.json["results"][RESNET]
    assert result["target"] == pytest.approx(alone)
    assert [row["dimensions"] for row in result["frame"]] == [80, 160]
    assert f"{100 * alone:.1f}%" in printed.err
    assert "layer" in json.loads((tmp_path / "chart.vl.json").read_text())
    assert " 80 " in cli(*words, "--dimensions-per-step", "80", "--target-score", "0.1").out
    options = ("--dimensions-per-step", "160", "--target-score", "0.1", "--order", "variance", "--json")
    order = cli(*words, *options).json["results"][RESNET]["order"]
    assert order["variance"] == sorted(order["variance"], reverse=True)


def test_a_dataset_with_one_split_is_divided(cli) -> None:
    printed = cli("probe", RESNET, "--data", TRAIN, "--random", "--json")
    assert "--test" in printed.err
    (row,) = printed.json["models"]
    assert 120 <= row["examples"] <= 135


def test_multilabel_stacking_ignores_difficult_objects(cli, invoke, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
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
    words = ("probe", RESNET, VIT, "--data", "voc2007", "--random", "--method")
    value = cli(*words, "stack", "--json").json
    assert value["metric"] == "map"
    sides = [run([RESNET, VIT], data=f"voc2007:{split}", pretrained=False, progress=False) for split in ("train", "test")]
    x, test_x = ({name: outputs.embeddings for name, outputs in side.items()} for side in sides)
    seen = [np.stack([marks[split, name] for name in ("cat", "dog")], 1) for split in ("trainval", "test")]
    y, test_y = (np.select([part == 1, part == -1], [1, 0], -1) for part in seen)
    expected = probes.stack(x, y, (test_x, test_y), multilabel=True)
    assert [row["score"] for row in value["results"]] == pytest.approx(expected["score"].tolist())
    with pytest.raises(InputError, check=fields(argument="kind", where="voc2007", hint="stack")):
        invoke(*words, "concat")


@pytest.mark.parametrize(
    ("data", "test", "expected"),
    [
        ("digits", None, ("digits:train", "digits:test")),
        ("in1k", None, ("in1k:train", "in1k:validation")),
        ("in-v2", None, ("in-v2:test", None)),
        ("digits:test", None, ("digits:test", None)),
        ("cifar10:train[:9]", "cifar10", ("cifar10:train[:9]", "cifar10:test")),
    ],
)
def test_a_dataset_name_selects_both_splits(data, test, expected) -> None:
    assert split_specs(data, test) == expected


def test_errors(invoke) -> None:
    words = ("probe", RESNET, VIT, *SPLITS)
    for kind in ("concat", "compress"):
        with pytest.raises(UnknownName, check=fields(name="nobody")):
            invoke(*words, "--method", kind, "--base", "nobody")
    with pytest.raises(InputError, match="map"):
        invoke(*words, "--metric", "map")
    with pytest.raises(InputError, match="manhattan"):
        invoke(*words, "--method", "knn", "--distance", "manhattan")
    with pytest.raises(InputError, check=fields(argument="output", found="scores.bmp")):
        invoke(*words, "-o", "scores.bmp")
    with pytest.raises(UnknownName, match="digitz"):
        split_specs("digitz", None)
