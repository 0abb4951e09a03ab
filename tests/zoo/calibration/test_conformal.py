"""Prediction sets against naive loops over classes, and their coverage over many random splits."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from raised import fields
from scipy.stats import betabinom

from zoo.calibration.conformal import coverage_interval, evaluate_sets, fit_and_evaluate, fit_conformal, quantile
from zoo.core.prediction_sets import Score, label_places
from zoo.errors import InputError


def data(examples=4000, classes=6, seed=0, sharpness=1.5):
    """Probabilities [N, K] and labels drawn from sharper ones, so that the model is underconfident."""
    rng = np.random.default_rng(seed)
    z = rng.normal(size=(examples, classes))
    truth = np.exp(sharpness * z) / np.exp(sharpness * z).sum(1, keepdims=True)
    labels = np.array([rng.choice(classes, p=row) for row in truth])
    return np.exp(z) / np.exp(z).sum(1, keepdims=True), labels


def naive_scores(p, method, penalty=0.01, free=1):
    scores = np.empty_like(p)
    for n, row in enumerate(p):
        for k in range(len(row)):
            if method == "lac":
                scores[n, k] = 1 - row[k]
                continue
            before = row[(row > row[k])].sum()
            rank = 1 + (row > row[k]).sum()
            scores[n, k] = before + row[k] + (penalty * max(0, rank - free) if method == "raps" else 0)
    return scores


@pytest.mark.parametrize("method", ["lac", "aps", "raps"])
def test_sets_are_those_of_a_naive_loop(method):
    p, y = data(600)
    predictor = fit_conformal(p[:300], y[:300], 0.1, method, randomised=False)
    calibration = np.sort(naive_scores(p[:300], method)[np.arange(300), y[:300]])
    threshold = calibration[int(np.ceil(301 * 0.9)) - 1]
    np.testing.assert_allclose(predictor.thresholds, threshold, rtol=1e-6)
    expected = naive_scores(p[300:], method) <= threshold + 1e-9
    assert (predictor.predict_sets(p[300:]) == expected).mean() > 0.9995  # float32 rounding at the threshold


@pytest.mark.parametrize("score", [Score("lac"), Score("aps"), Score("raps", 0.05, 2)])
@given(st.integers(1, 30), st.integers(1, 9), st.integers(0, 1000), st.sampled_from([np.float32, np.float64]))
def test_scores_of_labels_and_sets_are_those_of_sorted_classes(score, examples, classes, seed, dtype):
    """Classes in the order of their probabilities, of equal ones the first, by a loop in Python."""
    rng = np.random.default_rng(seed)
    weights = rng.integers(1, 4, (examples, classes)) / 4  # many ties, and sums that are exact
    p, u, labels = weights.astype(dtype), rng.integers(0, 8, examples) / 8, rng.integers(0, classes, examples)
    expected = np.empty((examples, classes))
    for row in range(examples):
        total = 0.0
        for rank, k in enumerate(sorted(range(classes), key=lambda k: (-p[row, k], k)), 1):
            if score.method == "lac":
                expected[row, k] = 1 - p[row, k]
            else:
                expected[row, k] = total + u[row] * p[row, k] + score.penalty * max(0, rank - score.free)
            total += p[row, k]
    of_labels = score.of_labels(label_places(p, labels), u)
    np.testing.assert_allclose(score.of_classes(p, u), expected, rtol=1e-5)
    np.testing.assert_allclose(of_labels, expected[np.arange(examples), labels], rtol=1e-5)
    threshold = float(np.quantile(expected, rng.random())) + 1e-3
    assert (score.sets(p, threshold, u) == (expected <= threshold)).all()


@pytest.mark.parametrize("classes", [2, 6, 300])  # 300: sets of more classes than are sorted first
@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_one_pass_for_all_scores_gives_the_results_of_one_score_after_another(classes, dtype):
    rng = np.random.default_rng(classes)
    p = rng.dirichlet(np.ones(classes), 3000)
    y = np.array([rng.choice(classes, p=row) for row in p])
    p, fitted = p.astype(dtype), rng.random(3000) < 0.4
    found = fit_and_evaluate(p, y, fitted, 0.2, seed=3)
    assert list(found) == ["lac", "aps", "raps"]
    for method, report in found.items():
        predictor = fit_conformal(p[fitted], y[fitted], 0.2, method, seed=3)
        sets = predictor.predict_sets(torch.from_numpy(p[~fitted]), 3)  # torch has float16, NumPy converts it slowly
        expected = predictor.evaluate(p[~fitted], y[~fitted], 3)
        np.testing.assert_array_equal(report.covered, sets[np.arange(len(sets)), y[~fitted]])
        assert report.mean_size == sets.sum(1).mean()
        assert report.by_size.equals(expected.by_size)
        assert report.expected == expected.expected
        assert report.worst_class == expected.worst_class


@pytest.mark.parametrize("damage", [lambda p: -p, lambda p: 2 * p, lambda p: p * np.nan])
def test_a_row_that_is_no_distribution_is_named(damage):
    p, y = data(400)
    p[333] = damage(p[333])
    for act in (lambda: fit_conformal(p, y), lambda: fit_and_evaluate(p, y, np.arange(400) < 200)):
        with pytest.raises(InputError, match="row 333", check=fields(argument="probabilities")):
            act()


@pytest.mark.parametrize("method", ["lac", "aps", "raps"])
@pytest.mark.parametrize("conditioning", ["marginal", "class", "cluster"])
def test_coverage_over_random_splits(method, conditioning):
    p, y = data(1000, seed=1)
    rng, coverages = np.random.default_rng(0), []
    for draw in range(100):
        order = rng.permutation(len(y))
        cal, test = order[:500], order[500:]
        predictor = fit_conformal(p[cal], y[cal], 0.1, method, conditioning, seed=draw)
        coverages.append(predictor.evaluate(p[test], y[test], seed=draw).coverage)
    assert np.mean(coverages) == pytest.approx(0.9, abs=0.01)


def test_class_conditional_sets_cover_each_class():
    p, y = data(20_000, classes=3, seed=2)
    p = p * np.array([3.0, 1.0, 0.3])  # a model that favours the first class
    p = p / p.sum(1, keepdims=True)
    marginal = fit_conformal(p[:10_000], y[:10_000], 0.1).evaluate(p[10_000:], y[10_000:])
    mondrian = fit_conformal(p[:10_000], y[:10_000], 0.1, conditioning="class").evaluate(p[10_000:], y[10_000:])
    assert marginal.worst_class[1] < 0.85
    assert mondrian.worst_class[1] > 0.87


def test_lac_sets_are_no_larger_than_the_others():
    p, y = data(6000, seed=3)
    sizes = {
        method: fit_conformal(p[:3000], y[:3000], 0.1, method).evaluate(p[3000:], y[3000:]).mean_size
        for method in ("lac", "aps")
    }
    assert sizes["lac"] <= sizes["aps"]


@given(st.integers(1, 200), st.floats(0.01, 0.99), st.integers(0, 1000))
def test_the_quantile_leaves_at_most_alpha_above(count, alpha, seed):
    scores = np.random.default_rng(seed).normal(size=count)
    threshold = quantile(scores, alpha)
    assert (scores <= threshold).sum() >= np.ceil((count + 1) * (1 - alpha) - 1e-9) or threshold == np.inf


def test_too_few_examples_of_a_class_give_full_sets():
    p, y = data(200, classes=4, seed=4)
    rare = np.append(np.flatnonzero(y != 3), np.flatnonzero(y == 3)[:2])
    sets = fit_conformal(p[rare], y[rare], 0.1, conditioning="class").predict_sets(p)
    assert sets[:, 3].all()


def test_the_interval_of_the_coverage_holds():
    rng = np.random.default_rng(5)
    low, high = coverage_interval(200, 500, 0.1)
    rank = int(np.ceil(201 * 0.9))
    inside = 0
    for _ in range(2000):
        threshold = np.sort(rng.random(200))[rank - 1]
        inside += low <= (rng.random(500) <= threshold).mean() <= high
    assert inside / 2000 == pytest.approx(0.95, abs=0.02)


def test_the_report():
    sets = np.array([[True, False, False], [True, True, False], [False, False, False], [True, True, True]])
    report = evaluate_sets(sets, np.array([0, 2, 1, 2]), 0.1, 100)
    assert (report.coverage, report.mean_size, report.empty) == (0.5, 1.5, 0.25)
    assert report.by_size.to_dict("list") == {"size": [0, 1, 2, 3], "examples": [1] * 4, "coverage": [0.0, 1.0, 0.0, 1.0]}
    assert report.worst_class == (1, 0.0)


@pytest.mark.parametrize(
    ("options", "argument"),
    [({"alpha": 0}, "alpha"), ({"method": "top-k"}, "method"), ({"conditioning": "row"}, "conditioning")],
)
def test_bad_options(options, argument):
    p, y = data(50)
    with pytest.raises(InputError, check=fields(argument=argument)):
        fit_conformal(p, y, **options)


def test_other_classes_are_refused():
    p, y = data(100)
    with pytest.raises(InputError, check=fields(argument="probabilities", found=5)):
        fit_conformal(p, y).predict_sets(data(10, classes=5)[0])


def test_size_stratified_coverage_is_the_lowest_over_sizes():
    rng = np.random.default_rng(5)
    sets, y = rng.random((3000, 4)) < 0.5, rng.integers(0, 4, 3000)
    report = evaluate_sets(sets, y, 0.1, 500)
    sizes, covered = sets.sum(1), sets[np.arange(3000), y]
    assert report.by_size["examples"].sum() == 3000
    assert report.size_stratified_coverage == pytest.approx(
        min(covered[sizes == size].mean() for size in range(1, 5)), abs=1e-9
    )


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.5])
@pytest.mark.parametrize(("calibration", "test"), [(1, 1), (9, 4), (100, 30), (2500, 2500), (25_000, 40_000)])
def test_the_interval_of_the_coverage_is_scipys(calibration, test, alpha):
    rank = int(np.ceil((calibration + 1) * (1 - alpha) - 1e-9))
    if rank > calibration:
        assert coverage_interval(calibration, test, alpha) == (1, 1)
    else:
        expected = betabinom.ppf([0.025, 0.975], test, rank, calibration + 1 - rank) / test
        assert coverage_interval(calibration, test, alpha) == pytest.approx(tuple(expected), abs=1e-12)
