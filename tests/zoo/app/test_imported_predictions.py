"""Predictions only: people and networks in one .csv file, as the toolbox of Geirhos et al. writes them.

Every number is recomputed from the file with pandas and scikit-learn.
"""

import json
import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from raised import fields
from sklearn.metrics import cohen_kappa_score
from typer.testing import CliRunner

import diversity
import ensembles
import zoo
from zoo.app.main import app
from zoo.core import settings

CATEGORIES = np.array(["airplane", "bear", "bicycle", "bird"])
WHO = ["subject-01", "subject-02", "alexnet", "my-vit"]
N = 160
pytestmark = pytest.mark.filterwarnings("ignore::zoo.errors.ZooWarning")  # predictions that are no class, small gains


@pytest.fixture(autouse=True)
def decisions(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> pd.DataFrame:
    monkeypatch.chdir(tmp_path)
    rng = np.random.default_rng(1)
    truth, hard = rng.integers(0, 4, N), rng.random(N)
    contrast = np.repeat(["c5", "c10", "c50", "c100"], N // 4)
    skill = np.repeat([0.3, 0.5, 0.8, 0.9], N // 4)
    tables = []
    for who in WHO:
        said = np.where((hard + rng.random(N)) / 2 < skill, truth, rng.integers(0, 4, N))
        response = np.where(rng.random(N) < 0.05, "na", CATEGORIES[said])
        tables.append(
            pd.DataFrame(
                {
                    "subj": who, "session": 1, "trial": np.arange(1, N + 1), "rt": rng.random(N).round(3),
                    "object_response": response, "category": CATEGORIES[truth], "condition": contrast,
                    "imagename": [f"{k:04d}_{CATEGORIES[truth[k]]}.png" for k in range(N)],
                }
            )
        )  # fmt: skip
    table = pd.concat(tables)
    table.to_csv("decisions.csv", index=False)
    Path("categories.txt").write_text("\n".join(CATEGORIES))
    return table


def command(*words: str) -> str:
    result = CliRunner().invoke(app, list(words))
    assert result.exit_code == 0, result.output + repr(result.exception)
    return result.stdout


def import_decisions() -> None:
    found = ("--column", "labels=category", "--classes", "categories.txt")
    rows = json.loads(command("import", "decisions.csv", "--data", "contrast", *found, "--json"))
    assert [(row["model"], row["kind"], row["examples"], row["classes"]) for row in rows] == [
        (who, "predictions", N, 4) for who in WHO
    ]


def test_commands(decisions: pd.DataFrame) -> None:
    import_decisions()
    right = {who: (rows["object_response"] == rows["category"]).to_numpy() for who, rows in decisions.groupby("subj")}
    unsaid = {who: int((rows["object_response"] == "na").sum()) for who, rows in decisions.groupby("subj")}

    found = json.loads(command("compare", "subject-01", "my-vit", "--data", "contrast", "--resamples", "50", "--json"))
    assert found["kappa"] == pytest.approx(cohen_kappa_score(right["subject-01"], right["my-vit"]))
    assert found["accuracy_first"] == pytest.approx(right["subject-01"].mean())
    assert found["unanswered"] == [unsaid["subject-01"], unsaid["my-vit"]]

    command("pairs", *WHO, "--data", "contrast", "-o", "kappa.csv")
    kappa = pd.read_csv("kappa.csv", index_col="model")
    assert kappa.loc["alexnet", "subject-02"] == pytest.approx(cohen_kappa_score(right["alexnet"], right["subject-02"]))

    path = json.loads(command("ensemble", "search", *WHO, "--data", "contrast", "--votes", "--test-fraction", "0", "--json"))
    members = path["members"]
    assert sorted(members) == sorted(WHO)
    answers = decisions.pivot(index="imagename", columns="subj", values="object_response")[members[:3]]
    votes = pd.DataFrame({one: (answers == one).sum(axis=1) for one in CATEGORIES})  # of equal counts the first class
    truth = decisions.drop_duplicates("imagename").set_index("imagename")["category"]
    expected = ((votes.idxmax(axis=1) == truth) & (votes.max(axis=1) > 0)).mean()
    assert path["score"][2] == pytest.approx(expected)

    numbers = json.loads(command("report", *WHO, "--data", "contrast", "--json"))
    assert numbers["path"]["settings"]["kind"] == "predictions"
    printed = command("report", *WHO, "--data", "contrast", "-o", "report.md")
    titles = re.findall(r"^- .*?\*\*(.+?): ", Path("report.md").read_text(), re.MULTILINE)
    assert titles
    assert all(f"- {title}: " in printed for title in titles)
    assert max(map(len, printed.splitlines())) <= 80


def test_in_python(decisions: pd.DataFrame) -> None:
    import_decisions()
    runs = zoo.run(WHO, data="contrast")
    table = diversity.compare(runs["subject-01"], runs["subject-02"], resamples=50).by_condition(
        decisions[decisions["subj"] == "subject-01"]["condition"]
    )
    for row in table.itertuples():
        within = decisions[decisions["condition"] == row.condition]
        right = {who: (rows["object_response"] == rows["category"]) for who, rows in within.groupby("subj")}
        assert row.kappa == pytest.approx(cohen_kappa_score(right["subject-01"], right["subject-02"]))
    frame = diversity.pair_frame(runs)
    assert (len(frame), "gain_over_mean" in frame) == (6, False)
    path = ensembles.greedy(runs, kind="predictions", steps=2)
    assert set(path.members) <= set(WHO)


def test_ids_that_name_the_observer(decisions: pd.DataFrame) -> None:
    """One file per observer, as the toolbox writes them: trial and observer stand before the name of the image."""
    Path("observers").mkdir()
    for number, (who, rows) in enumerate(decisions.groupby("subj")):
        mixed = rows.sample(frac=1, random_state=number)
        names = [f"{trial:04d}_exp_s{number:02d}_0_{name}" for trial, name in enumerate(mixed["imagename"])]
        mixed.assign(imagename=names if number else mixed["imagename"]).to_csv(f"observers/{who}.csv", index=False)
    words = ("import", "observers", "--data", "contrast", "--column", "labels=category", "--classes", "categories.txt")
    command(*words, "--id-pattern", r"(?:.*_s\d\d_0_)?(.+)")
    right = {
        who: (rows["object_response"] == rows["category"]).to_numpy()[np.argsort(rows["imagename"])]
        for who, rows in decisions.groupby("subj")
    }
    found = json.loads(command("compare", "subject-01", "my-vit", "--data", "contrast", "--resamples", "50", "--json"))
    assert found["kappa"] == pytest.approx(cohen_kappa_score(right["subject-01"], right["my-vit"]))


def test_columns_that_no_file_needs_are_told_once(decisions: pd.DataFrame) -> None:
    Path("observers").mkdir()
    for who, rows in decisions.groupby("subj"):
        rows.to_csv(f"observers/{who}.csv", index=False)
    with pytest.warns(zoo.errors.ZooWarning) as told:
        zoo.import_outputs("observers", columns={"labels": "category"})
    messages = [str(one.message) for one in told if "left out" in str(one.message)]
    assert len(messages) == 1
    assert messages[0].startswith("4 files, first")


@pytest.mark.parametrize("pattern", [r".*_s\d\d_(.+)", "(", "[a-z]+"])
def test_patterns_that_do_not_fit(decisions: pd.DataFrame, pattern: str) -> None:
    with pytest.raises(zoo.errors.InputError, check=fields(argument="id_pattern", found=pattern)):
        zoo.import_outputs("decisions.csv", columns={"labels": "category"}, id_pattern=pattern)


def test_label_distributions_of_people() -> None:
    """A bare array of the fractions of human labels: `kind` and `classes` come from the dataset."""
    runs = zoo.run(["resnet7-softmax.cifar10"], data="cifar10:test")
    labels = next(iter(runs.values())).labels
    rng = np.random.default_rng(0)
    counts = rng.multinomial(10, np.full(10, 0.04), len(labels)) + 30 * np.eye(10, dtype=int)[labels]
    np.save("people.npy", counts / counts.sum(1, keepdims=True))
    (row,) = json.loads(command("import", "people.npy", "--data", "cifar10:test", "--json"))
    assert (row["kind"], row["accuracy"]) == ("probabilities", 1.0)
    found = json.loads(command("compare", "people", "resnet7-softmax.cifar10", "--resamples", "50", "--json"))
    assert found["accuracy_second"] == pytest.approx(next(iter(runs.values())).accuracy)


def test_mistakes(decisions: pd.DataFrame) -> None:
    """Another dataset, a file of several models read as one, a model that would have to be run."""
    import_decisions()
    result = CliRunner().invoke(app, ["compare", "subject-01", "my-vit", "--data", "digits:test"])
    assert "contrast" in str(result.exception)
    assert "--data" in str(result.exception)
    words = ["import", "decisions.csv", "--data", "other", "--column", "labels=category", "--column", "model=condition"]
    result = CliRunner().invoke(app, words)
    assert "'0000_" in str(result.exception)
    result = CliRunner().invoke(app, ["run", "resnet8-softmax-s77", "--data", "contrast"])
    assert "contrast" in str(result.exception)
    assert not (settings.home() / "weights").exists()  # an error before the model is trained


def test_imported_embeddings_are_compared(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(100, 6))
    made = {"net-a": x, "net-b": np.tanh(x @ rng.normal(size=(6, 4)))}
    for name, embeddings in made.items():
        np.savez(f"{name}.npz", embeddings=embeddings, labels=np.arange(100) % 3)
    command("import", "net-a.npz", "net-b.npz", "--data", "features")
    found = json.loads(command("similarity", "net-a", "net-b", "--data", "features", "--json"))
    expected = diversity.cka({"e": made["net-a"]}, {"e": made["net-b"]}).to_numpy()
    np.testing.assert_allclose(found["cka"], expected, rtol=1e-5)
    assert diversity.cka("net-a", "net-b").shape == (1, 1)  # the dataset is the only one that has both
