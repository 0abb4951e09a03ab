"""Best partners, pairs, best and random subsets against itertools."""

import itertools

import numpy as np
import pytest
from brute_force import instances
from hypothesis import given, settings
from hypothesis import strategies as st
from made_runs import card, logits_of, runs_of, softmax
from numpy.testing import assert_allclose
from raised import fields

import ensembles
from ensembles import subsets
from ensembles.scores import score
from zoo.errors import InputError

Z, LABELS = logits_of(7, 200, skill=0.8)
PROBS = softmax(Z).astype(np.float32)
SELECTION, TEST = ensembles.stratified_split(LABELS, 0.5, 0)
# Small splits have small gains.
pytestmark = pytest.mark.filterwarnings("ignore:the gain in:zoo.errors.ZooWarning")
quick = settings(max_examples=60, deadline=None)


def accuracy(members, rows=slice(None), probs=PROBS, labels=LABELS):
    return (probs[list(members)].astype(np.float64).sum(0)[rows].argmax(1) == labels[rows]).mean()


def test_best_partners():
    found = ensembles.best_partners(PROBS, LABELS, bases=[2, 5], candidates=[0, 2, 3, 6])
    for _, row in found.iterrows():
        scores = {m: accuracy([row["base"], m], SELECTION) for m in (0, 2, 3, 6) if m != row["base"]}
        assert scores[row["partner"]] == max(scores.values())
        assert_allclose(row["pair"], max(scores.values()))
        assert_allclose(row["alone"], accuracy([row["base"]], SELECTION))
        assert_allclose(row["test_pair"], accuracy([row["base"], row["partner"]], TEST))
        assert row["interval"][0] <= row["gain"] <= row["interval"][1]
    assert list(ensembles.best_partners(PROBS, LABELS, test_fraction=0)["base"]) == list(range(7))
    with pytest.raises(InputError, check=fields(argument="candidates", problem="base 1")):
        ensembles.best_partners(PROBS, LABELS, bases=[1], candidates=[1])


def test_partners_have_a_category():
    names = list("abcdefg")
    cards = [card(name, family="resnet" if name != "c" else "vit") for name in names]
    found = ensembles.best_partners(runs_of(Z, LABELS, names, cards), bases=["a"], candidates=["c"])
    assert found.loc[0, "category"] == "arch"


@given(instances(dtypes=(np.float32,)))
@quick
def test_pair_scores(instance):
    probs, labels = instance
    found = ensembles.Search(probs, labels, test_fraction=0).pair_scores().to_numpy()
    for a, b in itertools.product(range(len(probs)), repeat=2):
        assert_allclose(found[a, b], accuracy({a, b}, probs=probs, labels=labels))


@given(
    instances(max_models=6, dtypes=(np.float16, np.float32)),
    st.integers(1, 4),
    st.sampled_from(["accuracy", "nll", "brier"]),
)
@quick
def test_best_subset_is_the_best_of_all(instance, size, objective):
    probs, labels = instance
    if size > len(probs):
        return
    found = ensembles.best_subset(probs, labels, size=size, objective=objective, test_fraction=0)
    sets = itertools.combinations(range(len(probs)), size)
    means = {members: probs[list(members)].astype(np.float64).mean(0) for members in sets}
    scores = {members: score(mean, labels, objective) for members, mean in means.items()}
    best = max(scores.values()) if objective == "accuracy" else min(scores.values())
    if objective == "accuracy":  # a mean rounds where a sum does not
        scores = {members: accuracy(members, probs=probs, labels=labels) for members in scores}
        best = max(scores.values())
        losses = {members: score(means[members], labels, "nll") for members in scores if scores[members] == best}
        least = min(losses.values())
        tied = [members for members, loss in losses.items() if loss <= least + 1e-9]
        assert found.members in tied
    assert_allclose(found.score, best, atol=1e-9)
    assert_allclose(scores[found.members], best, atol=1e-9)


def test_best_subset_with_a_base_and_on_the_test_split():
    found = ensembles.best_subset(PROBS, LABELS, size=2, base=3)
    scores = {pair: accuracy([3, *pair], SELECTION) for pair in itertools.combinations([0, 1, 2, 4, 5, 6], 2)}
    assert found.members[0] == 3
    assert_allclose(found.score, max(scores.values()))
    assert_allclose(found.test_score, accuracy(found.members, TEST))
    assert found.tried == 15
    assert found.method == "all 15 subsets of 2"


def test_greedy_is_between_random_and_best_subsets():
    best = ensembles.best_subset(PROBS, LABELS, size=3)
    greedy = ensembles.greedy(PROBS, LABELS, steps=2, resamples=1).score[-1]
    chance = ensembles.Search(PROBS, LABELS).random_subsets(size=3, draws=40)
    assert chance["selection"].mean() < greedy <= best.score + 1e-12
    assert chance["selection"].max() <= best.score + 1e-12


def test_random_subsets_are_seeded_distinct_and_scored():
    found = ensembles.Search(PROBS, LABELS, seed=4, base=0).random_subsets(size=3, draws=12)
    again = ensembles.Search(PROBS, LABELS, seed=4, base=0).random_subsets(size=3, draws=12)
    assert found.equals(again)
    assert found["members"].nunique() > 3
    selection, test = ensembles.stratified_split(LABELS, 0.5, 4)
    for _, row in found.iterrows():
        assert row["members"][0] == 0
        assert len(set(row["members"])) == 4
        assert_allclose(row["selection"], accuracy(row["members"], selection))
        assert_allclose(row["test"], accuracy(row["members"], test))


@pytest.mark.parametrize("method", ["best_subset", "random_subsets"])
@pytest.mark.parametrize(("size", "expected"), [(0, "at least 1"), (8, "candidates, 7"), (2.5, "whole number")])
def test_sizes_that_do_not_exist(method, size, expected):
    with pytest.raises(InputError, check=fields(argument="size", expected=expected, found=size)):
        getattr(ensembles.Search(PROBS, LABELS), method)(size=size)


def test_too_many_subsets(monkeypatch):
    monkeypatch.setattr(subsets, "MAX_SUBSETS", 20)
    with pytest.raises(InputError, check=fields(argument="size", problem=["35 subsets", "20"], hint="greedy")):
        ensembles.best_subset(PROBS, LABELS, size=3)
    with pytest.raises(InputError, check=fields(argument="draws", found=0)):
        ensembles.Search(PROBS, LABELS).random_subsets(draws=0)
