"""The parts of the report on significance, out-of-distribution data and groups, against naive computations."""

import itertools

import numpy as np
import pandas as pd
import pytest
from raised import fields
from scipy.stats import binomtest

from zoo.app.ood import detections
from zoo.app.report.analysis import analyse
from zoo.app.report.groups import groups
from zoo.app.report.inputs import ReportInputs
from zoo.cards.card import Card, EnsembleMember, Training
from zoo.errors import InputError, UnknownName
from zoo.outputs.outputs import Outputs, Runs

NAMES = ["mine-a", "mine-b", "mine-c"]
WORDS = ("report", *NAMES, "--data", "known", "--steps", "2")


@pytest.fixture
def runs(store_outputs):
    skills = (1.5, 1.4, 0.8)
    return {
        data: [
            store_outputs(name, seed + 7 * len(data), data=data, skill=skill * factor)
            for seed, (name, skill) in enumerate(zip(NAMES, skills, strict=True))
        ]
        for data, factor in (("known", 1.0), ("near", 0.7), ("distant", 0.0))
    }


def test_letters_tell_models_whose_accuracies_differ_significantly(cli, runs):
    """McNemar's exact test is a binomial test of the examples that exactly one model classifies correctly."""
    letters = {row["model"]: row["letters"] for row in cli(*WORDS, "--json").json["models"]}
    correct = {one.name: one.correct for one in runs["known"]}
    p = {}
    for a, b in itertools.combinations(NAMES, 2):
        only_a, only_b = (correct[a] & ~correct[b]).sum(), (correct[b] & ~correct[a]).sum()
        p[a, b] = binomtest(int(only_a), int(only_a + only_b)).pvalue
    found = {pair: not set(letters[pair[0]]) & set(letters[pair[1]]) for pair in p}
    rejected = list(itertools.takewhile(lambda rank: p[rank[1]] < 0.05 / (3 - rank[0]), enumerate(sorted(p, key=p.get))))
    assert found == {pair: pair in dict(rejected).values() for pair in p}
    assert set(found.values()) == {True, False}


def test_out_of_distribution_data_as_the_command_measures_it(cli, runs, tmp_path):
    found = cli(*WORDS, "--out", "near", "--out", "distant", "--json").json["out_of_distribution"]
    expected = cli("ood", *NAMES, "--in", "known", "--out", "near", "--out", "distant", "--ensemble", "--json").json[
        "results"
    ]
    rows = [{"out": part["data"]} | row for part in found for row in part["results"]]
    key = lambda row: (row["out"], row["model"], row["score"])  # noqa: E731
    assert sorted(rows, key=key) == sorted(expected, key=key)
    assert len(rows) == 2 * (3 * 3 + 3)
    cli(*WORDS, "--out", "near", "--out", "distant", "-o", tmp_path / "report.md")
    text = (tmp_path / "report.md").read_text()
    for out in ("near", "distant"):
        auroc = next(r["auroc"] for r in rows if key(r) == (out, "(ensemble)", "confidence"))
        assert f"separates {out} from known with an AUROC of {100 * auroc:.1f}%" in text


def test_groups_with_the_worst_one_named(cli, runs, tmp_path):
    ids = runs["known"][0].ids.tolist()
    camera = np.where(np.arange(400) % 3 == 0, "film", "phone")
    mean = np.mean([one.correct for one in runs["known"]], axis=0)
    camera[np.argsort(mean, kind="stable")[:40]] = "toy"  # the hardest examples
    pd.DataFrame({"id": ids, "camera": camera, "other": "x"}).to_csv(tmp_path / "photos.csv", index=False)
    words = (*WORDS, "--groups", f"{tmp_path / 'photos.csv'}:camera")
    found = cli(*words, "--json").json["groups"]
    assert found["worst"] == "toy"
    for row in found["groups"]:
        inside = camera == row["group"]
        assert (row["examples"], row["accuracy"]) == (inside.sum(), pytest.approx(mean[inside].mean()))
        assert row["gap"] == pytest.approx(mean[inside].mean() - mean[~inside].mean())
    cli(*words, "-o", tmp_path / "report.md")
    text = (tmp_path / "report.md").read_text()
    assert "The worst of 3 groups is toy" in text
    assert "| toy | 40 |" in text
    classes = cli(*WORDS, "--groups", "class", "--json").json["groups"]["groups"]
    assert {row["group"] for row in classes} == set("0123")


def test_small_groups_votes_and_names_with_markup(cli, runs, store_outputs, tmp_path):
    """A group of fewer than 10 examples has no bootstrap intervals; a model that only votes has no confidence."""
    store_outputs("votes", 9, data="known", kind="predictions")
    ids = runs["known"][0].ids.tolist()
    names = np.where(np.arange(400) < 5, "<b>rare|", "usual")
    pd.DataFrame({"id": ids, "group": names}).to_csv(tmp_path / "groups.csv", index=False)
    words = ("report", "mine-a", "votes", "--data", "known", "--steps", "1", "--groups", tmp_path / "groups.csv")
    rare, usual = sorted(cli(*words, "--json").json["groups"]["groups"], key=lambda row: row["examples"])
    assert (rare["group"], rare["examples"], rare["inconsistency_low"]) == ("<b>rare|", 5, None)
    assert usual["accuracy_low"] < usual["accuracy"] < usual["accuracy_high"]
    assert rare["overconfidence"] is usual["ensemble_accuracy"] is None
    for file in ("report.md", "report.html"):
        cli(*words, "-o", tmp_path / file, "--static") if file.endswith("html") else cli(*words, "-o", tmp_path / file)
    html = (tmp_path / "report.html").read_text()
    assert "&lt;b&gt;rare|" in html
    assert "<b>rare" not in html
    assert "ensemble gain" not in html.lower()


def test_long_tables_of_groups_show_their_first_rows(runs):
    ids = runs["known"][0].ids.tolist()

    def tables(number):
        numbered = {row_id: f"{row % number:02}" for row, row_id in enumerate(ids)}
        analysis = analyse(ReportInputs(Runs(runs["known"]), groups=lambda runs: numbered), None, 1, 0)
        return groups(analysis).section.tables

    assert [table.filterable for table in tables(20)] == [False, False]
    assert [table.filterable for table in tables(21)] == [True, True]


def test_without_these_options_the_parts_are_absent(cli, runs):
    assert not {"groups", "out_of_distribution"} & cli(*WORDS, "--json").json.keys()


def test_mistakes(runs, store_outputs, invoke, tmp_path):
    with pytest.raises(InputError, check=fields(argument="outside")):
        invoke("report", "--data", "known", "--out", "near")
    store_outputs("votes", 9, data="known", kind="predictions")
    store_outputs("votes", 9, data="near", kind="predictions")
    with pytest.raises(InputError, check=fields(argument="outside", problem="votes")):
        invoke("report", "mine-a", "votes", "--data", "known", "--out", "near")
    with pytest.raises(InputError, check=fields(argument="outside", problem="400 examples")):
        invoke(*WORDS, "--out", "known")
    for option, argument in {"--out": "outside", "--unlabelled": "unlabelled"}.items():
        with pytest.raises(UnknownName, check=fields(argument=argument, name="absent")):
            invoke(*WORDS, option, "absent")
    with pytest.raises(InputError, check=fields(argument="groups", where="absent.csv")):
        invoke(*WORDS, "--groups", tmp_path / "absent.csv")


def test_the_logits_of_a_saved_ensemble_have_no_energy(runs):
    card = Card(
        "mine-a", "ensemble", "ensemble", "ensemble", "digits", "softmax", "trained", Training("digits", "supervised", "x"),
        members=[EnsembleMember("mine-b", 1.0)],
    )  # fmt: skip

    def scores(**more):
        one, other = (
            Runs([Outputs.from_arrays("mine-a", logits=np.asarray(runs[data][0].logits), **more)])
            for data in ("known", "near")
        )
        return {row["score"] for row in detections(one, other)}

    assert scores() == {"confidence", "entropy", "energy"}
    assert scores(card=card) == {"confidence", "entropy"}


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_logarithms_of_probabilities_have_no_energy(runs, dtype):
    def logarithms(outputs):
        return Outputs.from_arrays("mine-a", logits=np.log(np.asarray(outputs.probabilities, np.float64)).astype(dtype))

    one, other = (Runs([logarithms(runs[data][0])]) for data in ("known", "near"))
    assert {row["score"] for row in detections(one, other)} == {"confidence", "entropy"}
