"""`zoo similarity` and `zoo separation`, on networks with random weights."""

import warnings
from pathlib import Path

import pandas as pd
import pytest
from raised import fields

from diversity import cka, class_separation
from zoo.app.terminal import warnings_as_notes
from zoo.errors import InputError, ZooWarning
from zoo.models import trained
from zoo.runs.runner import run

RESNET, VIT, DATA = "timm:test_resnet", "timm:test_vit", "digits:test[:40]"


def test_similarity_equals_the_function(cli, tmp_path: Path) -> None:
    paths = (tmp_path / "cka.svg", tmp_path / "cka.csv")
    words = ("similarity", RESNET, VIT, "--data", DATA, "--random", "--json", "-o", paths[0], "-o", paths[1])
    value = cli(*words).json
    expected = cka(RESNET, VIT, DATA, pretrained=False)
    assert value["first_layers"] == list(expected.index)
    assert value["second_layers"] == list(expected.columns)
    assert value["cka"] == [pytest.approx(row) for row in expected.to_numpy().tolist()]
    assert value["rows"] == 40
    assert paths[0].read_text().startswith("<svg")
    assert pd.read_csv(paths[1], index_col="layer").shape == expected.shape


def test_similarity_fits_the_terminal(cli, monkeypatch: pytest.MonkeyPatch) -> None:
    options = ("--data", DATA, "--random")
    small = cli("similarity", RESNET, RESNET, *options, "--layer", "layer1.0", "--layer", "embedding")
    assert any(line.split()[:2] == ["layer1.0", "1"] for line in small.out.splitlines())
    monkeypatch.setenv("COLUMNS", "60")
    wide = cli("similarity", RESNET, VIT, *options)
    assert "most similar" in wide.out
    assert "5 x 7 layers" in wide.err


def test_separation_of_embeddings(cli, tmp_path: Path) -> None:
    words = ("separation", "--data", DATA, "--random", RESNET)
    rows = cli(*words, VIT, "--json", "-o", tmp_path / "separation.html").json
    assert [row["model"] for row in rows] == [RESNET, VIT]
    runs = run([RESNET, VIT], data=DATA, pretrained=False, progress=False)
    for row in rows:
        outputs = runs[row["model"]]
        for metric in ("cosine", "centered-cosine", "euclidean"):
            assert row[metric] == pytest.approx(class_separation(outputs.embeddings, outputs.labels, metric))
        assert row["accuracy"] is None  # the model predicts ImageNet classes, not digits
    assert "vega" in (tmp_path / "separation.html").read_text()
    assert f"{rows[0]['cosine']:.4g}" in cli(*words).out


def test_separation_of_layers_and_over_training(cli, tmp_path: Path) -> None:
    options = ("--random", "--layers", "--distance", "euclidean")
    layers = cli("separation", RESNET, "--data", DATA, *options, "--json").json
    assert [row["layer"] for row in layers][-1] == "embedding"
    assert all(0 <= row["r2"] <= 1 for row in layers)
    log = trained.path("resnet8-softmax.digits").with_name("log.jsonl")
    log.parent.mkdir(parents=True)
    log.write_text('{"epoch": 1, "train_class_separation": 0.25}\n{"epoch": 2, "train_class_separation": 0.5}\n')
    rows = cli("separation", "resnet8-softmax", "--training", "--json", "-o", tmp_path / "training.png").json
    assert [row["r2"] for row in rows] == [0.25, 0.5]
    assert (tmp_path / "training.png").read_bytes().startswith(b"\x89PNG")


def test_warnings_of_the_package_become_notes(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        warnings.warn("no class separation: row 3 is a zero vector", ZooWarning, stacklevel=1)
        warnings.warn("something old", DeprecationWarning, stacklevel=1)

    with pytest.warns(DeprecationWarning, match="something old"), warnings_as_notes():
        [work() for _ in range(2)]  # printed once
    assert capsys.readouterr().err == "zoo: no class separation: row 3 is a zero vector\n"


def test_errors(invoke) -> None:
    with pytest.raises(InputError, check=fields(argument="layers", problem="--training")):
        invoke("separation", RESNET, "--layers", "--training")
    with pytest.raises(InputError, check=fields(argument="output", found="x.gif")):
        invoke("separation", RESNET, "-o", "x.gif")
    with pytest.raises(InputError, check=fields(argument="output", problem="no such folder")):
        invoke("similarity", RESNET, VIT, "-o", "nowhere/x.svg")
    with pytest.raises(InputError, match="resnet8-nothing"):
        invoke("separation", "resnet8-nothing", "--training")
    random = ("--data", DATA, "--random")
    for words in (
        ("similarity", RESNET, VIT, *random, "--kernel", "poly"),
        ("similarity", RESNET, VIT, *random, "--layer", "layer9"),
        ("separation", RESNET, *random, "--layers", "--distance", "manhattan"),
    ):
        with pytest.raises(InputError, match=words[-1]):
            invoke(*words)
