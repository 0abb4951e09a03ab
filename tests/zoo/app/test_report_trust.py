"""The parts of the report on significance, out-of-distribution data and groups, against naive computations."""

import itertools

import numpy as np
import pandas as pd
import pytest
from raised import fields
from scipy.stats import binomtest

from zoo.app.ood import detections
from zoo.cards.card import Card, EnsembleMember, Training
from zoo.errors import InputError
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


def test_without_these_options_the_parts_are_absent(cli, runs):
    assert not {"groups", "out_of_distribution"} & cli(*WORDS, "--json").json.keys()


def test_mistakes(runs, store_outputs, invoke, tmp_path):
    with pytest.raises(InputError, check=fields(argument="outside")):
        invoke("report", "--data", "known", "--out", "near")
    store_outputs("votes", 9, data="known", kind="predictions")
    store_outputs("votes", 9, data="near", kind="predictions")
    with pytest.raises(InputError, check=fields(argument="outside", problem="votes")):
        invoke("report", "mine-a", "votes", "--data", "known", "--out", "near")
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
