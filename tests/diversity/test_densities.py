"""Densities of distances against all pairs at once, and of samples against SciPy."""

import math

import numpy as np
import pytest
import torch
from raised import fields
from scipy.spatial.distance import pdist
from scipy.stats import gaussian_kde

from diversity import densities
from diversity.densities import BLOCK, angular_visual_hardness, distance_densities, kernel_density
from zoo.errors import InputError


def data(n: int) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 5, n)
    return rng.normal(size=(5, 6))[y] + rng.normal(size=(n, 6)), y


@pytest.mark.parametrize("n", [20, BLOCK, 2 * BLOCK + 3])
def test_every_pair_is_counted_once(n: int) -> None:
    x, y = data(n)
    distances = pdist(x, "cosine")
    i, j = np.triu_indices(n, 1)
    frame = distance_densities(x, y, bins=17)
    for column, chosen in (("within", y[i] == y[j]), ("between", y[i] != y[j])):
        expected, edges = np.histogram(distances[chosen], bins=17, range=(0, 2), density=True)
        np.testing.assert_allclose(frame[column], expected, atol=1e-12)
        assert frame[column].sum() * 2 / 17 == pytest.approx(1)
    np.testing.assert_allclose(frame.distance, (edges[1:] + edges[:-1]) / 2)


def test_a_drawn_sample_is_repeatable_and_near_the_whole() -> None:
    x, y = data(1500)
    whole, part = distance_densities(x, y, bins=10), distance_densities(x, y, bins=10, rows=500)
    assert part.equals(distance_densities(x, y, bins=10, rows=500))
    assert not part.equals(distance_densities(x, y, bins=10, rows=500, seed=1))
    assert np.abs(whole - part).to_numpy().max() < 0.2


def test_kernel_density_is_scipys() -> None:
    sample = np.random.default_rng(0).gamma(2, size=500)
    frame = kernel_density(sample)
    np.testing.assert_allclose(frame.density, gaussian_kde(sample, "scott")(frame.value), rtol=1e-9)
    narrow = kernel_density(sample, bandwidth=0.1)
    np.testing.assert_allclose(narrow.density, gaussian_kde(sample, 0.1 / sample.std(ddof=1))(narrow.value), rtol=1e-9)
    assert np.trapezoid(frame.density, frame.value) == pytest.approx(1, abs=0.01)


def test_invalid_arguments_are_named() -> None:
    x, y = data(20)
    with pytest.raises(InputError, check=fields(argument="labels", problem="the same class")):
        distance_densities(x, np.arange(20))
    with pytest.raises(InputError, check=fields(argument="labels", problem="different classes")):
        distance_densities(x, np.zeros(20, int))
    with pytest.raises(InputError, check=fields(where="x: row 3")):
        distance_densities(np.where(np.arange(20)[:, None] == 3, 0, x), y)
    for bins in (0, 2.5, True):
        with pytest.raises(InputError, check=fields(argument="bins", found=bins)):
            distance_densities(x, y, bins=bins)
    with pytest.raises(InputError, check=fields(argument="rows", found=1)):
        distance_densities(x, y, rows=1)
    with pytest.raises(InputError, check=fields(argument="values")):
        kernel_density(np.array([1.0, np.nan]))
    with pytest.raises(InputError, check=fields(argument="bandwidth", found=0.0)):
        kernel_density(np.ones(5))


def loop(x: np.ndarray, y: np.ndarray, w: np.ndarray) -> list[float]:
    result = []
    for row, label in zip(x, y, strict=True):
        angles = [math.acos(row @ v / math.sqrt((row @ row) * (v @ v))) for v in w]
        result.append(angles[label] / sum(angles))
    return result


def weighted_data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(60, 5)), rng.integers(0, 4, 60), rng.normal(size=(4, 5))


def test_equals_the_loop_in_one_piece_and_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, w = weighted_data()
    np.testing.assert_allclose(angular_visual_hardness(x, y, w), loop(x, y, w), rtol=1e-12)
    monkeypatch.setattr(densities, "MAX_ANGLES", 28)
    np.testing.assert_allclose(angular_visual_hardness(x, y, w), loop(x, y, w), rtol=1e-12)


def test_scores_of_all_labels_sum_to_one_and_lengths_do_not_matter() -> None:
    x, y, w = weighted_data()
    every = [angular_visual_hardness(x, np.full(60, k), w) for k in range(4)]
    np.testing.assert_allclose(np.sum(every, axis=0), 1, rtol=1e-12)
    longer = np.random.default_rng(1).uniform(0.1, 9, size=(60, 1))
    np.testing.assert_allclose(angular_visual_hardness(longer * x, y, 5 * w), angular_visual_hardness(x, y, w), rtol=1e-9)


def test_kind_follows_the_input() -> None:
    x, y, w = weighted_data()
    result = angular_visual_hardness(torch.from_numpy(x).float(), y, torch.nn.Parameter(torch.from_numpy(w)))
    assert isinstance(result, torch.Tensor)
    assert result.dtype == torch.float32
    np.testing.assert_allclose(result, loop(x, y, w), rtol=1e-4)


def test_invalid_arguments_of_hardness_are_named() -> None:
    x, y, w = weighted_data()
    x[5] = 0
    with pytest.raises(InputError, check=fields(where="x: row 5")):
        angular_visual_hardness(x, y, w)
    with pytest.raises(InputError, check=fields(where="weight: row 1")):
        angular_visual_hardness(x, y, np.where(np.arange(4)[:, None] == 1, 0, w))
    with pytest.raises(InputError, check=fields(argument="labels")):
        angular_visual_hardness(x, y, w[:3])
    with pytest.raises(InputError, check=fields(argument="weight", found=[4, 2])):
        angular_visual_hardness(x, y, w[:, :2])
    with pytest.raises(InputError, check=fields(argument="weight", found=[1, 5])):
        angular_visual_hardness(x, np.zeros(60, int), w[:1])
    with pytest.raises(InputError, check=fields(argument="labels")):
        angular_visual_hardness(x, y[:10], w)
