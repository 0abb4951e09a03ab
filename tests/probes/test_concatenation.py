"""Feature concatenation: what is drawn, what is scored, and what goes wrong."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from probes.concatenation import _counts, _draw, concatenate, gather
from probes.linear import LinearProbe
from zoo.errors import InputError, UnknownName

DIGITS = load_digits()
X, Y = DIGITS.data[:800] / 16, DIGITS.target[:800]
# The upper and the lower half of each digit: features that overlap in what they tell, and neither tells all.
UPPER, LOWER = X[:, :32], X[:, 32:]
TRAIN, TEST = slice(0, 500), slice(500, 800)
FEW = {"strengths": [0.1, 1.0]}


def halves(rows: slice) -> dict[str, np.ndarray]:
    return {"upper": UPPER[rows], "lower": LOWER[rows]}


def test_ends_are_the_models_alone_and_the_middle_is_better() -> None:
    frame = concatenate(halves(TRAIN), Y[TRAIN], "upper", test=(halves(TEST), Y[TEST]), **FEW)
    assert list(frame) == ["other", "rate", "seed", "dimensions", "base_dimensions", "other_dimensions", "accuracy"]
    assert len(frame) == 5 * 3
    for rate, x in ((1, UPPER), (0, LOWER)):
        alone = LinearProbe(**FEW).fit(x[TRAIN], Y[TRAIN]).score(x[TEST], Y[TEST])
        assert set(frame.accuracy[frame.rate == rate]) == {alone}
    assert (frame.dimensions == 32).all()
    mean = frame.groupby("rate").accuracy.mean()
    assert mean[0.5] > max(mean[0], mean[1])


def test_a_draw_against_scikit_learn() -> None:
    frame = concatenate(halves(TRAIN), Y[TRAIN], "upper", [0.5], [7], (halves(TEST), Y[TEST]), 0, strengths=[1.0])
    upper, lower = (part.numpy() for part in _draw(7, (32, 32), (16, 16)))
    both = np.concatenate([UPPER[:, upper], LOWER[:, lower]], 1)
    peer = LogisticRegression(C=0.5, tol=1e-8, max_iter=5000).fit(both[TRAIN], Y[TRAIN])
    assert frame.accuracy[0] == pytest.approx(peer.score(both[TEST], Y[TEST]), abs=0.004)


def test_without_a_test_set_the_probe_never_sees_the_scored_rows() -> None:
    x = np.arange(100.0)[:, None]
    y = np.repeat([f"class {k}" for k in range(5)], 20)
    shared = gather({"a": x, "b": -x}, y)
    seen, scored = shared.x["a"].tensor()[:, 0].numpy(), shared.test_x["a"].tensor()[:, 0].numpy()
    assert sorted([*seen, *scored]) == x[:, 0].tolist()
    assert (shared.y == y[seen.astype(int)]).all()
    assert (shared.test_y == y[scored.astype(int)]).all()
    assert np.unique(shared.test_y, return_counts=True)[1].tolist() == [4] * 5
    assert (shared.test_x["b"].tensor() == -shared.test_x["a"].tensor()).all()


def test_labels_that_say_nothing_score_at_chance() -> None:
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(1000, 40)), rng.integers(0, 2, 1000)
    frame = concatenate({"a": x, "b": rng.normal(size=(1000, 40))}, y, "a", [0.5], **FEW)
    assert frame.accuracy.mean() == pytest.approx(0.5, abs=0.1)


def test_every_other_model_and_any_width() -> None:
    wide = np.concatenate([X, X], 1)
    models = {"narrow": UPPER[:, :8], "base": UPPER, "wide": torch.from_numpy(wide)}
    frame = concatenate(models, torch.from_numpy(Y), "base", [0.75, 0], seeds=2, **FEW)
    assert frame.other.tolist() == ["narrow"] * 4 + ["wide"] * 4
    assert frame.base_dimensions.tolist() == [24, 24, 0, 0] * 2
    assert frame.other_dimensions.tolist() == [2, 2, 8, 8, 8, 8, 32, 32]


def test_the_same_call_gives_the_same_frame_and_seeds_differ() -> None:
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


def test_a_seeds_larger_shares_contain_its_smaller_ones() -> None:
    few, many = (_draw(3, (64, 48), counts) for counts in ((10, 5), (30, 40)))
    for small, large, width in zip(few, many, (64, 48), strict=True):
        assert set(small.tolist()) < set(large.tolist()) <= set(range(width))


def test_standardised_is_scikit_learns_and_leaves_constants_at_zero() -> None:
    x = np.concatenate([1e4 + UPPER, np.full((800, 1), 0.1)], 1)
    shared = gather({"a": x[TRAIN], "b": LOWER[TRAIN]}, Y[TRAIN], ({"b": LOWER[TEST], "a": x[TEST]}, Y[TEST])).standardised()
    scaler = StandardScaler().fit(x[TRAIN])
    varied = np.ptp(x[TRAIN], axis=0) > 0
    assert not varied[-1]
    for ours, rows in ((shared.x["a"].tensor(), TRAIN), (shared.test_x["a"].tensor(), TEST)):
        np.testing.assert_allclose(ours.numpy()[:, varied], scaler.transform(x[rows])[:, varied], rtol=1e-4, atol=1e-4)
        assert (ours[:, ~torch.from_numpy(varied)] == 0).all()


def test_standardised_does_not_mind_the_scale() -> None:
    models = {"upper": UPPER, "lower": LOWER}
    plain, scaled = (
        concatenate({"upper": UPPER, "lower": factor * LOWER}, Y, "upper", [0.5], 1, standardised=True, **FEW).accuracy[0]
        for factor in (1, 1e-6)
    )
    assert plain == pytest.approx(scaled, abs=0.02)
    assert plain > concatenate(models | {"lower": 1e-6 * LOWER}, Y, "upper", [0.5], 1, **FEW).accuracy[0]


def test_fewer_rows_than_dimensions() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(30) % 3
    x = rng.normal(size=(30, 100)) + 2 * rng.normal(size=(3, 100))[y]
    assert concatenate({"a": x, "b": x[:, ::-1]}, y, "a", [0.5], 1, **FEW).accuracy[0] == 1


BAD = np.where(np.arange(800)[:, None] == 5, np.nan, LOWER)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"features": {"upper": UPPER}}, "two or more models, found 1: 'upper'"),
        (
            {"features": {"upper": UPPER, "lower": LOWER[:-1]}},
            "features of 'lower': expected 800 rows, one per label, found 799",
        ),
        ({"features": {"upper": UPPER, "lower": BAD}}, "features of 'lower': row 5 has NaN"),
        ({"features": {"upper": UPPER, "lower": LOWER[0]}}, r"features of 'lower': expected shape \[N, D\]"),
        ({"rates": [0.5, 1.5]}, "rates: expected shares from 0 to 1, found 1.5"),
        ({"rates": [float("nan")]}, "rates: expected shares from 0 to 1, found nan"),
        ({"rates": []}, "at least one rate and one seed"),
        ({"seeds": 0}, "at least one rate and one seed"),
        ({"y": np.eye(10)[Y]}, r"labels: expected shape \[N\], found \[800, 10\]"),
        ({"y": np.zeros(800)}, "at least two classes"),
        ({"test": ({"upper": UPPER}, Y)}, "test: expected features of upper, lower, found those of upper"),
        ({"test": ({"upper": UPPER, "lower": BAD}, Y)}, "test features of 'lower': row 5"),
        ({"test": ({"upper": UPPER, "lower": LOWER[:, 1:]}, Y)}, "'lower'.*32 dimensions to fit on and 31 to test on"),
    ],
)
def test_bad_input(change: dict, message: str) -> None:
    with pytest.raises(InputError, match=message):
        concatenate(**{"features": {"upper": UPPER, "lower": LOWER}, "y": Y, "base": "upper", **FEW, **change})


def test_an_unknown_base_names_the_models() -> None:
    with pytest.raises(UnknownName, match="'uper' is not among the models given, 'upper', 'lower'"):
        concatenate({"upper": UPPER, "lower": LOWER}, Y, "uper")
