"""LinearProbe: scikit-learn's optimum, the choice of the strength, sample weights, and bad input."""

import numpy as np
import pandas as pd
import pytest
import torch
from raised import fields
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.utils.estimator_checks import check_sample_weight_equivalence_on_dense_data

from probes.linear import STRENGTHS, LinearProbe
from probes.metrics import mean_per_class_accuracy
from zoo.errors import InputError, ZooWarning


@pytest.mark.filterwarnings("ignore:LinearProbe:zoo.errors.ZooWarning")  # a tolerance of 1e-18 cannot always be reached
def test_weights_equal_repeated_rows_in_scikit_learns_check() -> None:
    """With one strength, no rows are held out, so the check that fails with a random split passes."""
    solved = LinearProbe(strengths=[1.0], validation=0, tolerance=1e-18)
    check_sample_weight_equivalence_on_dense_data("LinearProbe", solved)


def digits(rows: int = 600) -> tuple[np.ndarray, np.ndarray]:
    data = load_digits()
    return data.data[:rows] / 16, data.target[:rows]


@pytest.mark.parametrize("classes", [2, 3, 10])
def test_coefficients_equal_scikit_learns(classes: int) -> None:
    """C = 1 / (2 strength), also for two classes, which have one row of weights."""
    x, y = digits()
    x, y = x[y < classes], y[y < classes]
    ours = LinearProbe(strengths=[1.0], validation=0, tolerance=1e-8).fit(x, y)
    theirs = LogisticRegression(C=0.5, tol=1e-10, max_iter=10_000).fit(x, y)
    assert ours.coef_.shape == theirs.coef_.shape
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-3)
    np.testing.assert_allclose(ours.predict_proba(x), theirs.predict_proba(x), atol=1e-3)
    np.testing.assert_allclose(ours.decision_function(x), theirs.decision_function(x), atol=1e-2)


def test_default_strengths_are_the_papers() -> None:
    assert len(STRENGTHS) == 45
    assert STRENGTHS[0] == pytest.approx(1e-6)
    assert STRENGTHS[-1] == pytest.approx(1e5)
    np.testing.assert_allclose(np.diff(np.log10(STRENGTHS)), 0.25)


def test_strength_is_best_on_held_out_rows_and_is_refitted_on_all_rows() -> None:
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


def test_strength_is_chosen_on_a_validation_pair() -> None:
    x, y = digits()
    probe = LinearProbe(validation=(x[400:], y[400:])).fit(x[:400], y[:400])
    scores = [
        LinearProbe(strengths=[s], validation=0).fit(x[:400], y[:400]).score(x[400:], y[400:])
        for s in (1e3, probe.strength_)
    ]
    assert probe.path_["score"].max() == pytest.approx(scores[1])
    assert scores[1] >= scores[0]
    everything = LinearProbe(strengths=[probe.strength_], validation=0).fit(x, y)
    assert probe.objective_ == pytest.approx(everything.objective_, rel=1e-5)


def test_score_is_the_metric() -> None:
    x, y = digits()
    keep = (y != 3) | (np.arange(len(y)) % 5 == 0)
    probe = LinearProbe(metric="mean-per-class").fit(x[keep], y[keep])
    assert probe.score(x, y) == pytest.approx(mean_per_class_accuracy(probe.predict(x), y))


def test_tensors_return_tensors_and_labels_have_any_type() -> None:
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


def test_constant_features_give_priors_and_wide_features_can_be_fitted() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(40) % 4
    constant = LinearProbe().fit(np.ones((40, 5)), y)
    np.testing.assert_allclose(constant.predict_proba(np.ones((1, 5))), 0.25, atol=1e-6)
    wide = rng.normal(size=(40, 300)) + 2 * np.eye(300)[y]
    probe = LinearProbe().fit(wide, y)
    assert probe.coef_.shape == (4, 300)
    assert probe.score(wide, y) > 0.9


def test_shifting_the_features_changes_the_intercept_only() -> None:
    x, y = digits(200)
    here = LinearProbe(strengths=[0.1], validation=0).fit(x, y)
    away = LinearProbe(strengths=[0.1], validation=0).fit(x + 1e6, y)
    assert away.objective_ == pytest.approx(here.objective_, rel=2e-5)
    np.testing.assert_allclose(away.predict_proba(x + 1e6), here.predict_proba(x), atol=0.01)


def test_scaling_the_features_scales_the_strength() -> None:
    """x -> s x with strength -> s^2 strength is the same problem."""
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
    ("change", "error"),
    [
        ({"y": np.zeros(20, int)}, {"argument": "y", "problem": "one class"}),
        ({"y": np.arange(19)}, {"argument": "y", "expected": "20", "found": 19}),
        ({"y": np.arange(20)}, {"argument": "validation", "problem": "two examples"}),
        ({"y": np.linspace(0, 1, 20)}, {"argument": "y", "problem": "continuous"}),
        ({"y": np.array([None, *["a", "b"] * 9, "a"])}, {"argument": "y", "problem": "row 0"}),
        ({"X": np.full((20, 3), np.nan)}, {"argument": "X", "problem": "row 0"}),
        ({"X": np.where(np.arange(60).reshape(20, 3) == 31, np.inf, 1.0)}, {"argument": "X", "problem": "row 10"}),
        ({"X": torch.full((20, 3), torch.nan)}, {"argument": "X", "problem": "row 0"}),
        ({"X": torch.zeros(20)}, {"argument": "X", "found": [20]}),
        ({"validation": 0}, {"argument": "validation", "problem": "45"}),
        ({"validation": 1.5}, {"argument": "validation", "found": 1.5}),
        ({"validation": "most"}, {"argument": "validation", "found": "most"}),
        ({"validation": (np.zeros((2, 3)),)}, {"argument": "validation", "found": 1}),
        ({"validation": (np.zeros((2, 3)), [0, 7])}, {"argument": "validation", "problem": ["row 1", "7"]}),
        ({"validation": (np.zeros((2, 3)), [0])}, {"argument": "validation", "found": [1]}),
        ({"validation": (np.full((2, 3), np.nan), [0, 1])}, {"where": "validation", "argument": "X", "problem": "row 0"}),
        ({"strengths": [1.0, -1.0]}, {"argument": "strengths", "found": [1.0, -1.0]}),
        ({"strengths": []}, {"argument": "strengths", "found": []}),
        ({"strengths": "strong"}, {"argument": "strengths", "found": "strong"}),
        ({"memory": 0}, {"argument": "memory", "found": 0}),
        ({"tolerance": -1e-5}, {"argument": "tolerance", "found": -1e-5}),
        ({"seed": -1}, {"argument": "seed", "found": -1}),
        ({"metric": "top-1"}, {"argument": "metric", "expected": "accuracy, mean-per-class"}),
    ],
)
def test_bad_input_is_named(change: dict, error: dict) -> None:
    arguments = {"X": np.random.default_rng(0).normal(size=(20, 3)), "y": np.arange(20) % 2, **change}
    options = {key: value for key, value in arguments.items() if key not in "Xy"}
    with pytest.raises(InputError, check=fields(**error)):
        LinearProbe(**options).fit(arguments["X"], arguments["y"])


@pytest.mark.parametrize("rows", [100, 1000], ids=["float64", "float32"])
@pytest.mark.parametrize("strength", [1e300, 1e-300])
def test_strengths_beyond_the_range_of_floats_are_named(rows: int, strength: float) -> None:
    x, y = digits(rows)
    for strengths, validation in (([strength], 0), ([strength, 1.0], 0.2)):
        with pytest.raises(InputError, check=fields(argument="strengths", found=strength)):
            LinearProbe(strengths, validation).fit(x, y)


def test_very_strong_and_very_weak_penalties_have_their_limits() -> None:
    x, y = digits(1000)
    strong = LinearProbe([1e30], 0).fit(x, y)
    np.testing.assert_allclose(strong.predict_proba(x[:1])[0], np.bincount(y) / 1000, atol=1e-4)
    with pytest.warns(ZooWarning, match="1e-30"):
        assert LinearProbe([1e-30], 0).fit(x, y).score(x, y) == 1


@pytest.mark.parametrize("scale", [1e200, 1e-200])
def test_features_beyond_the_range_of_floats_are_named(scale: float) -> None:
    x, y = digits(100)
    with pytest.raises(InputError, check=fields(argument="X", expected="1e-150")):
        LinearProbe().fit(x * scale, y)


@pytest.mark.parametrize("classes", [2, 10])
def test_weighted_coefficients_equal_scikit_learns(classes: int) -> None:
    x, y = digits()
    x, y = x[y < classes], y[y < classes]
    counts = np.random.default_rng(0).uniform(0, 3, len(y)) * (np.arange(len(y)) % 5 > 0)
    ours = LinearProbe(strengths=[1.0], validation=0, tolerance=1e-8).fit(x, y, counts)
    theirs = LogisticRegression(C=0.5, tol=1e-10, max_iter=10_000).fit(x, y, counts)
    np.testing.assert_allclose(ours.coef_, theirs.coef_, atol=2e-3)
    assert ours.score(x, y, counts) == pytest.approx(theirs.score(x, y, counts))
    assert np.abs(ours.coef_ - LinearProbe([1.0], 0, tolerance=1e-8).fit(x, y).coef_).max() > 0.01


def test_rows_of_weight_zero_do_not_affect_the_choice_of_strength() -> None:
    x, y = digits(300)
    noisy, counts = y.copy(), np.ones(300)
    noisy[::3], counts[::3] = np.random.default_rng(0).permutation(y[::3]), 0
    weighted = LinearProbe().fit(x, noisy, counts)
    without = LinearProbe().fit(x[counts > 0], y[counts > 0])
    assert weighted.strength_ == without.strength_
    np.testing.assert_allclose(weighted.coef_, without.coef_)


@pytest.mark.parametrize(
    "bad",
    [
        [1.0] * 19,
        [-1.0] * 20,
        [0.0] * 20,
        [float("nan")] * 20,
        [[1.0]] * 20,
        ["a"] * 20,
        np.ma.masked_array(np.ones(20), np.arange(20) == 3),
    ],
)
def test_bad_weights_are_named(bad: object) -> None:
    x, y = np.random.default_rng(0).normal(size=(20, 3)), np.arange(20) % 2
    with pytest.raises(InputError, check=fields(argument="sample_weight")):
        LinearProbe().fit(x, y, bad)


def test_width_is_checked_at_prediction() -> None:
    x, y = digits(100)
    probe = LinearProbe(strengths=[1.0], validation=0).fit(torch.from_numpy(x), torch.from_numpy(y))
    with pytest.raises(InputError, check=fields(argument="X", expected="64", found=63)):
        probe.predict(torch.zeros(2, 63))
