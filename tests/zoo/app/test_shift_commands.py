"""`zoo shift` and `zoo accuracy`, on stored outputs."""

import numpy as np
import pandas as pd
import pytest
from raised import fields

import diversity
from zoo.errors import InputError
from zoo.outputs import store
from zoo.outputs.outputs import Outputs, Runs

ROWS, CLASSES, MODELS = 400, 4, 6
SPECS = ("--in", "known", "--unlabelled", "new")


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
def both(zoo_home) -> tuple[Runs, Runs]:
    return saved("known", 0, 0), saved("new", 0.5, 1)


def test_shift(cli, both, tmp_path):
    words = ("shift", "mine-*", "--in", "known", "--out", "new")
    found = cli(*words, "--json", "-o", tmp_path / "shift.csv").json
    rows = {row["model"]: row for row in found["models"]}
    for name, known in both[0].items():
        assert (rows[name]["first"], rows[name]["second"]) == (known.accuracy, both[1][name].accuracy)
        assert rows[name]["drop"] == pytest.approx(known.accuracy - both[1][name].accuracy)
    low, high = found["slope_interval"]
    assert low < found["slope"] < high
    assert len(pd.read_csv(tmp_path / "shift.csv")) == MODELS
    printed = cli(*words)
    assert f"{100 * both[0]['mine-0'].accuracy:.1f}%" in printed.out
    assert f"{found['slope']:.3g}" in printed.err
    assert "at least three" in cli("shift", "mine-0", "mine-1", "--in", "known", "--out", "new").remarks


def test_accuracy_equals_the_function(cli, both, tmp_path):
    words = ("accuracy", "mine-*", *SPECS, "--min-r2", "0.5", "--max-half-width", "0.2")
    found = cli(*words, "--json", "-o", tmp_path / "a.csv").json
    expected = diversity.accuracy_without_labels(both[1], both[0], min_r2=0.5, max_half_width=0.2)
    assert found["refusal"] is expected.refusal is None
    assert [row["accuracy"] for row in found["frame"]] == pytest.approx(expected.frame["accuracy"].tolist())
    assert (found["in"], found["unlabelled"], found["r2"]) == ("known", "new", pytest.approx(expected.r2))
    assert len(pd.read_csv(tmp_path / "a.csv")) == MODELS
    printed = cli(*words)
    best = expected.frame.loc[expected.frame["accuracy"].idxmax()]
    assert printed.out.splitlines()[1].split()[:2] == [best["model"], f"{100 * best['accuracy']:.1f}%"]
    assert f"{100 * best['low']:.1f} to {100 * best['high']:.1f}" in printed.out


def test_a_rejected_estimate_has_a_reason_and_alternatives(cli, both):
    words = ("accuracy", "mine-*", *SPECS, "--min-r2", "1.01")
    printed = cli(*words)
    assert "1.01" in printed.err
    assert "confidence" in printed.out
    found = cli(*words, "--json").json
    assert {row["accuracy"] for row in found["frame"]} == {None}
    assert found["refusal"]
    width = 100 * found["half_width"]
    assert f"{width:.2f}" in cli("accuracy", "mine-*", *SPECS, "--max-half-width", "0.01").err


def test_errors(both, invoke):
    with pytest.raises(InputError, check=fields(argument="models", expected="4 models", found="mine-0")):
        invoke("accuracy", "mine-0", *SPECS)
    for option in ("--level", "--max-half-width", "--min-r2"):
        with pytest.raises(InputError, check=fields(argument=option[2:].replace("-", "_"))):
            invoke("accuracy", "mine-*", *SPECS, option, "nan")
    for words, argument in (
        (("shift", "--in", "known", "--out", "nowhere"), "outside"),
        (("shift", "--in", "nowhere", "--out", "new"), "inside"),
        (("accuracy", "--in", "nowhere", "--unlabelled", "new"), "inside"),
        (("accuracy", "--in", "known", "--unlabelled", "nowhere"), "unlabelled"),
    ):
        with pytest.raises(InputError, check=fields(argument=argument, name="nowhere")):
            invoke(*words, *both[0])
    with pytest.raises(InputError, check=fields(argument="output", expected=".csv")):
        invoke("shift", "mine-*", "--in", "known", "--out", "new", "-o", "x.txt")
