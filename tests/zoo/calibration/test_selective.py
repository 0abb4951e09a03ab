"""Risk-coverage curves against a loop over random orders, and thresholds that are judged on other examples."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from raised import fields
from scipy.stats import binomtest

from zoo.calibration.selective import (
    binomial_interval,
    certainty,
    choose_threshold,
    judge_threshold,
    oracle_aurc,
    risk_coverage,
)
from zoo.errors import InputError


def naive_curve(scores, correct, draws=4000, seed=0):
    """Risk at each coverage, averaged over random orders of equal scores."""
    rng = np.random.default_rng(seed)
    risks = []
    for _ in range(draws):
        order = np.lexsort((rng.random(len(scores)), -scores))
        risks.append(np.cumsum(~correct[order]) / np.arange(1, len(scores) + 1))
    return np.mean(risks, 0)


def test_the_curve_is_the_expectation_over_orders_of_equal_scores():
    rng = np.random.default_rng(1)
    scores, correct = rng.integers(0, 4, 30) / 4, rng.random(30) < 0.7
    curve = risk_coverage(scores, correct, resamples=0)
    np.testing.assert_allclose(curve.risk, naive_curve(scores, correct), atol=0.03)
    assert curve.aurc == pytest.approx(curve.risk.mean())
    assert curve.augrc == pytest.approx((curve.risk * curve.coverage).mean())


def test_unique_scores_give_the_plain_cumulative_risk():
    rng = np.random.default_rng(2)
    scores, correct = rng.permutation(200).astype(float), rng.random(200) < 0.8
    order = np.argsort(-scores)
    expected = np.cumsum(~correct[order]) / np.arange(1, 201)
    np.testing.assert_allclose(risk_coverage(scores, correct, resamples=0).risk, expected)


@pytest.mark.parametrize("coverage", [0.01, 0.25, 0.5, 0.999, 1.0])
def test_accuracy_at_a_coverage_and_back(coverage):
    rng = np.random.default_rng(3)
    scores, correct = rng.permutation(200).astype(float), rng.random(200) < 0.8
    curve = risk_coverage(scores, correct, resamples=0)
    accepted = np.argsort(-scores)[: int(np.ceil(coverage * 200))]
    assert curve.accuracy_at(coverage) == pytest.approx(correct[accepted].mean())
    wanted = curve.accuracy_at(coverage)
    reached = [k for k in range(1, 201) if correct[np.argsort(-scores)[:k]].mean() >= wanted - 1e-12]
    assert curve.coverage_at(wanted) == pytest.approx(max(reached) / 200)


@given(st.integers(1, 60), st.integers(0, 10**6))
def test_invariants(examples, seed):
    rng = np.random.default_rng(seed)
    scores, correct = rng.integers(0, 10, examples).astype(float), rng.random(examples) < 0.6
    curve = risk_coverage(scores, correct, resamples=0)
    order = rng.permutation(examples)
    again = risk_coverage(scores[order] * 3 + 1, correct[order], resamples=0)  # neither rows nor the scale matter
    np.testing.assert_allclose(curve.risk, again.risk)
    assert curve.risk[-1] == pytest.approx(1 - correct.mean())
    assert curve.excess_aurc >= -1e-12
    assert curve.augrc <= curve.aurc + 1e-12
    oracle = risk_coverage(correct.astype(float), correct, resamples=0)
    assert oracle.excess_aurc == pytest.approx(0, abs=1e-12) or not correct.all()
    assert oracle_aurc(1 - correct.mean(), examples) <= curve.aurc + 1e-12


def naive_areas(scores, correct):
    """AURC, AUGRC and excess AURC by loops over the accepted examples; scores are distinct."""

    def areas(order):
        risks, joint, wrong = [], [], 0
        for accepted, row in enumerate(order, 1):
            wrong += not correct[row]
            risks.append(wrong / accepted)
            joint.append(wrong / len(order))
        return sum(risks) / len(order), sum(joint) / len(order)

    aurc, augrc = areas(sorted(range(len(scores)), key=lambda row: -scores[row]))
    perfect, _ = areas(sorted(range(len(scores)), key=lambda row: not correct[row]))
    return aurc, augrc, aurc - perfect


@pytest.mark.parametrize("accuracy", [0.0, 0.4, 0.9, 1.0])
def test_areas_are_those_of_naive_loops(accuracy):
    rng = np.random.default_rng(5)
    scores, correct = rng.permutation(150).astype(float), rng.random(150) < accuracy
    curve = risk_coverage(scores, correct, resamples=0)
    assert (curve.aurc, curve.augrc, curve.excess_aurc) == pytest.approx(naive_areas(scores, correct), abs=1e-12)


@pytest.mark.parametrize("levels", [20, 100_000])
def test_intervals_are_those_of_curves_of_resampled_examples(levels):
    """The same draws, each with a curve of its own; with 20 levels most scores are equal to others."""
    rng = np.random.default_rng(6)
    scores = rng.integers(0, levels, 500) / levels
    correct = rng.random(500) < 0.5 + scores / 2
    draws, draw = [], np.random.default_rng(7)
    for _ in range(60):
        rows = draw.integers(0, 500, 500)
        curve = risk_coverage(scores[rows], correct[rows], resamples=0)
        draws.append([curve.aurc, curve.augrc, curve.excess_aurc])
    expected = np.percentile(draws, [2.5, 97.5], axis=0)
    found = risk_coverage(scores, correct, resamples=60, seed=7).intervals
    for number, (name, digits) in enumerate({"aurc": 0.002, "augrc": 1e-9, "excess_aurc": 0.002}.items()):
        np.testing.assert_allclose(found[name], expected[:, number], atol=digits)


def test_intervals_hold_about_as_often_as_they_say():
    rng = np.random.default_rng(3)
    population = rng.random(20_000)
    truth = risk_coverage(population, rng.random(20_000) < 0.5 + population / 2, resamples=0).aurc
    held = 0
    for draw in range(60):
        scores = rng.random(400)
        low, high = risk_coverage(scores, rng.random(400) < 0.5 + scores / 2, 100, seed=draw).intervals["aurc"]
        held += low <= truth <= high
    assert held >= 50


def test_certainty_scores():
    p = np.array([[0.7, 0.2, 0.1], [0.4, 0.35, 0.25]])
    np.testing.assert_allclose(certainty(p), [0.7, 0.4])
    np.testing.assert_allclose(certainty(p, "margin"), [0.5, 0.05], atol=1e-7)
    np.testing.assert_allclose(certainty(p, "entropy"), (p * np.log(p)).sum(1), rtol=1e-6)
    same, apart = np.stack([p, p]), np.stack([p, p[:, ::-1]])
    np.testing.assert_allclose(certainty(p, "disagreement", same), 0, atol=1e-6)
    mean = apart.mean(0)
    information = -(mean * np.log(mean)).sum(1) + (p * np.log(p)).sum(1)
    np.testing.assert_allclose(certainty(mean, "disagreement", apart), -information, rtol=1e-5)
    with pytest.raises(InputError, check=fields(argument="members")):
        certainty(p, "disagreement")
    with pytest.raises(InputError, check=fields(argument="score", found="votes")):
        certainty(p, "votes")


def test_a_threshold_is_chosen_on_one_split_and_judged_on_another():
    rng = np.random.default_rng(4)
    scores = rng.random(40_000)
    correct = rng.random(40_000) < scores
    threshold = choose_threshold(scores[:20_000], correct[:20_000], accuracy=0.9)
    judged = judge_threshold(threshold, scores[20_000:], correct[20_000:])
    assert judged.accuracy == pytest.approx(0.9, abs=0.03)
    assert judged.accepted == (scores[20_000:] >= threshold).sum()
    half = choose_threshold(scores[:20_000], correct[:20_000], coverage=0.5)
    assert judge_threshold(half, scores[:20_000], correct[:20_000]).coverage == 0.5
    assert choose_threshold(scores[:50], np.zeros(50, bool), accuracy=0.9) == np.inf
    nothing = judge_threshold(np.inf, scores, correct)
    assert (nothing.coverage, nothing.accuracy_interval) == (0, (0, 1))


@pytest.mark.parametrize(("successes", "trials"), [(0, 5), (5, 5), (3, 10), (99, 100)])
def test_the_binomial_interval_is_scipys(successes, trials):
    expected = binomtest(successes, trials).proportion_ci(method="exact")
    assert binomial_interval(successes, trials) == pytest.approx((expected.low, expected.high), abs=1e-9)


@pytest.mark.parametrize(
    ("scores", "correct", "argument"),
    [([0.1, np.nan], [True, False], "scores"), ([0.1], [True, False], "scores"), ([0.1, 0.2], [1, 0], "correct")],
)
def test_bad_input(scores, correct, argument):
    with pytest.raises(InputError, check=fields(argument=argument)):
        risk_coverage(np.array(scores), np.array(correct))
    with pytest.raises(InputError, check=fields(argument="coverage")):
        choose_threshold(np.array([0.1, 0.2]), np.array([True, False]), coverage=1.5)
    for value in (95, -0.1, np.nan):
        with pytest.raises(InputError, check=fields(argument="accuracy")):
            choose_threshold(np.array([0.1, 0.2]), np.array([True, False]), accuracy=value)
    with pytest.raises(InputError, check=fields(argument="coverage")):
        choose_threshold(np.array([0.1, 0.2]), np.array([True, False]))
