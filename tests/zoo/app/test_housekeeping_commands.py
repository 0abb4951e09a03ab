"""`zoo datasets`, `zoo outputs`, `zoo rm`, `zoo pairs`, `zoo shift`, on a newcomer's own predictions."""

import itertools
import json
import sys

import numpy as np
import pandas as pd
import pytest
from scipy.cluster.hierarchy import linkage
from sklearn.metrics import cohen_kappa_score

from zoo.app import main as command_line

RNG = np.random.default_rng(5)
N = 200
Y = RNG.integers(0, 4, N)
SKILL = {"weak": 0.5, "fair": 0.65, "good": 0.8, "best": 0.9, "odd": 0.85}


def answers(share, seed):
    rng = np.random.default_rng(seed)
    return np.where(rng.random(N) < share, Y, rng.integers(0, 4, N))


@pytest.fixture
def zoo(capsys, monkeypatch):
    """Run a command in this process; (exit code, standard output, standard error)."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["zoo", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            command_line.main()
        printed = capsys.readouterr()
        return ended.value.code or 0, printed.out, printed.err

    return call


@pytest.fixture
def stored(zoo, tmp_path):
    """Five models' predictions on two datasets, one csv file each, a column per model."""
    told = {}
    for number, (spec, worse) in enumerate((("old-set", 1.0), ("new-set", 0.8))):
        made = {name: answers(skill * worse, 10 * number + i) for i, (name, skill) in enumerate(SKILL.items())}
        pd.DataFrame({"y_true": Y, **made}).to_csv(tmp_path / f"{spec}.csv", index=False)
        code, _, err = zoo("import", tmp_path / f"{spec}.csv", "--kind", "predictions", "--data", spec)
        assert code == 0, err
        told[spec] = made
    return told


def test_datasets_are_listed(zoo, stored):
    code, out, _ = zoo("datasets", "--json")
    states = {row["name"]: row["state"] for row in json.loads(out)}
    assert code == 0
    assert states["digits"] == "embedded"
    assert states["in1k"] == "not here"
    assert states["old-set"] == states["new-set"] == "outputs only"
    code, out, _ = zoo("datasets")
    assert (code, "outputs only" in out) == (0, True)
    assert max(map(len, out.splitlines())) <= 80
    code, out, _ = zoo("datasets", "old-set", "--ids")
    assert (code, out.splitlines()) == (0, [str(i) for i in range(N)])
    code, out, _ = zoo("datasets", "digits:calibration")
    assert "299 examples, 10 classes: 0, 1, 2" in out
    assert zoo("datasets", "--ids")[0] == 2
    assert zoo("datasets", "absent")[0] == 2


def test_outputs_are_listed_and_removed(zoo, stored, zoo_home, tmp_path):
    code, out, err = zoo("outputs", "--data", "old-set")
    assert (code, all(name in out for name in SKILL), "5 stored" in err) == (0, True, True)
    code, out, _ = zoo("outputs", "w*", "--json")
    rows = json.loads(out)
    assert {(row["model"], row["dataset"], row["examples"]) for row in rows} == {
        ("weak", "old-set", N),
        ("weak", "new-set", N),
    }
    assert all(row["bytes"] == sum(f.stat().st_size for f in (zoo_home / row["path"]).iterdir()) for row in rows)

    code, _, err = zoo("rm", "weak", "--data", "old-set")
    assert (code, "1 stored outputs would be removed; say --yes" in err) == (2, True)
    note = zoo_home / rows[0]["path"] / "my-notes.txt"
    note.write_text("mine")
    code, _, err = zoo("rm", "weak", "--yes")
    assert (code, "my-notes.txt: is not a file of stored outputs, so nothing is removed" in err) == (2, True)
    assert len(json.loads(zoo("outputs", "--json")[1])) == 10
    note.unlink()
    code, out, err = zoo("rm", "weak", "--yes")
    assert (code, "2 removed" in err) == (0, True)
    assert not list(zoo_home.glob("outputs/*/*weak*"))
    code, _, err = zoo("rm", "weak", "--yes")
    assert (code, "no stored outputs of 'weak'" in err) == (2, True)
    assert zoo("rm")[0] == 2
    assert zoo("rm", "--data", "old-set", "--yes")[0] == 0
    names = [row["name"] for row in json.loads(zoo("datasets", "--json")[1])]
    assert ("old-set" in names, "new-set" in names) == (False, True)
    assert zoo("verify")[0] == 0


def test_pairs_as_a_matrix_and_as_rows(zoo, stored, tmp_path):
    code, _, err = zoo("pairs", *SKILL, "--data", "old-set", "--measure", "kappa", "-o", tmp_path / "kappa.csv")
    assert (code, "wrote" in err) == (0, True), err
    matrix = pd.read_csv(tmp_path / "kappa.csv", index_col="model")
    right = {name: told == Y for name, told in stored["old-set"].items()}
    for first in SKILL:
        for second in SKILL:
            expected = 1 if first == second else cohen_kappa_score(right[first], right[second])
            assert matrix.loc[first, second] == pytest.approx(expected)
    code, out, _ = zoo("pairs", *SKILL, "--data", "old-set", "--measure", "kappa", "--long", "--json")
    rows = json.loads(out)
    assert len(rows) == 10
    assert rows[0]["kappa"] == pytest.approx(matrix.loc[rows[0]["first"], rows[0]["second"]])
    code, _, err = zoo("pairs", *SKILL, "--data", "old-set", "--measure", "charm")
    assert (code, "charm" in err) == (2, True)
    code, _, err = zoo("pairs", *SKILL, "--data", "old-set", "-o", tmp_path / "absent/kappa.csv")
    assert (code, "there is no folder" in err) == (2, True)
    assert zoo("pairs", *SKILL, "--data", "old-set", "-o", tmp_path / "kappa.xlsx")[0] == 2


def test_pairs_as_a_tree(zoo, stored, tmp_path):
    asked = ("pairs", *SKILL, "--data", "old-set", "--measure", "agreement", "--tree")
    chart = tmp_path / "tree.json"
    code, out, err = zoo(*asked, "--chart", chart)
    assert code == 0, err
    tree = out.rpartition("\n\n")[2]
    assert max(map(len, out.splitlines())) <= 80
    assert {line.split()[0] for line in tree.splitlines()[:-1]} == set(SKILL)
    leaves = [line.split()[0] for line in tree.splitlines()[:-1]]
    parts = json.loads(chart.read_text())["vconcat"]
    assert parts[1]["encoding"]["x"]["sort"] == leaves
    code, out, _ = zoo(*asked, "--json")
    told = json.loads(out)
    made = stored["old-set"]
    apart = [np.mean(made[a] != made[b]) for a, b in itertools.combinations(SKILL, 2)]
    assert told["leaves"] == leaves
    assert [row[2] for row in told["linkage"]] == pytest.approx(linkage(apart, "average")[:, 2].tolist())
    code, _, err = zoo("pairs", *SKILL, "--data", "old-set", "--measure", "dominance", "--tree")
    assert (code, "does not say how alike" in err) == (2, True)
    code, _, err = zoo("pairs", "weak", "--data", "old-set")
    assert (code, "at least two models, found weak alone" in err) == (2, True)


def test_a_matrix_wider_than_the_terminal(zoo, stored, monkeypatch):
    monkeypatch.setenv("COLUMNS", "46")
    code, out, err = zoo("pairs", *SKILL, "--data", "old-set", "--measure", "agreement")
    assert (code, "--long" in err) == (0, True)
    made = stored["old-set"]
    (row,) = [line.split() for line in out.splitlines() if line.split()[:1] == ["weak"]]
    others = {name: np.mean(made[name] == made["weak"]) for name in SKILL if name != "weak"}
    assert row[1] == max(others, key=others.get)
    assert row[3] == min(others, key=others.get)
    assert float(row[4]) == pytest.approx(min(others.values()), rel=1e-3)


def test_shift(zoo, stored, tmp_path):
    code, out, err = zoo("shift", *SKILL, "--from", "old-set", "--to", "new-set", "--json")
    assert code == 0, err
    told = json.loads(out)
    rows = {row["model"]: row for row in told["models"]}
    for name in SKILL:
        before, after = (float(np.mean(stored[spec][name] == Y)) for spec in ("old-set", "new-set"))
        assert (rows[name]["first"], rows[name]["second"]) == (before, after)
        assert rows[name]["drop"] == pytest.approx(before - after)
    low, high = told["slope_interval"]
    assert low < told["slope"] < high
    code, out, err = zoo("shift", *SKILL, "--from", "old-set", "--to", "new-set")
    assert (code, "weak" in out, "off the line:" in err) == (0, True, True)
    code, _, err = zoo("shift", "weak", "good", "--from", "old-set", "--to", "new-set")
    assert (code, "no line: it takes at least three models" in err) == (0, True)


@pytest.mark.parametrize("command", ["datasets", "outputs", "rm", "pairs", "shift", "import"])
def test_help_has_an_example(zoo, command):
    code, out, _ = zoo(command, "--help")
    assert (code, out.count(f"zoo {command}") > 1) == (0, True)


def test_an_import_by_options(zoo, tmp_path):
    """The whole way of a newcomer: unusual columns, a name of one's own, a table about the models."""
    told = answers(0.7, 1)
    rows = [{"net": n, "stimulus": f"{i}.png", "what": f"c{Y[i]}", "guess": f"c{told[i]}"} for n in SKILL for i in range(N)]
    pd.DataFrame(rows).to_csv(tmp_path / "all.csv", index=False)
    pd.DataFrame({"model": list(SKILL), "family": "cnn", "params": "5M"}).to_csv(tmp_path / "models.csv", index=False)
    code, _, err = zoo("import", tmp_path / "all.csv", "--data", "mine")
    assert (code, "--column" in err, "kind=" in err) == (2, True, False)
    chosen = ("--column", "predictions=guess", "--column", "labels=what", "--column", "ids=stimulus")
    code, out, err = zoo(
        "import", tmp_path / "all.csv", "--data", "mine", *chosen, "--meta", tmp_path / "models.csv", "--json"
    )
    assert code == 0, err
    assert {row["model"] for row in json.loads(out)} == set(SKILL)
    from zoo.outputs.store import open_runs

    assert open_runs("good", "mine")["good"].card.details == {"params": 5e6}
    code, _, err = zoo("import", tmp_path / "all.csv", "--column", "guess")
    assert (code, "--column: expected MEANING=NAME" in err) == (2, True)
    code, _, err = zoo("import", tmp_path / "absent.csv")
    assert (code, "there is no such file" in err) == (2, True)
    code, _, err = zoo("import", tmp_path / "all.csv", "--meta", tmp_path / "absent.csv")
    assert code == 2


def test_names_are_shown_as_text(zoo, tmp_path):
    """Markup, escapes and formulas in names and classes: nothing breaks, nothing reaches the terminal."""
    pd.DataFrame({"label": Y, "[/b]": answers(0.5, 0), "[red]x": answers(0.7, 1)}).to_csv(tmp_path / "a.csv", index=False)
    code, out, err = zoo("import", tmp_path / "a.csv", "--kind", "predictions", "--data", "d")
    assert (code, "[/b]" in out, "[red]x" in out) == (0, True, True), err
    assert "d is a new dataset of your own" in err
    for command in (("outputs",), ("verify",), ("datasets",)):
        code, out, err = zoo(*command)
        assert code == 0, err
    code, _, err = zoo("import", tmp_path / "a.csv", "--kind", "\x1b[31mred")
    assert (code, "\x1b" in err, "\\x1b[31mred" in err) == (2, False, True)
