"""`zoo similarity` and `zoo separation`, run as commands on networks with random weights."""

import json
import warnings
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from diversity.layerwise import cka
from diversity.separation import class_separation
from zoo.app.main import app
from zoo.app.printing import warnings_as_notes
from zoo.errors import InputError, ZooWarning
from zoo.models import trained
from zoo.runs.runner import run

RESNET, VIT, DATA = "timm:test_resnet", "timm:test_vit", "digits:test[:40]"


def zoo(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def result(*arguments: str) -> Result:
    found = zoo(*arguments)
    assert found.exception is None, found.exception
    return found


def test_similarity_as_json_is_the_function(tmp_path: Path) -> None:
    chart = tmp_path / "cka.svg"
    found = result("similarity", RESNET, VIT, "--data", DATA, "--random", "--json", "--chart", str(chart))
    value = json.loads(found.stdout)
    expected = cka(RESNET, VIT, DATA, pretrained=False)
    assert value["first_layers"] == list(expected.index)
    assert value["second_layers"] == list(expected.columns)
    assert value["cka"] == [pytest.approx(row) for row in expected.to_numpy().tolist()]
    assert value["rows"] == 40
    assert chart.read_text().startswith("<svg")
    assert f"wrote {chart}" in found.stderr


def test_similarity_prints_what_fits() -> None:
    small = result("similarity", RESNET, RESNET, "--data", DATA, "--random", "--layer", "layer1.0", "--layer", "embedding")
    lines = small.stdout.splitlines()
    assert any(line.split()[:2] == ["layer1.0", "1"] for line in lines)
    wide = result("similarity", RESNET, VIT, "--data", DATA, "--random")
    assert "most like" in wide.stdout
    assert "5 x 7 layers" in wide.stderr
    assert max(map(len, (*lines, *wide.stdout.splitlines()))) <= 80


def test_separation_of_embeddings(tmp_path: Path) -> None:
    chart = tmp_path / "separation.html"
    found = result("separation", RESNET, VIT, "--data", DATA, "--random", "--json", "--chart", str(chart))
    rows = json.loads(found.stdout)
    assert [row["model"] for row in rows] == [RESNET, VIT]
    runs = run([RESNET, VIT], data=DATA, pretrained=False, progress=False)
    for row in rows:
        outputs = runs[row["model"]]
        for metric in ("cosine", "centered-cosine", "euclidean"):
            assert row[metric] == pytest.approx(class_separation(outputs.embeddings, outputs.labels, metric))
        assert row["accuracy"] is None  # 1,000 classes of ImageNet are not ten digits
    assert "vega" in chart.read_text()
    table = result("separation", RESNET, "--data", DATA, "--random").stdout
    assert "centered-cosine" in table
    assert max(map(len, table.splitlines())) <= 80


def test_separation_of_layers_and_over_training(tmp_path: Path) -> None:
    layers = json.loads(
        result("separation", RESNET, "--data", DATA, "--random", "--layers", "--metric", "euclidean", "--json").stdout
    )
    assert [row["layer"] for row in layers][-1] == "embedding"
    assert all(0 <= row["r2"] <= 1 for row in layers)
    log = trained.path("resnet8-softmax.digits").with_name("log.jsonl")
    log.parent.mkdir(parents=True)
    log.write_text('{"epoch": 1, "class_separation": 0.25}\n{"epoch": 2, "class_separation": 0.5}\n')
    chart = tmp_path / "training.png"
    rows = json.loads(result("separation", "resnet8-softmax", "--training", "--json", "--chart", str(chart)).stdout)
    assert [row["r2"] for row in rows] == [0.25, 0.5]
    assert chart.read_bytes().startswith(b"\x89PNG")


def test_our_warnings_become_notes_and_others_stay_warnings(capsys: pytest.CaptureFixture[str]) -> None:
    def work() -> None:
        warnings.warn("no class separation: conv1: row 3 is a zero vector", ZooWarning, stacklevel=1)
        warnings.warn("something old", DeprecationWarning, stacklevel=1)

    with pytest.warns(DeprecationWarning, match="something old"), warnings_as_notes():
        [work() for _ in range(2)]  # said once all the same
    assert capsys.readouterr().err == "zoo: no class separation: conv1: row 3 is a zero vector\n"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["separation", RESNET, "--layers", "--training"], "expected one of --layers and --training"),
        (["separation", RESNET, "--chart", "x.gif"], "expected a name that ends in .html"),
        (["similarity", RESNET, VIT, "--chart", "nowhere/x.svg"], "there is no folder"),
        (["similarity", RESNET, VIT, "--data", DATA, "--random", "--kernel", "poly"], "found 'poly'"),
        (["similarity", RESNET, VIT, "--data", DATA, "--random", "--layer", "layer9"], "no layer 'layer9'"),
        (["separation", RESNET, "--data", DATA, "--random", "--layers", "--metric", "manhattan"], "found 'manhattan'"),
        (["separation", "resnet8-nothing", "--training"], "there is no training log"),
    ],
)
def test_mistakes(arguments: list[str], message: str) -> None:
    found = zoo(*arguments)
    assert isinstance(found.exception, InputError)
    assert message in str(found.exception)


def test_help_has_an_example() -> None:
    for command in ("similarity", "separation"):
        assert f"zoo {command} resnet8-softmax" in " ".join(result(command, "--help").stdout.split())
