"""Compression by diversity: the ranking against NumPy, the probes against scikit-learn."""

import json

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from raised import fields
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

from probes._rows import rows_of
from probes.compression import Compression, compress, redundancy
from zoo.errors import InputError

DIGITS = load_digits()
X, Y = DIGITS.data[:800] / 16, DIGITS.target[:800]
UPPER, LOWER = X[:, :32], X[:, 32:]
TRAIN, TEST = slice(0, 500), slice(500, 800)
ONE = {"strengths": [1.0], "validation": 0}


def naive_redundancy(x: np.ndarray) -> np.ndarray:
    """Return the redundancy by its definition, pair by pair."""
    varied = np.ptp(x, axis=0) > 0
    total = np.zeros(x.shape[1])
    for i in np.flatnonzero(varied):
        for j in np.flatnonzero(varied):
            if i != j:
                total[i] += abs(np.corrcoef(x[:, i], x[:, j])[0, 1])
    return total


def measured(x: np.ndarray | torch.Tensor) -> np.ndarray:
    rows = rows_of(x)
    return redundancy(rows, *rows.moments()).numpy()


def digits_result(**options) -> Compression:
    sides = [{"upper": UPPER[rows], "lower": LOWER[rows]} for rows in (TRAIN, TEST)]
    return compress(sides[0], Y[TRAIN], test=(sides[1], Y[TEST]), **{**ONE, **options})


@given(st.integers(2, 30), st.integers(1, 12), st.integers(0, 10**6))
def test_redundancy_equals_numpys_correlations(rows: int, width: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, width)) @ rng.normal(size=(width, width)) * 10.0 ** rng.integers(-4, 4, width)
    x[:, rng.integers(width)] = 0.1
    np.testing.assert_allclose(measured(x), naive_redundancy(x), atol=1e-4)


def test_redundancy_is_exact_far_from_zero_and_for_tensors() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(10_000, 6)) @ rng.normal(size=(6, 6))
    np.testing.assert_allclose(measured(x + 1e6), naive_redundancy(x), atol=1e-4)
    np.testing.assert_allclose(measured(torch.from_numpy(x).float()), naive_redundancy(x), atol=1e-4)


@pytest.mark.parametrize("order", ["least-redundant", "most-redundant"])
def test_order_lists_every_dimension_by_redundancy_with_constants_last(order) -> None:
    result = digits_result(multiples=64, order=order)
    x = np.concatenate([UPPER[TRAIN], LOWER[TRAIN]], 1)
    expected, table = naive_redundancy(x), result.order
    assert sorted(table["index"]) == list(range(64))
    np.testing.assert_allclose(table.redundancy, expected[table["index"]], atol=1e-3)
    constant = np.ptp(x, axis=0) == 0
    assert constant.any()
    assert constant[table["index"]].tolist() == sorted(constant)
    steps = np.diff(table.redundancy[: int((~constant).sum())])
    assert (steps >= -2e-4).all() if order == "least-redundant" else (steps <= 2e-4).all()
    for row in table.itertuples():
        assert row.index == row.dimension + 32 * (row.model == "lower")


def test_accuracies_equal_scikit_learns() -> None:
    result = digits_result(multiples=20, target=0.8)
    assert result.frame.dimensions.tolist() == [20, 40, 60, 64]
    x = np.concatenate([UPPER, LOWER], 1)[:, result.order["index"]]
    x = StandardScaler().fit(x[TRAIN]).transform(x)
    for row in result.frame.itertuples():
        peer = LogisticRegression(C=0.5, tol=1e-8, max_iter=5000).fit(x[TRAIN, : row.dimensions], Y[TRAIN])
        assert row.accuracy == pytest.approx(peer.score(x[TEST, : row.dimensions], Y[TEST]), abs=0.004)
    reached = [row.dimensions for row in result.frame.itertuples() if row.accuracy >= 0.8]
    assert result.dimensions == reached[0] < 64


def test_copies_of_a_dimension_are_neighbours_in_the_order() -> None:
    result = compress({"one": UPPER, "two": UPPER.copy()}, Y, multiples=64, **ONE)
    pairs = result.order.dimension.to_numpy().reshape(-1, 2)
    varied = np.ptp(UPPER, axis=0)[pairs[:, 0]] > 0
    assert (pairs[varied, 0] == pairs[varied, 1]).all()


def test_different_dimensions_come_before_copies_and_score_higher() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 8, 600)
    bits = (y[:, None] >> np.arange(3)) & 1
    noisy = bits + 0.05 * rng.normal(size=bits.shape)
    copies = noisy[:, :1] + 0.01 * rng.normal(size=(600, 4))
    result = compress({"copies": copies, "different": noisy[:, 1:]}, y, multiples=3, target=0.95, strengths=[0.01])
    assert set(result.order.model[:2]) == {"different"}
    assert result.dimensions == 3
    other = compress({"copies": copies, "different": noisy[:, 1:]}, y, 3, 0.95, order="most-redundant", strengths=[0.01])
    assert other.dimensions == 6


def test_unreached_target_has_no_dimensions_and_results_are_json() -> None:
    result = digits_result(multiples=1000, target=1.0)
    assert result.frame.dimensions.tolist() == [64]
    assert result.dimensions is None
    plain = json.loads(json.dumps(result.to_dict()))
    assert plain["dimensions"] is None
    assert plain["frame"] == [{"dimensions": 64, "accuracy": result.frame.accuracy[0]}]
    assert sorted(plain["order"]) == ["dimension", "index", "model", "redundancy", "variance"]


def test_three_models_as_tensors_with_fewer_rows_than_dimensions() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(30) % 3
    x = rng.normal(size=(30, 120)) + 2 * rng.normal(size=(3, 120))[y]
    models = {name: torch.from_numpy(part) for name, part in zip("abc", np.split(x, 3, 1), strict=True)}
    result = compress(models, torch.from_numpy(y), multiples=50, target=0.9, strengths=[0.1, 1])
    assert result.frame.dimensions.tolist() == [50, 100, 120]
    assert result.frame.accuracy.iloc[-1] == 1


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"multiples": 0}, {"argument": "multiples", "found": 0}),
        ({"multiples": 2.5}, {"argument": "multiples", "found": 2.5}),
        ({"target": 76}, {"argument": "target", "found": 76}),
        ({"order": "random"}, {"argument": "order", "found": "random", "expected": ["least-redundant", "variance"]}),
        ({"features": {"a": UPPER}}, {"argument": "features", "found": ["a"]}),
        (
            {"features": {"a": UPPER, "b": LOWER[1:]}},
            {"argument": "features", "where": "b", "expected": "800", "found": 799},
        ),
    ],
)
def test_bad_input_is_named(change: dict, error: dict) -> None:
    with pytest.raises(InputError, check=fields(**error)):
        compress(**{"features": {"a": UPPER, "b": LOWER}, "labels": Y, **change})


def test_order_by_variance_takes_the_highest_variance_first() -> None:
    rng = np.random.default_rng(0)
    y = np.arange(90) % 3
    scales = {"a": [1.0, 5.0, 0.0], "b": [3.0, 0.5]}
    features = {name: rng.normal(size=(90, len(scale))) * scale for name, scale in scales.items()}
    options = {"test": (features, y), "multiples": 2, "target": 0.5, "strengths": [1.0]}
    order = compress(features, y, order="variance", **options).order
    every = np.concatenate([features["a"], features["b"]], 1)
    assert order["index"].tolist() == np.argsort(-every.var(0), kind="stable").tolist() == [1, 3, 0, 4, 2]
    np.testing.assert_allclose(order["variance"], every.var(0)[order["index"]])
    assert order["index"].tolist() != compress(features, y, **options).order["index"].tolist()
