"""Feature concatenation: the draws, the scores against scikit-learn, and bad input."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from raised import fields
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from probes.concatenation import _counts, _draw, concatenate, split_features
from probes.linear import LinearProbe
from zoo.errors import InputError, UnknownName

DIGITS = load_digits()
X, Y = DIGITS.data[:800] / 16, DIGITS.target[:800]
# The upper and the lower half of each digit: each half is informative, and both together are more so.
UPPER, LOWER = X[:, :32], X[:, 32:]
TRAIN, TEST = slice(0, 500), slice(500, 800)
FEW = {"strengths": [0.1, 1.0]}


def halves(rows: slice) -> dict[str, np.ndarray]:
    return {"upper": UPPER[rows], "lower": LOWER[rows]}


def test_rates_1_and_0_are_single_models_and_half_of_both_is_better() -> None:
    frame = concatenate(halves(TRAIN), Y[TRAIN], "upper", test=(halves(TEST), Y[TEST]), **FEW)
    assert list(frame) == ["other", "rate", "seed", "dimensions", "base_dimensions", "other_dimensions", "accuracy"]
    assert len(frame) == 5 * 3
    for rate, x in ((1, UPPER), (0, LOWER)):
        alone = LinearProbe(**FEW).fit(x[TRAIN], Y[TRAIN]).score(x[TEST], Y[TEST])
        assert set(frame.accuracy[frame.rate == rate]) == {alone}
    assert (frame.dimensions == 32).all()
    mean = frame.groupby("rate").accuracy.mean()
    assert mean[0.5] > max(mean[0], mean[1])


def test_a_draw_scores_as_in_scikit_learn() -> None:
    frame = concatenate(halves(TRAIN), Y[TRAIN], "upper", [0.5], [7], (halves(TEST), Y[TEST]), 0, strengths=[1.0])
    upper, lower = (part.numpy() for part in _draw(7, (32, 32), (16, 16)))
    both = np.concatenate([UPPER[:, upper], LOWER[:, lower]], 1)
    peer = LogisticRegression(C=0.5, tol=1e-8, max_iter=5000).fit(both[TRAIN], Y[TRAIN])
    assert frame.accuracy[0] == pytest.approx(peer.score(both[TEST], Y[TEST]), abs=0.004)


def test_without_a_test_set_the_probe_never_sees_the_scored_rows() -> None:
    x = np.arange(100.0)[:, None]
    y = np.repeat([f"class {k}" for k in range(5)], 20)
    split = split_features({"a": x, "b": -x}, y)
    seen, scored = split.train["a"].tensor()[:, 0].numpy(), split.test["a"].tensor()[:, 0].numpy()
    assert sorted([*seen, *scored]) == x[:, 0].tolist()
    assert (split.labels == y[seen.astype(int)]).all()
    assert (split.test_labels == y[scored.astype(int)]).all()
    assert np.unique(split.test_labels, return_counts=True)[1].tolist() == [4] * 5
    assert (split.test["b"].tensor() == -split.test["a"].tensor()).all()


def test_random_labels_score_at_chance() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(1000, 40)), rng.integers(0, 2, 1000)
    frame = concatenate({"a": x, "b": rng.normal(size=(1000, 40))}, y, "a", [0.5], **FEW)
    assert frame.accuracy.mean() == pytest.approx(0.5, abs=0.1)


def test_every_other_model_of_any_width_is_combined() -> None:
    wide = np.concatenate([X, X], 1)
    models = {"narrow": UPPER[:, :8], "base": UPPER, "wide": torch.from_numpy(wide)}
    frame = concatenate(models, torch.from_numpy(Y), "base", [0.75, 0], seeds=2, **FEW)
    assert frame.other.tolist() == ["narrow"] * 4 + ["wide"] * 4
    assert frame.base_dimensions.tolist() == [24, 24, 0, 0] * 2
    assert frame.other_dimensions.tolist() == [2, 2, 8, 8, 8, 8, 32, 32]


def test_calls_repeat_and_seeds_differ() -> None:
    calls = [concatenate(halves(TRAIN), Y[TRAIN], "upper", [0.5], 3, **FEW) for _ in range(2)]
    assert calls[0].equals(calls[1])
    assert calls[0].accuracy.nunique() > 1


@given(st.floats(0, 1), st.integers(1, 300), st.integers(1, 300))
def test_never_more_dimensions_than_the_base(rate: float, base: int, other: int) -> None:
    from_base, from_other = _counts(rate, base, other)
    assert 1 <= from_base + from_other <= base
    assert 0 <= from_other <= other
    assert abs(from_base - rate * base) <= 0.5
    assert abs(from_other - (1 - rate) * min(base, other)) <= 1


def test_a_seeds_larger_draws_contain_its_smaller_ones() -> None:
    few, many = (_draw(3, (64, 48), counts) for counts in ((10, 5), (30, 40)))
    for small, large, width in zip(few, many, (64, 48), strict=True):
        assert set(small.tolist()) < set(large.tolist()) <= set(range(width))


def test_standardised_equals_scikit_learn_with_constants_at_zero() -> None:
    x = np.concatenate([1e4 + UPPER, np.full((800, 1), 0.1)], 1)
    test = {"b": LOWER[TEST], "a": x[TEST]}, Y[TEST]
    split = split_features({"a": x[TRAIN], "b": LOWER[TRAIN]}, Y[TRAIN], test).standardised()
    scaler = StandardScaler().fit(x[TRAIN])
    varied = np.ptp(x[TRAIN], axis=0) > 0
    assert not varied[-1]
    for ours, rows in ((split.train["a"].tensor(), TRAIN), (split.test["a"].tensor(), TEST)):
        np.testing.assert_allclose(ours.numpy()[:, varied], scaler.transform(x[rows])[:, varied], rtol=1e-4, atol=1e-4)
        assert (ours[:, ~torch.from_numpy(varied)] == 0).all()


def test_standardised_scores_do_not_depend_on_the_scale() -> None:
    models = {"upper": UPPER, "lower": LOWER}
    plain, scaled = (
        concatenate({"upper": UPPER, "lower": factor * LOWER}, Y, "upper", [0.5], 1, standardised=True, **FEW).accuracy[0]
        for factor in (1, 1e-6)
    )
    assert plain == pytest.approx(scaled, abs=0.02)
    assert plain > concatenate(models | {"lower": 1e-6 * LOWER}, Y, "upper", [0.5], 1, **FEW).accuracy[0]


def test_fewer_rows_than_dimensions_can_be_probed() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(30) % 3
    x = rng.normal(size=(30, 100)) + 2 * rng.normal(size=(3, 100))[y]
    assert concatenate({"a": x, "b": x[:, ::-1]}, y, "a", [0.5], 1, **FEW).accuracy[0] == 1


BAD = np.where(np.arange(800)[:, None] == 5, np.nan, LOWER)


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"features": {"upper": UPPER}}, {"argument": "features", "found": ["upper"]}),
        ({"features": {"upper": UPPER, "lower": LOWER[:-1]}}, {"argument": "features", "where": "lower", "found": 799}),
        ({"features": {"upper": UPPER, "lower": BAD}}, {"argument": "features", "where": "lower", "problem": "row 5"}),
        ({"features": {"upper": UPPER, "lower": LOWER[0]}}, {"argument": "features", "where": "lower", "found": [32]}),
        ({"rates": [0.5, 1.5]}, {"argument": "rates", "found": 1.5}),
        ({"rates": [float("nan")]}, {"argument": "rates"}),
        ({"rates": []}, {"argument": "rates", "found": 0}),
        ({"seeds": 0}, {"argument": "seeds", "found": 0}),
        ({"labels": np.eye(10)[Y]}, {"argument": "labels", "found": [800, 10]}),
        ({"labels": np.where(Y == 3, np.nan, Y)}, {"argument": "labels", "problem": "row 3"}),
        ({"labels": np.ma.masked_array(Y, Y == 3)}, {"argument": "labels", "problem": "masked"}),
        ({"labels": np.zeros(800)}, {"argument": "y", "problem": "one class"}),
        ({"test": ({"upper": UPPER}, Y)}, {"argument": "test", "expected": "upper, lower", "found": ["upper"]}),
        ({"test": ({"upper": UPPER, "lower": BAD}, Y)}, {"argument": "test", "where": "lower", "problem": "row 5"}),
        ({"test": ({"upper": UPPER, "lower": LOWER[:, 1:]}, Y)}, {"argument": "test", "expected": "32", "found": 31}),
    ],
)
def test_bad_input_is_named(change: dict, error: dict) -> None:
    with pytest.raises(InputError, check=fields(**error)):
        concatenate(**{"features": {"upper": UPPER, "lower": LOWER}, "labels": Y, "base": "upper", **FEW, **change})


@pytest.mark.parametrize(("base", "suggestions"), [("uper", ("upper",)), ("resnet", ("upper", "lower"))])
def test_an_unknown_base_suggests_models(base: str, suggestions: tuple[str, ...]) -> None:
    with pytest.raises(UnknownName, check=fields(argument="base", name=base, suggestions=suggestions)):
        concatenate({"upper": UPPER, "lower": LOWER}, Y, base)
