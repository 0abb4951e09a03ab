"""Searches by votes of predictions, against counting them one example at a time."""

import itertools
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
import torch
from accelerator import Accelerator, upload
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from made_runs import card, logits_of, runs_of
from raised import fields

import ensembles
from zoo.core.columns import Column
from zoo.errors import InputError
from zoo.outputs.outputs import Outputs, Runs

Z, LABELS = logits_of(6, 200, skill=0.6)
PREDS = np.where(np.random.default_rng(0).random((6, 200)) < 0.05, -1, Z.argmax(2))  # one prediction in twenty is missing
# Small splits have small gains.
pytestmark = pytest.mark.filterwarnings("ignore:the gain in:zoo.errors.ZooWarning")
quick = settings(max_examples=100, deadline=None)


def winner(votes):
    """Return the most frequent class, of equally frequent ones the lowest; None without votes."""
    counts = Counter(int(vote) for vote in votes if vote >= 0)
    return min(counts, key=lambda k: (-counts[k], k)) if counts else None


def accuracy(members, preds, labels, balanced=False):
    right = [winner(column) == y for column, y in zip(preds[list(members)].T, labels, strict=True)]
    sizes = Counter(labels.tolist())
    weights = [Fraction(1, sizes[y]) if balanced else Fraction(1) for y in labels.tolist()]
    return sum(w for w, hit in zip(weights, right, strict=True) if hit) / sum(weights)


def by_hand(preds, labels, steps, replace, balanced):
    """Return the greedy path: ties go to the lower NLL of the fraction of votes for the label, then to the first model."""
    members, scores, left = [], [], list(range(len(preds)))
    for _ in range(steps + 1):
        if not left:
            break
        exact = {m: accuracy([*members, m], preds, labels, balanced) for m in left}
        tied = [m for m in left if exact[m] == max(exact.values())]
        shares = {m: (preds[[*members, m]] == labels).mean(0) for m in tied}
        losses = {m: -np.log(np.maximum(share, np.finfo(np.float32).tiny)).mean() for m, share in shares.items()}
        members.append(next(m for m in tied if losses[m] <= min(losses.values()) + 1e-10))
        scores.append(float(exact[members[-1]]))
        if not replace:
            left.remove(members[-1])
    return members, scores


votes = hnp.arrays(np.int64, st.tuples(st.integers(1, 6), st.integers(1, 12)), elements=st.integers(-1, 3))


@given(votes, st.integers(0, 2**32 - 1), st.integers(1, 7), st.booleans(), st.booleans())
@quick
def test_greedy_by_votes_is_that_of_counting(preds, seed, steps, replace, balanced):
    labels = np.random.default_rng(seed).integers(0, 4, preds.shape[1])
    objective = "balanced-accuracy" if balanced else "accuracy"
    found = ensembles.greedy(
        preds, labels, kind="predictions", steps=steps, replace=replace, objective=objective, test_fraction=0
    )
    members, scores = by_hand(preds, labels, steps, replace, balanced)
    assert found.members == members
    np.testing.assert_allclose(found.score, scores, atol=1e-12)


def test_the_average_of_bags_is_a_weighted_vote():
    path = ensembles.greedy(PREDS, LABELS, kind="predictions", steps=4, replace=True, bags=3, test_fraction=0)
    shares = [Fraction(float(share)).limit_denominator(10_000) for share in path.weights]  # thirds of n-ths
    right = 0
    for column, y in zip(PREDS.T, LABELS, strict=True):
        counts = {k: sum(share for share, vote in zip(shares, column, strict=True) if vote == k) for k in range(5)}
        right += max(counts.values()) > 0 and min(counts, key=lambda k: (-counts[k], k)) == y
    assert path.best_score == pytest.approx(right / len(LABELS))


def test_an_example_without_votes_is_wrong_even_for_the_first_class():
    path = ensembles.greedy([[-1, 0], [-1, -1]], [0, 0], kind="predictions", steps=1, test_fraction=0)
    assert path.score == [0.5, 0.5]
    assert path.settings["without_prediction"] == {"0": 1, "1": 2}
    assert "3 missing predictions" in str(path)


def test_the_other_questions_by_votes():
    selection, test = ensembles.stratified_split(LABELS, 0.5, 0)
    search = ensembles.Search(PREDS, LABELS, kind="predictions")
    exact = {
        members: float(accuracy(members, PREDS[:, selection], LABELS[selection]))
        for size in (1, 2, 3)
        for members in itertools.combinations(range(6), size)
    }
    best = search.best_subset(3)
    assert best.score == pytest.approx(max(score for members, score in exact.items() if len(members) == 3))
    assert best.test_score == pytest.approx(float(accuracy(best.members, PREDS[:, test], LABELS[test])))
    pairs = search.pair_scores()
    assert all(pairs.loc[a, b] == pytest.approx(exact[a, b]) for a, b in itertools.combinations(range(6), 2))
    partners = search.best_partners()
    for _, row in partners.iterrows():
        joined = [exact[tuple(sorted((row["base"], other)))] for other in range(6) if other != row["base"]]
        assert row["pair"] == pytest.approx(max(joined))
    within = search.best_within(budget=3, cost=[1] * 6)
    assert within.score == pytest.approx(max(exact.values()))
    chance = search.random_subsets(size=3, draws=5)
    assert all(row["selection"] == pytest.approx(exact[tuple(sorted(row["members"]))]) for _, row in chance.iterrows())


def test_runs_of_any_kind_vote_and_cannot_be_saved(zoo_home):
    names = list("abcdef")
    logits = runs_of(Z, LABELS, names, [card(name) for name in names])
    found = ensembles.greedy(logits, kind="predictions", steps=3)
    plain = ensembles.greedy(dict(zip(names, Z.argmax(2), strict=True)), LABELS, kind="predictions", steps=3)
    assert found.members == plain.members
    assert found.test_score == plain.test_score
    assert found.calibration is None
    assert found.ece is None
    with pytest.raises(InputError, check=fields(where="x", problem="votes")):
        found.to_model("x")
    ids, classes = np.arange(200).astype(str), tuple("abcde")
    stored = Runs(Outputs(n, "predictions", Column([p]), ids, classes, LABELS) for n, p in zip(names, PREDS, strict=True))
    assert ensembles.greedy(stored, kind="predictions", steps=3).settings["without_prediction"] == {
        name: int((p == -1).sum()) for name, p in zip(names, PREDS, strict=True)
    }


def test_tensors_and_another_device():
    expected = ensembles.greedy(PREDS, LABELS, kind="predictions", steps=5, replace=True)
    tensors = torch.from_numpy(PREDS), torch.from_numpy(LABELS)
    assert ensembles.greedy(*tensors, kind="predictions", steps=5, replace=True).members == expected.members
    with Accelerator():
        remote = ensembles.greedy(upload(PREDS), upload(LABELS), kind="predictions", steps=5, replace=True)
    assert remote.members == expected.members
    np.testing.assert_allclose(remote.test_score, expected.test_score)


@pytest.mark.parametrize(
    ("runs", "options", "error"),
    [
        (PREDS, {"objective": "nll"}, {"argument": "objective", "found": "nll"}),
        (PREDS, {"objective": lambda p, y: 0.0}, {"argument": "objective"}),
        (PREDS, {"kind": "votes"}, {"argument": "kind", "found": "votes"}),
        (PREDS, {"kind": "probabilities"}, {"argument": "runs", "expected": "[M, N, K]"}),
        (PREDS - 1, {}, {"argument": "predictions of 0"}),
        (PREDS.astype(float), {}, {"argument": "predictions of 0", "expected": "whole"}),
        (PREDS[0], {}, {"argument": "runs", "expected": "[M, N]", "found": [200]}),
        ([PREDS[0], PREDS[1, :9]], {}, {"where": "predictions of 1", "found": [9]}),
        ([], {}, {"argument": "runs", "found": 0}),
    ],
)
def test_bad_input(runs, options, error):
    with pytest.raises(InputError, check=fields(**error)):
        ensembles.greedy(runs, LABELS, **{"kind": "predictions"} | options)
