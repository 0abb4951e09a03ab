"""Gains of ensembles against a loop and against the measures of pairs; ensembles over the seeds of objectives."""

import numpy as np
import pytest
import scipy.stats
from brute_force import instances
from hypothesis import given, settings
from made_runs import logits_of, runs_of, softmax
from numpy.testing import assert_allclose
from raised import fields

import ensembles
from ensembles.gains import conversion_rate
from ensembles.objective_groups import ensemble_agreement, mixed_ensembles
from zoo.errors import InputError

quick = settings(max_examples=80, deadline=None)


def voted(preds):
    """Return the most frequent class, of equally frequent ones the lowest."""
    return scipy.stats.mode(preds, axis=0).mode


@given(instances(dtypes=(np.float32,)))
@quick
def test_improvement_against_a_loop(instance):
    probs, labels = instance
    found = ensembles.improvement(probs, labels, resamples=2)
    total = probs.astype(np.float64).sum(0)
    right = [int(total[n].argmax()) == y for n, y in enumerate(labels)]
    of_members = [[int(p[n].argmax()) == y for n, y in enumerate(labels)] for p in probs]
    split = [n for n in range(len(labels)) if len({row[n] for row in of_members}) == 2]
    both_right = [n for n in range(len(labels)) if all(row[n] for row in of_members)]
    both_wrong = [n for n in range(len(labels)) if not any(row[n] for row in of_members)]

    def fraction(hits, among):
        return sum(bool(hits[n]) for n in among) / len(among) if among else np.nan

    assert_allclose(found.conversion_rate, fraction(right, split))
    assert_allclose(found.all_right_lost, fraction([not r for r in right], both_right))
    assert_allclose(found.all_wrong_gained, fraction(right, both_wrong))
    accuracies = [np.mean(row) for row in of_members]
    assert_allclose(found.gain_over_mean, np.mean(right) - np.mean(accuracies), atol=1e-12)
    assert_allclose(found.gain_over_best, np.mean(right) - max(accuracies), atol=1e-12)
    # The three sets of examples make up the accuracy.
    parts = [
        (len(both_right), 1 - found.all_right_lost),
        (len(split), found.conversion_rate),
        (len(both_wrong), found.all_wrong_gained),
    ]
    assert_allclose(sum(n * rate for n, rate in parts if n) / len(labels), found.ensemble_accuracy)


def test_two_members_agree_with_the_comparison_of_a_pair():
    import diversity

    z, y = logits_of(2, 300)
    runs = runs_of(z, y, temperatures=[1.3, 0.7])
    found = ensembles.improvement(runs)
    pair = diversity.compare(runs["m0"], runs["m1"], resamples=10)
    assert_allclose(found.ensemble_accuracy, pair.ensemble_accuracy)
    assert_allclose(found.inconsistency, pair.inconsistency)
    assert_allclose(found.conversion_rate, pair.conversion_rate)
    assert_allclose(conversion_rate(runs["m0"], runs["m1"]), pair.conversion_rate)
    assert_allclose(found.gain_over_mean, pair.gain_over_mean)
    assert_allclose(found.gain_over_best, pair.gain_over_best)
    assert_allclose(found.all_right_lost, pair.both_right_lost)
    assert_allclose(found.all_wrong_gained, pair.both_wrong_gained)


def test_the_interval_of_the_gain_is_scipys_paired_bootstrap():
    z, y = logits_of(4, 300)
    p = softmax(z)
    found = ensembles.improvement(p, y, resamples=4000)
    best = max((one.argmax(1) == y for one in p), key=np.mean)
    difference = (p.mean(0).argmax(1) == y).astype(float) - best
    expected = scipy.stats.bootstrap((difference,), np.mean, n_resamples=4000, method="percentile", rng=0)
    assert_allclose(found.interval, expected.confidence_interval, atol=0.005)


def test_the_best_member_and_its_p_value_are_those_of_scipy():
    z, y = logits_of(4, 300)
    p = softmax(z)
    found = ensembles.improvement(runs_of(z, y, temperatures=[1.0] * 4))
    correct = [one.argmax(1) == y for one in p]
    best = int(np.argmax([one.mean() for one in correct]))
    assert (found.best_member, found.members) == (f"m{best}", ("m0", "m1", "m2", "m3"))
    together = p.mean(0).argmax(1) == y
    won, lost = int((together & ~correct[best]).sum()), int((correct[best] & ~together).sum())
    assert_allclose(found.mcnemar, scipy.stats.binomtest(won, won + lost).pvalue)
    text = str(found)
    assert all(fact in text for fact in (f"m{best}", f"{found.ensemble_accuracy:.1%}", f"{100 * found.gain_over_best:+.1f}"))
    assert all(len(line) <= 80 for line in text.splitlines())
    assert found.to_dict()["best_member"] == f"m{best}"


@pytest.mark.parametrize(
    ("correct", "side", "significant"), [(300, "above", True), (105, "above", False), (20, "below", True)]
)
def test_the_text_says_whether_the_ensemble_is_better(correct, side, significant):
    """Two members that are wrong on different examples; the weights decide how many the ensemble gets right."""
    first = np.tile([0.9, 0.1], (300, 1))
    first[100:] = [0.45, 0.55]
    second = np.tile([0.6, 0.4], (300, 1))
    second[correct:] = [0.01, 0.99]
    second[:100] = [0.4, 0.6] if correct > 100 else second[:100]
    found = ensembles.improvement([first, second], np.zeros(300, int))
    assert found.ensemble_accuracy == correct / 300
    text = " ".join(str(found).split())
    assert f"points {side} its best member" in text
    assert ("not significant" in text) == (not significant)


def test_a_model_with_itself_gains_nothing():
    z, y = logits_of(1, 100)
    p = softmax(z[0])
    found = ensembles.improvement([p, p], y)
    assert found.ensemble_accuracy == found.accuracies[0] == found.accuracies[1]
    assert (
        found.gain_over_best
        == found.gain_over_mean
        == found.inconsistency
        == found.all_right_lost
        == found.all_wrong_gained
        == 0
    )
    assert np.isnan(found.conversion_rate)


def test_each_way_of_combining():
    z, y = logits_of(5, 200)
    p = softmax(z)
    by_vote = ensembles.improvement(z.argmax(2), y, combine="predictions")
    assert by_vote.ensemble_accuracy == (voted(z.argmax(2)) == y).mean()
    by_logits = ensembles.improvement(z, y, combine="logits")
    assert by_logits.ensemble_accuracy == (z.astype(np.float64).mean(0).argmax(1) == y).mean()
    assert ensembles.improvement(p, y).ensemble_accuracy == (p.mean(0).argmax(1) == y).mean()


def test_labels_must_fit():
    p = softmax(logits_of(2, 10)[0])
    with pytest.raises(InputError, check=fields(argument="labels", expected="10")):
        ensembles.improvement(p, [0] * 9)
    with pytest.raises(InputError, check=fields(argument="labels")):
        ensembles.improvement(p)
    with pytest.raises(InputError, check=fields(argument="labels", expected="whole")):
        conversion_rate(p[0], p[1], np.zeros(10))


class TestObjectiveGroups:
    def groups(self, seeds=4, examples=150):
        rng = np.random.default_rng(3)
        y = rng.integers(0, 4, examples)
        noisy = {name: np.where(rng.random((seeds, examples)) < keep, y, rng.integers(0, 4, (seeds, examples)))
                 for name, keep in {"softmax": 0.6, "sigmoid": 0.5, "cosine": 0.7}.items()}  # fmt: skip
        return noisy, y

    def test_mixed_ensembles_against_a_loop(self):
        groups, y = self.groups()
        found = mixed_ensembles(groups, y)
        for a, x in groups.items():
            assert_allclose(found.loc[a, a], (voted(x) == y).mean())
            for b, z in groups.items():
                ways = [voted(np.concatenate(halves)) for halves in ((x[:2], z[2:]), (z[:2], x[2:]))]
                assert_allclose(found.loc[a, b], np.mean([(way == y).mean() for way in ways]))
        assert_allclose(found, found.T)

    def test_agreement_of_votes(self):
        groups, _ = self.groups()
        found = ensemble_agreement(groups)
        assert_allclose(np.diag(found), 1)
        expected = (voted(groups["softmax"]) == voted(groups["cosine"])).mean()
        assert_allclose(found.loc["softmax", "cosine"], expected)
        single = (groups["softmax"][0] == groups["cosine"][0]).mean()
        assert expected > single  # Fig. C.6: ensembles agree more than single models do

    def test_runs_are_grouped_by_objective(self):
        from made_runs import card

        z, y = logits_of(4, 60)
        names = ["r-softmax", "r-softmax-s1", "r-cosine", "r-cosine-s1"]
        cards = [card(name, objective=name.split("-")[1]) for name in names]
        found = mixed_ensembles(runs_of(z, y, names, cards))
        assert list(found.index) == ["softmax", "cosine"]
        assert_allclose(found.loc["softmax", "softmax"], (voted(z[:2].argmax(2)) == y).mean())
        with pytest.raises(InputError, check=fields(where="r-softmax", problem="no card")):
            mixed_ensembles(runs_of(z, y, names))

    def test_too_few_seeds_or_unequal_examples(self):
        groups, y = self.groups()
        with pytest.raises(InputError, check=fields(where="cosine", expected="at least 2 seeds", found=1)):
            mixed_ensembles(groups | {"cosine": groups["cosine"][:1]}, y)
        with pytest.raises(InputError, check=fields(where="cosine", found=[4, 9])):
            ensemble_agreement(groups | {"cosine": groups["cosine"][:, :9]})
        with pytest.raises(InputError, check=fields(argument="groups", found="list")):
            mixed_ensembles([1, 2], y)
