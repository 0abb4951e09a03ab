"""LinearProbe: scikit-learn's contract, scikit-learn's optimum, choosing, and what goes wrong."""

import numpy as np
import pandas as pd
import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import check_sample_weight_equivalence_on_dense_data, parametrize_with_checks

from probes.linear import STRENGTHS, LinearProbe
from probes.metrics import mean_per_class_accuracy
from zoo.errors import InputError

# Where the strength is chosen on rows held out by chance, a row that counts twice is never on both sides, as its copies may
# be: that is another choice. With one strength there is none, and solved to rounding the two are the same.
BY_CHANCE = {"check_sample_weight_equivalence_on_dense_data": "copies of a row may be held out, one that counts twice not"}


@parametrize_with_checks([LinearProbe()], expected_failed_checks=lambda _: BY_CHANCE)
def test_scikit_learn_contract(estimator, check) -> None:
    check(estimator)


@pytest.mark.filterwarnings("ignore:LinearProbe.*of the optimum:zoo.errors.ZooWarning")  # 1e-18 is asking a lot
def test_weights_stand_for_repeated_rows_as_scikit_learn_checks_it() -> None:
    solved = LinearProbe(strengths=[1.0], validation=0, tolerance=1e-18)
    check_sample_weight_equivalence_on_dense_data("LinearProbe", solved)


def digits(rows: int = 600) -> tuple[np.ndarray, np.ndarray]:
    data = load_digits()
    return data.data[:rows] / 16, data.target[:rows]


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_same_weights_as_scikit_learn(classes: int) -> None:
    """C = 1 / (2 lambda), also for two classes, where the penalty is on the one row there is."""
    x, y = digits()
    x, y = x[y < classes], y[y < classes]
    ours = LinearProbe(strengths=[1.0], validation=0, tolerance=1e-8).fit(x, y)
    theirs = LogisticRegression(C=0.5, tol=1e-10, max_iter=10_000).fit(x, y)
    assert ours.coef_.shape == theirs.coef_.shape
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-3)
    np.testing.assert_allclose(ours.predict_proba(x), theirs.predict_proba(x), atol=1e-3)
    np.testing.assert_allclose(ours.decision_function(x), theirs.decision_function(x), atol=1e-2)


def test_the_paths_strengths_are_those_of_the_paper() -> None:
    assert len(STRENGTHS) == 45
    assert STRENGTHS[0] == pytest.approx(1e-6)
    assert STRENGTHS[-1] == pytest.approx(1e5)
    np.testing.assert_allclose(np.diff(np.log10(STRENGTHS)), 0.25)


def test_choice_and_refit() -> None:
    """The strength is the best on the held-out rows, and the weights are those of a fit on all rows at that strength."""
    x, y = digits()
    probe = LinearProbe().fit(x, y)
    table = probe.path_
    assert isinstance(table, pd.DataFrame)
    assert len(table) == 45
    assert table["strength"].is_monotonic_decreasing
    best = table[table["score"] == table["score"].max()]
    assert probe.strength_ == best.loc[best["log_loss"].idxmin(), "strength"]
    assert (table["gap"] <= 1e-5 * table["objective"]).all()
    assert (table["objective"].diff().dropna() < 0).all()  # weaker strengths, lower optima
    again = LinearProbe(strengths=[probe.strength_], validation=0).fit(x, y)
    assert again.objective_ == pytest.approx(probe.objective_, rel=1e-5)
    np.testing.assert_allclose(again.predict_proba(x), probe.predict_proba(x), atol=0.02)


def test_a_given_validation_set_decides() -> None:
    x, y = digits()
    given = LinearProbe(validation=(x[400:], y[400:])).fit(x[:400], y[:400])
    scores = [
        LinearProbe(strengths=[s], validation=0).fit(x[:400], y[:400]).score(x[400:], y[400:])
        for s in (1e3, given.strength_)
    ]
    assert given.path_["score"].max() == pytest.approx(scores[1])
    assert scores[1] >= scores[0]
    everything = LinearProbe(strengths=[given.strength_], validation=0).fit(x, y)
    assert given.objective_ == pytest.approx(everything.objective_, rel=1e-5)


def test_mean_per_class_score() -> None:
    x, y = digits()
    keep = (y != 3) | (np.arange(len(y)) % 5 == 0)
    probe = LinearProbe(metric="mean-per-class").fit(x[keep], y[keep])
    assert probe.score(x, y) == pytest.approx(mean_per_class_accuracy(probe.predict(x), y))


def test_tensors_in_tensors_out_and_labels_of_any_kind() -> None:
    x, y = digits(200)
    names = np.array([f"digit {k}" for k in y])
    plain = LinearProbe(strengths=[0.1], validation=0).fit(x, names)
    assert set(plain.predict(x)) <= set(names)
    tensors = LinearProbe(strengths=[0.1], validation=0).fit(torch.from_numpy(x), torch.from_numpy(y))
    predicted = tensors.predict(torch.from_numpy(x))
    assert isinstance(predicted, torch.Tensor)
    assert isinstance(tensors.coef_, torch.Tensor)
    assert tensors.predict_proba(torch.from_numpy(x)).shape == (200, 10)
    assert tensors.score(torch.from_numpy(x), torch.from_numpy(y)) == plain.score(x, names)
    half = LinearProbe(strengths=[0.1], validation=0).fit(torch.from_numpy(x).half(), torch.from_numpy(y))
    assert half.coef_.dtype == torch.float32
    single = LinearProbe(strengths=[0.1], validation=0).fit(x.astype(np.float32), y)
    assert single.coef_.dtype == np.float32


def test_features_that_say_nothing_or_too_much() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(40) % 4
    constant = LinearProbe().fit(np.ones((40, 5)), y)
    np.testing.assert_allclose(constant.predict_proba(np.ones((1, 5))), 0.25, atol=1e-6)
    wide = rng.normal(size=(40, 300)) + 2 * np.eye(300)[y]
    probe = LinearProbe().fit(wide, y)
    assert probe.coef_.shape == (4, 300)
    assert probe.score(wide, y) > 0.9


def test_moving_the_features_moves_the_intercept_only() -> None:
    x, y = digits(200)
    here = LinearProbe(strengths=[0.1], validation=0).fit(x, y)
    away = LinearProbe(strengths=[0.1], validation=0).fit(x + 1e6, y)
    assert away.objective_ == pytest.approx(here.objective_, rel=2e-5)
    np.testing.assert_allclose(away.predict_proba(x + 1e6), here.predict_proba(x), atol=0.01)


def test_scaling_the_features_scales_the_strength() -> None:
    """x -> s x with lambda -> s^2 lambda is the same problem, whatever the size of s."""
    x, y = digits(200)
    one = LinearProbe(strengths=[0.1], validation=0).fit(x, y)
    for s in (1e-15, 1e12):
        other = LinearProbe(strengths=[0.1 * s**2], validation=0).fit(x * s, y)
        assert other.objective_ == pytest.approx(one.objective_, rel=2e-5)
        np.testing.assert_allclose(other.predict_proba(x * s), one.predict_proba(x), atol=0.01)


def test_a_class_with_one_example_is_learnt() -> None:
    x, y = digits(100)
    x, y = np.concatenate([x, np.full((1, 64), 0.9)]), np.concatenate([y, [99]])
    probe = LinearProbe().fit(x, y)
    assert 99 in probe.classes_
    assert probe.coef_.shape[0] == 11


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"y": np.zeros(20, int)}, "at least two classes"),
        ({"y": np.arange(19)}, "20 labels"),
        ({"y": np.arange(20)}, "no class has two examples"),
        ({"y": np.linspace(0, 1, 20)}, "continuous"),
        ({"x": np.full((20, 3), np.nan)}, "row 0 has NaN"),
        ({"x": np.where(np.arange(60).reshape(20, 3) == 31, np.inf, 1.0)}, "row 10 has NaN or infinite"),
        ({"x": torch.full((20, 3), torch.nan)}, "row 0 has NaN"),
        ({"x": torch.zeros(20)}, r"\[N, D\]"),
        ({"validation": 0}, "nothing to choose among 45"),
        ({"validation": 1.5}, "share between 0 and 1"),
        ({"strengths": [1.0, -1.0]}, "positive"),
        ({"strengths": []}, "positive"),
        ({"memory": 0}, "gigabytes above 0"),
        ({"metric": "top-1"}, "accuracy, mean-per-class"),
        ({"validation": (np.zeros((2, 3)), [0, 7])}, "label 7"),
    ],
)
def test_bad_input_is_named(change: dict, words: str) -> None:
    rng = np.random.default_rng(0)
    given = {"x": rng.normal(size=(20, 3)), "y": np.arange(20) % 2, **change}
    options = {key: value for key, value in given.items() if key not in "xy"}
    with pytest.raises(InputError, match=words):
        LinearProbe(**options).fit(given["x"], given["y"])


@pytest.mark.parametrize("classes", [2, 10])
def test_weights_as_scikit_learn_takes_them(classes: int) -> None:
    x, y = digits()
    x, y = x[y < classes], y[y < classes]
    counts = np.random.default_rng(0).uniform(0, 3, len(y)) * (np.arange(len(y)) % 5 > 0)
    ours = LinearProbe(strengths=[1.0], validation=0, tolerance=1e-8).fit(x, y, counts)
    theirs = LogisticRegression(C=0.5, tol=1e-10, max_iter=10_000).fit(x, y, counts)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-3)
    assert ours.score(x, y, counts) == pytest.approx(theirs.score(x, y, counts))
    assert np.abs(ours.coef_ - LinearProbe([1.0], 0, tolerance=1e-8).fit(x, y).coef_).max() > 0.01


def test_weights_decide_the_choice_of_strength_too() -> None:
    """Held-out rows without weight do not vote: labels that are noise there change nothing."""
    x, y = digits(300)
    noisy, counts = y.copy(), np.ones(300)
    noisy[::3], counts[::3] = np.random.default_rng(0).permutation(y[::3]), 0
    weighted = LinearProbe().fit(x, noisy, counts)
    without = LinearProbe().fit(x[counts > 0], y[counts > 0])
    assert weighted.strength_ == without.strength_
    np.testing.assert_allclose(weighted.coef_, without.coef_)


@pytest.mark.parametrize("bad", [[1.0] * 19, [-1.0] * 20, [0.0] * 20, [float("nan")] * 20, [[1.0]] * 20])
def test_weights_that_cannot_be(bad: list) -> None:
    x, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2
    with pytest.raises(InputError, match="sample_weight: "):
        LinearProbe().fit(x, y, bad)


def test_width_is_checked_at_prediction() -> None:
    x, y = digits(100)
    probe = LinearProbe(strengths=[1.0], validation=0).fit(torch.from_numpy(x), torch.from_numpy(y))
    with pytest.raises(InputError, match="63 features"):
        probe.predict(torch.zeros(2, 63))
