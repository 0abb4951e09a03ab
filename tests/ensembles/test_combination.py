"""Means and votes against NumPy and SciPy, and errors."""

from collections import Counter

import numpy as np
import pytest
import scipy.special
import scipy.stats
import torch
from brute_force import instances
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from made_runs import logits_of, runs_of, softmax
from numpy.testing import assert_allclose, assert_array_equal
from raised import fields

import ensembles
from ensembles.combination import mean_logits
from zoo.errors import InputError
from zoo.outputs.outputs import Outputs, Runs

quick = settings(max_examples=60, deadline=None)


class TestAverage:
    @given(instances(dtypes=(np.float32, np.float64)), st.integers(0, 2**32 - 1))
    @quick
    def test_is_numpys_weighted_mean(self, instance, seed):
        probs, _ = instance
        weights = np.random.default_rng(seed).random(len(probs)) + 0.01
        assert_allclose(ensembles.average(probs), probs.mean(0), atol=1e-6)
        assert_allclose(ensembles.average(probs, weights), np.average(probs, axis=0, weights=weights), atol=1e-6)

    def test_half_precision_gives_single_and_tensors_stay_tensors(self):
        probs = softmax(logits_of()[0]).astype(np.float16)
        assert ensembles.average(probs).dtype == np.float32
        assert ensembles.average(probs.astype(np.float64)).dtype == np.float64
        found = ensembles.average(torch.from_numpy(probs))
        assert isinstance(found, torch.Tensor)
        assert_allclose(found, ensembles.average(list(probs)))

    def test_runs_are_aligned_calibrated_and_weighted_by_name(self):
        z, y = logits_of(2, 30)
        order, columns = np.random.default_rng(1).permutation(30), [3, 0, 4, 1, 2]
        names = np.array(list("abcde"))
        first = Outputs.from_arrays("m0", logits=z[0], labels=y, classes=names, temperature=2.0)
        shuffled = z[1][order][:, columns]
        label_of = np.argsort(columns)
        second = Outputs.from_arrays(
            "m1", logits=shuffled, labels=label_of[y[order]], classes=names[columns], ids=order, temperature=0.5
        )
        found = ensembles.average(Runs([first, second]), weights={"m0": 1, "m1": 3})
        assert_allclose(found, 0.25 * softmax(z[0] / 2) + 0.75 * softmax(z[1] / 0.5), atol=1e-6)

    def test_sigmoid_members_use_their_link(self):
        z, y = logits_of(1, 20)
        one = Outputs.from_arrays("s", logits=z[0], labels=y, link="sigmoid")
        s = scipy.special.expit(z[0].astype(np.float64))
        assert_allclose(ensembles.average([one]), s / s.sum(1, keepdims=True), atol=1e-6)

    @pytest.mark.parametrize(
        ("weights", "error"),
        [
            ([1, -1, 1], {"where": "member 1", "found": -1}),
            ([1, np.nan, 1], {"where": "member 1", "expected": "finite"}),
            ([np.inf, 1, 1], {"where": "member 0", "found": np.inf}),
            ([0, 0, 0], {"expected": "above 0", "found": 0}),
            ([1, 1], {"expected": "3 numbers", "found": [2]}),
            ({7: 1.0}, {"problem": "3 members", "found": "7"}),
        ],
    )
    def test_bad_weights(self, weights, error):
        with pytest.raises(InputError, check=fields(argument="weights", **error)):
            ensembles.average(softmax(logits_of(3, 8)[0]), weights)

    def test_bad_members(self):
        z, _ = logits_of(3, 8)
        probs = softmax(z)
        with pytest.raises(InputError, match="probabilities of 0"):
            ensembles.average(z)
        broken = probs.copy()
        broken[1, 5, 0] = np.nan
        with pytest.raises(InputError, match=r"probabilities of 1.*row 5"):
            ensembles.average(broken)
        with pytest.raises(InputError, check=fields(argument="runs", found=0)):
            ensembles.average([])
        with pytest.raises(InputError, check=fields(where="probabilities of 1", expected="[8, 5]", found=[4, 5])):
            ensembles.average([probs[0], probs[1, :4]])
        with pytest.raises(InputError, check=fields(argument="runs", expected="[M, N, K]", found=[8, 5])):
            ensembles.average(probs[0])

    def test_one_member_and_the_same_one_twice_are_that_member(self):
        p = softmax(logits_of(1, 12)[0])
        assert_array_equal(ensembles.average(p), p[0])
        assert_allclose(ensembles.average([p[0], p[0]], [1, 2]), p[0], rtol=1e-12)

    def test_different_classes_are_refused(self):
        z, y = logits_of(2, 10)
        one = Outputs.from_arrays("a", logits=z[0], labels=y)
        other = Outputs.from_arrays("b", logits=z[1], labels=y, classes=list("vwxyz"))
        with pytest.raises(InputError, match="different classes"):
            ensembles.average([one, other])


class TestMeanLogits:
    def test_is_the_mean_at_each_temperature(self):
        z, _ = logits_of(3, 40)
        found = mean_logits(z, temperatures=[1.0, 2.0, 0.5], weights=[1, 1, 2])
        assert_allclose(found, (z[0] + z[1] / 2 + 2 * z[2] / 0.5) / 4, rtol=1e-5, atol=1e-5)

    def test_of_runs_is_the_geometric_mean_of_probabilities(self):
        z, y = logits_of(3, 40)
        temperatures = [1.0, 2.0, 0.5]
        p = np.stack([softmax(one / t) for one, t in zip(z, temperatures, strict=True)])
        expected = np.exp(np.log(p).mean(0))
        found = mean_logits(runs_of(z, y, temperatures=temperatures))
        assert_allclose(softmax(found), expected / expected.sum(1, keepdims=True), atol=1e-5)

    def test_a_masked_class_stays_masked_unless_the_member_has_weight_0(self):
        z, _ = logits_of(2, 6)
        z[0, :, 2] = -np.inf
        assert np.isneginf(mean_logits(z)[:, 2]).all()
        assert_allclose(mean_logits(z, weights=[0, 1]), z[1])

    def test_large_logits_over_a_small_temperature_stay_finite(self):
        z = np.array([[[800.0, -800.0]], [[-800.0, 800.0]]], np.float32)
        assert np.isfinite(mean_logits(z, temperatures=[0.01, 0.02])).all()

    @pytest.mark.parametrize("temperatures", [[1.0], [1.0, 0.0], [1.0, -2.0], [1.0, np.nan]])
    def test_bad_temperatures(self, temperatures):
        with pytest.raises(InputError, check=fields(argument="temperatures", expected="2 finite")):
            mean_logits(logits_of(2, 5)[0], temperatures)

    def test_bad_logits_are_named(self):
        z, y = logits_of(2, 5)
        z[1, 3] = np.nan
        with pytest.raises(InputError, match=r"logits of 1.*row 3"):
            mean_logits(z)
        with pytest.raises(InputError, check=fields(argument="temperatures", hint="Calibrate")):
            mean_logits(runs_of(logits_of(2, 5)[0], y), temperatures=[1, 1])


class TestVote:
    @given(hnp.arrays(np.int64, st.tuples(st.integers(1, 9), st.integers(1, 20)), elements=st.integers(0, 6)))
    @quick
    def test_is_scipys_mode(self, preds):
        assert_array_equal(ensembles.vote(preds), scipy.stats.mode(preds, axis=0).mode)
        assert_array_equal(ensembles.vote(preds, num_classes=21_000), scipy.stats.mode(preds, axis=0).mode)

    @given(hnp.arrays(np.int64, st.integers(1, 20), elements=st.integers(0, 6)), st.integers(1, 5))
    @quick
    def test_vote_of_one_is_that_model(self, preds, copies):
        assert_array_equal(ensembles.vote(np.tile(preds, (copies, 1)), weights=np.arange(1, copies + 1)), preds)

    @given(
        hnp.arrays(np.int64, st.tuples(st.just(4), st.integers(1, 20)), elements=st.integers(0, 3)),
        st.lists(st.integers(0, 5), min_size=4, max_size=4).filter(any),
    )
    @quick
    def test_integer_weights_are_repetition(self, preds, weights):
        assert_array_equal(ensembles.vote(preds, 4, weights), scipy.stats.mode(np.repeat(preds, weights, 0), axis=0).mode)

    @given(hnp.arrays(np.int64, st.tuples(st.integers(1, 6), st.integers(1, 20)), elements=st.integers(-1, 3)))
    @quick
    def test_a_missing_prediction_is_no_vote(self, preds):
        expected = []
        for column in preds.T:
            counts = Counter(column[column >= 0].tolist())
            expected.append(min(counts, key=lambda k: (-counts[k], k)) if counts else -1)
        assert_array_equal(ensembles.vote(preds), expected)
        assert_array_equal(ensembles.vote(preds, num_classes=9), expected)

    @pytest.mark.parametrize("options", [{}, {"num_classes": 2**41}])
    def test_a_class_beyond_reason_is_an_error(self, options):
        with pytest.raises(InputError, check=fields(where="predictions", problem="classes", hint="ZOO_MAX_CLASSES")):
            ensembles.vote([[0, 2**40], [0, 1]], **options)

    def test_weights_that_round_differently_still_tie(self):
        # 0.1 + 0.2 is not 0.3 in binary; the lower class wins all the same.
        assert ensembles.vote([[1], [1], [0]], weights=[0.1, 0.2, 0.3]).tolist() == [0]

    def test_runs_of_predictions(self):
        y = np.array([0, 1, 2])
        runs = [Outputs.from_arrays(n, predictions=p, labels=y) for n, p in {"a": [0, 1, 1], "b": [0, 2, 1]}.items()]
        assert ensembles.vote(Runs(runs)).tolist() == [0, 1, 1]

    @pytest.mark.parametrize(
        ("preds", "error"),
        [
            ([[0, 5]], {"argument": "predictions of 0"}),
            ([[0, -2]], {"argument": "predictions of 0"}),
            ([[0.0, 1.0]], {"argument": "predictions of 0", "expected": "whole"}),
            ([[0, 1], [0]], {"where": "predictions of 1", "found": [1]}),
            (np.zeros((2, 0), int), {"argument": "runs", "found": [2, 0]}),
            (np.zeros(3, int), {"argument": "runs", "expected": "[M, N]"}),
        ],
    )
    def test_bad_predictions(self, preds, error):
        with pytest.raises(InputError, check=fields(**error)):
            ensembles.vote(preds, num_classes=3)
