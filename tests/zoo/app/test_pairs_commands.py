"""`zoo pairs`, on imported predictions."""

import itertools
import json

import numpy as np
import pandas as pd
import pytest
from raised import fields
from scipy.cluster.hierarchy import linkage
from sklearn.metrics import cohen_kappa_score

import diversity
from zoo.errors import InputError, UnknownName, ZooError
from zoo.outputs import store
from zoo.outputs.outputs import Outputs

N = 200
LABELS = np.random.default_rng(5).integers(0, 4, N)
SKILL = {"weak": 0.5, "fair": 0.65, "good": 0.8, "best": 0.9, "odd": 0.85}


@pytest.fixture
def predictions(cli, tmp_path):
    """Import the predictions of five models from a .csv file with one column per model."""
    made = {}
    for seed, (name, skill) in enumerate(SKILL.items()):
        rng = np.random.default_rng(seed)
        made[name] = np.where(rng.random(N) < skill, LABELS, rng.integers(0, 4, N))
    pd.DataFrame({"y_true": LABELS, **made}).to_csv(tmp_path / "all.csv", index=False)
    cli("import", tmp_path / "all.csv", "--kind", "predictions", "--data", "my-set")
    return made


def test_matrix_and_rows(cli, predictions, tmp_path):
    printed = cli("pairs", *SKILL, "--data", "my-set", "-o", tmp_path / "kappa.csv", "-o", tmp_path / "kappa.json")
    matrix = pd.read_csv(tmp_path / "kappa.csv", index_col="model")
    correct = {name: predicted == LABELS for name, predicted in predictions.items()}
    for first, second in itertools.product(SKILL, SKILL):
        expected = 1 if first == second else cohen_kappa_score(correct[first], correct[second])
        assert matrix.loc[first, second] == pytest.approx(expected)
    assert all(name in printed.out for name in SKILL)
    assert printed.out.startswith("error consistency (kappa), all 200 examples\n")
    assert len(json.loads((tmp_path / "kappa.json").read_text())) == 5
    rows = cli("pairs", *SKILL, "--long", "--json").json  # the dataset is inferred
    assert len(rows) == 10
    assert rows[0]["kappa"] == pytest.approx(matrix.loc[rows[0]["first"], rows[0]["second"]])


def test_tree(cli, predictions, tmp_path):
    words = ("pairs", *SKILL, "--measure", "agreement", "--tree")
    tree = cli(*words, "-o", tmp_path / "tree.vl.json").out.rpartition("\n\n")[2]
    leaves = [line.split()[0] for line in tree.splitlines()[:-1]]
    assert set(leaves) == set(SKILL)
    assert json.loads((tmp_path / "tree.vl.json").read_text())["vconcat"][1]["encoding"]["x"]["sort"] == leaves
    found = cli(*words, "--json").json
    distances = [np.mean(predictions[a] != predictions[b]) for a, b in itertools.combinations(SKILL, 2)]
    assert found["leaves"] == leaves
    assert [row[2] for row in found["linkage"]] == pytest.approx(linkage(distances, "average")[:, 2].tolist())


def test_a_matrix_that_is_too_wide_is_summarised(cli, predictions, monkeypatch):
    monkeypatch.setenv("COLUMNS", "43")
    printed = cli("pairs", *SKILL, "--measure", "agreement")
    assert "--long" in printed.err
    (row,) = [line.split() for line in printed.out.splitlines() if line.split()[:1] == ["weak"]]
    others = {name: np.mean(predictions[name] == predictions["weak"]) for name in SKILL if name != "weak"}
    assert (row[1], row[3]) == (max(others, key=others.get), min(others, key=others.get))
    assert float(row[4].rstrip("%")) == pytest.approx(100 * min(others.values()), abs=0.051)


def test_files_that_are_not_stored(cli, predictions, tmp_path):
    cli("rm", "*", "--yes")
    rows = cli("pairs", "--from", tmp_path / "all.csv", "--kind", "predictions", "--long", "--json").json
    assert len(rows) == 10
    some = cli("pairs", "[wb]*", "--from", tmp_path / "all.csv", "--kind", "predictions", "--long", "--json").json
    assert [(row["first"], row["second"]) for row in some] == [("weak", "best")]


def test_significance(cli, predictions, tmp_path):
    words = ("pairs", *SKILL, "--significance", "--level", "0.9")
    found = cli(*words, "--json", "-o", tmp_path / "p.csv").json
    expected = diversity.significance(np.stack(list(predictions.values())), LABELS, list(SKILL), level=0.9)
    assert [row["model"] for row in found["models"]] == list(expected.models)
    assert [row["letters"] for row in found["models"]] == list(expected.letters)
    assert [row["p_holm"] for row in found["pairs"]] == pytest.approx(expected.to_frame()["p_holm"].tolist())
    assert len(pd.read_csv(tmp_path / "p.csv")) == len(SKILL) * (len(SKILL) - 1) // 2
    printed = cli(*words)
    assert f"{100 * expected.accuracy[0]:.1f}%" in printed.out
    assert "90% CI" in printed.out
    pairs = cli(*words, "--long").out.splitlines()
    for row in found["pairs"]:
        (line,) = [line.split() for line in pairs if line.split()[:2] == [row["first"], row["second"]]]
        expected = f"{100 * row['difference']:z.1f} {100 * row['low']:z.1f} to {100 * row['high']:z.1f}"
        assert line[2:6] == expected.split()
        assert line[-1] == ("yes" if row["significant"] else "no")


def test_errors_of_significance_tests(predictions, invoke, tmp_path):
    words = ("pairs", "--significance")
    with pytest.raises(InputError, check=fields(argument="models", found="weak")):
        invoke(*words, "weak")
    for level in (0, 1, "nan"):
        with pytest.raises(InputError, check=fields(argument="level")):
            invoke(*words, *SKILL, "--level", level)
    with pytest.raises(InputError, check=fields(argument="output", expected=".csv")):
        invoke(*words, *SKILL, "-o", tmp_path / "letters.svg")
    with pytest.raises(InputError, check=fields(argument="tree")):
        invoke(*words, *SKILL, "--tree")
    for name in ("bare-a", "bare-b"):
        store.save(Outputs.from_arrays(name, predictions=[0, 1], classes=["x", "y"], dataset="bare"))
    with pytest.raises(InputError, check=fields(where="bare-a", problem="no labels")):
        invoke(*words, "bare-a", "bare-b")


def test_errors(predictions, invoke, tmp_path):
    with pytest.raises(InputError, match="charm"):
        invoke("pairs", *SKILL, "--measure", "charm")
    with pytest.raises(InputError, match="dominance"):
        invoke("pairs", *SKILL, "--measure", "dominance", "--tree")
    with pytest.raises(InputError, check=fields(argument="models", found="weak")):
        invoke("pairs", "weak")
    with pytest.raises(InputError, check=fields(argument="output", problem="no such folder")):
        invoke("pairs", *SKILL, "-o", tmp_path / "absent/kappa.csv")
    with pytest.raises(InputError, check=fields(argument="output", expected=".csv")):
        invoke("pairs", *SKILL, "-o", tmp_path / "kappa.xlsx")
    with pytest.raises((UnknownName, ZooError), match="absent"):
        invoke("pairs", "--from", tmp_path / "absent")


def test_the_result_is_printed_if_the_file_cannot_be_written(cli, predictions, tmp_path):
    (tmp_path / "kappa.csv").mkdir()
    printed = cli("pairs", "weak", "good", "-o", tmp_path / "kappa.csv", code=1)
    assert "good" in printed.out
    assert "kappa.csv" in printed.err
