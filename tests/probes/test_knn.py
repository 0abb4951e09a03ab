"""KNNProbe against scikit-learn's neighbours, leave-one-out by brute force, and the search by tiles."""

import pickle

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from raised import fields
from sklearn.datasets import load_digits
from sklearn.model_selection import LeaveOneOut, cross_val_predict
from sklearn.neighbors import KNeighborsClassifier
from torch.utils.flop_counter import FlopCounterMode

from probes import _neighbours
from probes._neighbours import nearest, nearest_others, tiles
from probes.knn import KNNProbe, winners_by_k
from zoo.errors import InputError


def clouds(rows: int, width: int, classes: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return overlapping classes of continuous features, so that no two distances are equal."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, classes, rows)
    return rng.normal(size=(classes, width))[y] + rng.normal(size=(rows, width)) * 1.5, y


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
@pytest.mark.parametrize("k", [1, 2, 7, 30])
def test_votes_equal_scikit_learns(distance: str, k: int) -> None:
    x, y = clouds(400, 10, 5)
    ours = KNNProbe(k=k, distance=distance).fit(x[:300], y[:300])
    theirs = KNeighborsClassifier(k, metric=distance, algorithm="brute").fit(x[:300], y[:300])
    np.testing.assert_array_equal(ours.predict(x[300:]), theirs.predict(x[300:]))
    np.testing.assert_allclose(ours.predict_proba(x[300:]), theirs.predict_proba(x[300:]))


@pytest.mark.parametrize("distance", ["cosine", "euclidean"])
def test_leave_one_out_scores_equal_scikit_learns_for_every_k(distance: str) -> None:
    x, y = clouds(90, 6, 4)
    probe = KNNProbe(distance=distance, most=40).fit(x, y)
    assert probe.path_["k"].tolist() == list(range(1, 41))
    for k in (1, 2, 3, 10, 40):
        plain = KNeighborsClassifier(k, metric=distance, algorithm="brute")
        expected = (cross_val_predict(plain, x, y, cv=LeaveOneOut()) == y).mean()
        assert probe.path_["score"][k - 1] == pytest.approx(expected)
    assert probe.k_ == 1 + int(np.argmax(probe.path_["score"]))


def test_euclidean_scores_do_not_depend_on_origin_or_scale() -> None:
    x, y = clouds(200, 8, 3)
    near, far = KNNProbe(distance="euclidean").fit(x, y), KNNProbe(distance="euclidean").fit(x + 1e5, y)
    np.testing.assert_allclose(near.path_["score"], far.path_["score"])
    tiny = KNNProbe(distance="euclidean").fit(x * 1e-30, y)
    np.testing.assert_allclose(near.path_["score"], tiny.path_["score"])


@settings(deadline=None, max_examples=60)
@given(st.integers(1, 40), st.integers(1, 12), st.integers(1, 5), st.integers(0, 2**31))
def test_winner_after_each_vote_is_the_first_class_with_the_largest_count(
    rows: int, most: int, classes: int, seed: int
) -> None:
    labels = torch.randint(0, classes, (rows, most), generator=torch.Generator().manual_seed(seed))
    for k, winner in enumerate(winners_by_k(labels, classes), start=1):
        plain = torch.nn.functional.one_hot(labels[:, :k], classes).sum(1)
        assert torch.equal(winner, plain.argmax(1))


@pytest.mark.parametrize("rows", [1, 7, 8, 9, 100, 5120, 5121, 20000])
def test_tiles_cover_all_rows_once(rows: int) -> None:
    parts = tiles(rows)
    assert [n for part in parts for n in range(part.start, part.stop)] == list(range(rows))
    assert all((part.stop - part.start) % _neighbours.GROUP == 0 for part in parts[:-1])


@pytest.mark.parametrize("order", ["random", "sorted", "duplicated", "constant"])
@pytest.mark.parametrize("rows", [1600, 1603])
def test_neighbours_are_exact_in_any_order(order: str, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With small tiles thresholds are estimated from few columns, and badly for sorted or repeated rows."""
    monkeypatch.setattr(_neighbours, "TILE", 408)
    monkeypatch.setattr(_neighbours, "SMALL", 0)
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(rows, 6, generator=generator)
    if order == "sorted":
        x = x[x[:, 0].argsort()] + torch.linspace(0, 20, rows)[:, None]
    elif order == "duplicated":
        x = x[torch.randint(0, 40, (rows,), generator=generator)]
    elif order == "constant":
        x = torch.ones(rows, 6)
    k = 20
    similarity = x @ x.T
    found = nearest(x[:500], x, k)
    torch.testing.assert_close(similarity[:500].gather(1, found), similarity[:500].topk(k).values)
    others = nearest_others(x, x, k)
    assert (others != torch.arange(rows)[:, None]).all()
    assert (others.sort(1).values.diff(dim=1) > 0).all()  # no row twice
    torch.testing.assert_close(similarity.gather(1, others), similarity.fill_diagonal_(-torch.inf).topk(k).values)


def test_only_half_of_the_symmetric_products_are_computed(monkeypatch: pytest.MonkeyPatch) -> None:
    """With T tiles per side, T (T + 1) / 2 of them are multiplied."""
    monkeypatch.setattr(_neighbours, "TILE", 400)
    monkeypatch.setattr(_neighbours, "SMALL", 0)
    x = torch.randn(1600, 6, generator=torch.Generator().manual_seed(0))
    with FlopCounterMode(display=False) as counter:
        nearest_others(x, x, 10)
    full = 2 * 6 * 1600**2
    assert full * 10 / 16 <= counter.get_total_flops() < full * 0.7  # and a row or two searched again


def test_tensors_return_tensors_and_score_is_the_metric() -> None:
    data = load_digits()
    x, y = torch.from_numpy(data.data).float(), torch.from_numpy(data.target)
    probe = KNNProbe(metric="mean-per-class").fit(x[:900], y[:900])
    predicted = probe.predict(x[900:])
    assert isinstance(predicted, torch.Tensor)
    assert isinstance(probe.predict_proba(x[900:]), torch.Tensor)
    by_class = [float((predicted[y[900:] == c] == c).float().mean()) for c in range(10)]
    assert probe.score(x[900:], y[900:]) == pytest.approx(np.mean(by_class))
    assert probe.score(x[900:], y[900:]) > 0.93


def test_zero_vectors_have_cosine_zero() -> None:
    x = np.array([[0.0, 0.0], [1.0, 0.0], [2.0, 0.1], [-1.0, 0.0], [-2.0, 0.1]])
    y = np.array([0, 1, 1, 2, 2])
    probe = KNNProbe(k=1).fit(x, y)
    np.testing.assert_array_equal(probe.predict(np.array([[3.0, 0.0], [-1.0, 0.2]])), [1, 2])
    assert probe.predict([[0.0, 0.0]])[0] in (0, 1, 2)


@pytest.mark.parametrize(
    ("option", "value", "expected"),
    [
        ("k", 0, "at least 1"),
        ("k", 2.5, "whole number"),
        ("k", "3", "whole number"),
        ("k", 31, "30"),
        ("most", 0, "at least 1"),
        ("distance", "manhattan", "cosine, euclidean"),
        ("metric", "f1", "accuracy, mean-per-class"),
        ("memory", "2", "above 0"),
    ],
)
def test_bad_options_are_named(option: str, value: object, expected: str) -> None:
    x, y = clouds(30, 3, 2)
    with pytest.raises(InputError, check=fields(argument=option, found=value, expected=expected)):
        KNNProbe(**{option: value}).fit(x, y)


def test_bad_rows_and_labels_are_named() -> None:
    x, y = clouds(30, 3, 2)
    x[4, 1] = np.nan
    with pytest.raises(InputError, check=fields(argument="X", problem="row 4")):
        KNNProbe().fit(x, y)
    with pytest.raises(InputError, check=fields(argument="y", problem="one class")):
        KNNProbe().fit(np.nan_to_num(x), np.zeros(30, int))
    with pytest.raises(InputError, check=fields(argument="y", expected="30", found=29)):
        KNNProbe().fit(np.nan_to_num(x), y[:29])


def test_a_probe_that_streams_its_training_rows_can_be_pickled() -> None:
    x, y = clouds(60, 3, 2)
    probe = KNNProbe(k=3, memory=1e-9).fit(x, y)
    assert probe._sides is None
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(probe)).predict(x), probe.predict(x))
