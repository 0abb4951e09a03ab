"""`zoo accuracy` and `zoo triage` on imported outputs."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

import diversity
from zoo.app.main import app
from zoo.errors import InputError
from zoo.outputs import store
from zoo.outputs.outputs import Outputs, Runs

CLI = CliRunner()
ROWS, CLASSES, MODELS = 400, 4, 6


def saved(data: str, loss: float, seed: int) -> Runs:
    rng = np.random.default_rng(seed)
    y = rng.integers(0, CLASSES, ROWS)
    shared = rng.normal(size=(ROWS, CLASSES))
    found = []
    for i in range(MODELS):
        z = (1.5 + 0.5 * i - loss) * np.eye(CLASSES)[y] + shared + rng.normal(size=(ROWS, CLASSES))
        found.append(store.save(Outputs.from_arrays(f"mine-{i}", logits=2 * z, labels=y, dataset=data)))
    return Runs(found)


@pytest.fixture
def both() -> tuple[Runs, Runs]:
    return saved("known", 0, 0), saved("new", 0.5, 1)


def run(*arguments: str) -> Any:
    result = CLI.invoke(app, list(arguments), catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result


def test_accuracy_is_what_the_function_says(both: tuple[Runs, Runs], tmp_path: Path) -> None:
    words = ("accuracy", "mine-*", "--from", "known", "--to", "new", "--least-r2", "0.5")
    found = json.loads(run(*words, "--json", "-o", str(tmp_path / "a.csv")).stdout)
    expected = diversity.accuracy_without_labels(both[1], both[0], least_r2=0.5)
    assert found["refusal"] is expected.refusal is None
    assert [row["accuracy"] for row in found["frame"]] == pytest.approx(expected.frame["accuracy"].tolist())
    assert (found["from"], found["to"], found["r2"]) == ("known", "new", pytest.approx(expected.r2))
    assert len(pd.read_csv(tmp_path / "a.csv")) == MODELS
    text = run(*words)
    assert all(len(line) <= 80 for line in text.stdout.splitlines())
    assert "lie on a line (15 pairs of models" in text.stderr


def test_a_refusal_is_a_sentence_beside_the_other_estimates(both: tuple[Runs, Runs]) -> None:
    words = ("accuracy", "mine-*", "--from", "known", "--to", "new", "--least-r2", "1.01")
    text = run(*words)
    assert "No answer: the agreements of pairs do not lie on a line (R^2 1.00, expected at least 1.01)" in text.stderr
    assert "confidence" in text.stdout
    found = json.loads(run(*words, "--json").stdout)
    assert {row["accuracy"] for row in found["frame"]} == {None}
    assert "do not lie on a line" in found["refusal"]


def test_triage_is_what_the_function_says(both: tuple[Runs, Runs], tmp_path: Path) -> None:
    found = json.loads(run("triage", "mine-*", "--data", "known", "-n", "7", "--json", "-o", str(tmp_path / "t.csv")).stdout)
    expected = diversity.triage(both[0])
    assert [row["id"] for row in found["rows"]] == expected.frame["id"][:7].tolist()
    assert found["kinds"] == expected.counts()
    assert len(pd.read_csv(tmp_path / "t.csv")) == ROWS == found["examples"]
    text = run("triage", "mine-*", "--data", "known", "--kind", "ambiguous", "-n", "3")
    assert all(len(line) <= 80 for line in text.stdout.splitlines())
    assert "labels are wrong" in text.stderr


def test_mistakes_are_said(both: tuple[Runs, Runs], tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"--first: expected at least 1, found 0"):
        run("triage", "mine-*", "--data", "known", "-n", "0")
    with pytest.raises(InputError, match=r"--out .*t\.txt: expected a name that ends in \.csv"):
        run("triage", "mine-*", "--data", "known", "-o", str(tmp_path / "t.txt"))
    with pytest.raises(InputError, match="expected at least 4 models"):
        run("accuracy", "mine-0", "--from", "known", "--to", "new")
