"""Class separation against loops over pairs, the identities of the papers, and inputs at the edge."""

import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from raised import fields
from scipy.stats import spearmanr

from diversity.class_sums import ClassSums
from diversity.densities import distance_densities
from diversity.separation import OrderedSeparation, class_separation, class_variances, separation_sums, variances
from diversity.similarity import kernel_cka
from zoo.errors import InputError

METRICS = ["cosine", "centered-cosine", "euclidean"]


def loops(x: np.ndarray, y: np.ndarray, metric: str) -> float:
    """Kornblith et al. (2021), eq. 12, pair by pair."""
    if metric == "centered-cosine":
        x = x - x.mean(0)

    def distance(a: np.ndarray, b: np.ndarray) -> float:
        if metric == "euclidean":
            return float(((a - b) ** 2).sum())
        return float(1 - a @ b / np.sqrt((a @ a) * (b @ b)))

    classes = [x[y == k] for k in np.unique(y)]
    within = np.mean([np.mean([distance(a, b) for a in c for b in c]) for c in classes])
    total = np.mean([np.mean([distance(a, b) for a in c for b in d]) for c in classes for d in classes])
    return 1 - float(within / total)


def data(n: int, d: int, k: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(k), rng.integers(0, k, n - k)])
    return rng.normal(size=(k, d))[y] + rng.normal(size=(n, d)) + 0.5, y


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize(("n", "d", "k"), [(30, 4, 3), (25, 1, 2), (20, 40, 18)])
def test_equals_loops_over_pairs(metric: str, n: int, d: int, k: int) -> None:
    x, y = data(n, d, k)
    assert class_separation(x, y, metric) == pytest.approx(loops(x, y, metric), abs=1e-10)
    assert class_separation(x.astype(np.float32), y, metric) == pytest.approx(loops(x, y, metric), abs=1e-5)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 9999), k=st.integers(2, 6), scale=st.floats(1e-2, 1e2), metric=st.sampled_from(METRICS))
def test_between_nought_and_one_and_blind_to_scale_rotation_order_and_labels(
    seed: int, k: int, scale: float, metric: str
) -> None:
    x, y = data(25, 5, k, seed)
    rng = np.random.default_rng(seed)
    value = class_separation(x, y, metric)
    assert 0 <= value <= 1
    rotation, order, names = np.linalg.qr(rng.normal(size=(5, 5)))[0], rng.permutation(25), rng.permutation(3 * k)
    assert class_separation((scale * x @ rotation)[order], names[y][order], metric) == pytest.approx(value, abs=1e-9)
    if metric != "cosine":
        assert class_separation(x + 7, y, metric) == pytest.approx(value, abs=1e-9)


@pytest.mark.parametrize("metric", METRICS)
def test_a_stream_of_batches_gives_the_same(metric: str) -> None:
    x, y = data(200, 6, 5)
    sums = separation_sums(metric, torch.from_numpy(x.mean(0)))
    for rows in np.split(np.argsort(y), [3, 90, 91]):  # batches of few classes each, the last classes late
        sums.update(x[rows], y[rows])
    assert variances(sums).r2 == pytest.approx(class_separation(x, y, metric), abs=1e-12)
    assert sums.rows == 200


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("cuts", [[], [1, 2, 3], [40, 41, 160]])
def test_class_by_class_gives_the_same_with_one_open_class(metric: str, cuts: list[int]) -> None:
    x, y = data(200, 6, 5)
    order = np.argsort(y, kind="stable")
    meter = OrderedSeparation(metric, torch.from_numpy(x.mean(0)))
    for rows in np.split(order, cuts):
        meter.update(x[rows], 3 * y[rows] + 1)
    expected = dataclasses.asdict(class_variances(x, y, metric))
    assert dataclasses.asdict(meter.result()) == pytest.approx(expected, abs=1e-12)
    assert len(meter._sums.sums) == 0


def test_class_order_is_required() -> None:
    meter = OrderedSeparation("cosine", name="conv1")
    with pytest.raises(InputError, check=fields(where="conv1", problem="sorted")):
        meter.update(np.eye(3), np.array([0, 2, 1]))
    meter.update(np.eye(2), np.array([1, 1]))
    with pytest.raises(InputError, check=fields(where="conv1", problem="sorted")):
        meter.update(np.eye(2), np.array([0, 1]))
    with pytest.raises(InputError, check=fields(where="conv1: row 3", problem="zero vector")):
        meter.update(np.array([[1.0, 0], [0, 0]]), np.array([1, 2]))
    with pytest.raises(InputError, check=fields(argument="labels", found=0)):
        OrderedSeparation("cosine").result()


def test_chunks_of_many_rows_add_up() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 2, 20_000)
    x = rng.normal(size=(20_000, 3)) + y[:, None]
    unit = x / np.linalg.norm(x, axis=1, keepdims=True)
    means = np.stack([unit[y == k].mean(0) for k in (0, 1)])
    expected = 1 - (1 - (means**2).sum(1).mean()) / (1 - (means.mean(0) ** 2).sum())
    assert class_separation(x, y) == pytest.approx(expected, abs=1e-12)
    assert class_separation(x.astype(np.float32), y) == pytest.approx(expected, abs=1e-6)


def test_euclidean_keeps_its_digits_far_from_zero() -> None:
    x, y = data(500, 8, 4)
    far = (x + 1000).astype(np.float32)
    assert class_separation(far, y, "euclidean") == pytest.approx(
        class_separation(far.astype(np.float64) - 1000, y, "euclidean"), abs=1e-6
    )


def test_variances_weigh_classes_equally() -> None:
    x, y = data(300, 6, 4)
    result = class_variances(x, y, "euclidean")
    weights = 1 / np.bincount(y)[y] / 4  # footnote 5: variance weighted by inverse class frequency
    mean = weights @ x
    assert result.total == pytest.approx(weights @ ((x - mean) ** 2).sum(1), rel=1e-10)
    assert result.within == pytest.approx(np.mean([x[y == k].var(0).sum() for k in range(4)]), rel=1e-10)
    assert result.r2 == pytest.approx(1 - result.within / result.total)


def arcs(spread: float) -> tuple[np.ndarray, np.ndarray]:
    """Three classes on a circle, arcs 120 degrees apart: the spread fills K - 1 = 2 dimensions evenly."""
    angles = np.add.outer(np.arange(3) * 2 * np.pi / 3, np.linspace(-spread, spread, 20))
    return np.stack([np.cos(angles), np.sin(angles)], -1).reshape(-1, 2), np.repeat(np.arange(3), 20)


@pytest.mark.parametrize("spread", [0.0, 0.3, 1.2])
def test_equals_cka_with_labels_where_the_spread_fills_as_many_dimensions_as_labels_do(spread: float) -> None:
    x, y = arcs(spread)
    r2 = class_separation(x, y)
    assert r2 == pytest.approx(kernel_cka(np.eye(3)[y], x, "cosine"), abs=1e-10)
    assert (r2 < 0.99) == (spread > 0.2)


@pytest.mark.parametrize("seed", range(3))
def test_relation_to_cka_with_labels_for_any_balanced_classes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    y = np.repeat(np.arange(5), 12)
    x = rng.normal(size=(5, 9))[y] + rng.normal(size=(60, 9))
    u = x / np.linalg.norm(x, axis=1, keepdims=True)
    u -= u.mean(0)
    dimensions = np.trace(u @ u.T) ** 2 / ((u @ u.T) ** 2).sum()
    cka = kernel_cka(np.eye(5)[y], x, "cosine")
    assert class_separation(x, y) == pytest.approx(cka * np.sqrt(4 / dimensions), rel=1e-9)


def test_trend_with_transfer_in_the_papers_tables() -> None:
    """Kornblith et al. (2021), Tables 3 and 1 (linear transfer to eight datasets), nine losses in the order of Table 1."""
    separation = [0.349, 0.420, 0.427, 0.572, 0.461, 0.601, 0.517, 0.641, 0.845]
    transfer = [
        [74.6, 92.4, 76.9, 55.4, 62.0, 60.3, 92.0, 94.0],
        [72.7, 91.6, 75.2, 53.6, 61.6, 54.8, 92.9, 91.9],
        [73.4, 91.7, 75.7, 52.3, 62.0, 56.1, 92.5, 92.9],
        [70.6, 91.0, 73.7, 51.5, 60.1, 50.3, 92.4, 89.8],
        [72.6, 91.4, 75.0, 53.6, 61.2, 54.7, 92.6, 92.1],
        [68.1, 90.2, 72.3, 48.1, 59.0, 48.3, 92.3, 86.6],
        [66.3, 90.5, 72.9, 50.7, 58.1, 45.4, 92.0, 82.9],
        [62.0, 89.9, 71.3, 45.4, 55.0, 36.7, 91.1, 75.3],
        [39.8, 82.2, 56.3, 21.8, 39.9, 15.3, 84.7, 46.7],
    ]
    assert spearmanr(separation, np.mean(transfer, axis=1)).statistic == pytest.approx(-0.93, abs=0.005)


def test_a_class_with_one_example_has_no_spread_of_its_own() -> None:
    x, y = np.array([[1.0, 0], [0.8, 0.6], [0, 1]]), np.array([0, 0, 7])
    assert class_separation(x, y) == pytest.approx(loops(x, y, "cosine"))


def test_fewer_rows_than_dimensions() -> None:
    x, y = data(6, 50, 3)
    assert class_separation(x, y) == pytest.approx(loops(x, y, "cosine"), abs=1e-10)


def test_maps_half_precision_and_tensors() -> None:
    x, y = data(40, 12, 3)
    maps = torch.from_numpy(x).reshape(40, 3, 2, 2)
    assert class_separation(maps, torch.from_numpy(y)) == pytest.approx(class_separation(x, y), abs=1e-12)
    assert class_separation(maps.half(), y) == pytest.approx(class_separation(x, y), abs=1e-3)


@pytest.mark.parametrize(
    ("x", "y", "metric", "expected"),
    [
        (np.eye(3), [0, 0, 0], "cosine", {"argument": "labels", "found": 1}),
        (np.ones((4, 2)), [0, 0, 1, 1], "euclidean", {"where": "x", "problem": "same activations"}),
        (np.ones((4, 2)), [0, 0, 1, 1], "cosine", {"where": "x", "problem": "same activations"}),
        (np.outer([1, 2, 3, 4], [1, 1, 0.1]), [0, 0, 1, 1], "cosine", {"where": "x", "problem": "same activations"}),
        (np.full((4, 2), 0.1, np.float32), [0, 0, 1, 1], "euclidean", {"where": "x", "problem": "same activations"}),
        (np.ones((4, 2)), [0, 0, 1, 1], "centered-cosine", {"where": "x: row 0", "problem": "mean"}),
        (np.diag([1.0, 1, 0, 1]), [0, 0, 1, 1], "cosine", {"where": "x: row 2", "problem": "zero vector"}),
        (np.diag([1.0, 1, np.nan, 1]), [0, 0, 1, 1], "cosine", {"where": "x: row 2", "problem": "NaN"}),
        (np.diag([1.0, 1, np.nan, 1]), [0, 0, 1, 1], "centered-cosine", {"where": "x: row 2", "problem": "NaN"}),
        (np.diag([1.0, 1, np.inf, 1]), [0, 0, 1, 1], "euclidean", {"where": "x: row 2", "problem": "infinity"}),
        (np.eye(4), [0, 1, 1], "cosine", {"argument": "labels"}),
        (np.eye(4), [0, 1, 1, -1], "cosine", {"argument": "labels"}),
        (np.eye(4), np.eye(4, dtype=int), "cosine", {"argument": "labels"}),
        (np.eye(4), [0, 1, 1, 0], "manhattan", {"argument": "metric", "found": "manhattan"}),
    ],
)
def test_invalid_arguments_are_named(x: np.ndarray, y: list[int], metric: str, expected: dict) -> None:
    with pytest.raises(InputError, check=fields(**expected)):
        class_separation(x, np.array(y), metric)  # type: ignore[arg-type]


@pytest.mark.parametrize("label", [2**40, 10**6])
def test_a_label_beyond_the_largest_number_of_classes_is_refused(label: int) -> None:
    """Sums for 2^40 classes would not fit into memory."""
    y = np.array([0, 1, label])
    with pytest.raises(InputError, match=str(label)):
        class_separation(np.eye(3), y)
    with pytest.raises(InputError, match=str(label)):
        OrderedSeparation("cosine").update(np.eye(3), y)
    with pytest.raises(InputError, match=str(label)):
        distance_densities(np.eye(3), y)


def test_invalid_batches_are_named() -> None:
    with pytest.raises(InputError, check=fields(where="conv1", argument="centre")):
        separation_sums("centered-cosine", name="conv1")
    sums = ClassSums(unit=True, name="conv1")
    sums.update(np.eye(3), np.arange(3))
    with pytest.raises(InputError, check=fields(where="conv1", expected="3 features", found=2)):
        sums.update(np.eye(2), np.arange(2))
    with pytest.raises(InputError, check=fields(where="conv1: row 4", problem="zero vector")):
        sums.update(np.diag([1.0, 0, 1]), np.arange(3))


def test_class_means() -> None:
    x, y = data(50, 4, 3)
    sums = ClassSums()
    sums.update(x[:20], y[:20])
    sums.update(x[20:], 2 * y[20:])
    np.testing.assert_allclose(sums.present, [0, 1, 2, 4])
    both = np.concatenate([y[:20], 2 * y[20:]])
    np.testing.assert_allclose(sums.means(), [x[both == k].mean(0) for k in (0, 1, 2, 4)], rtol=1e-12)
