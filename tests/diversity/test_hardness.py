"""Angular visual hardness against a loop over examples and classes."""

import math

import numpy as np
import pytest
import torch
from raised import fields

from diversity import hardness
from diversity.hardness import angular_visual_hardness
from zoo.errors import InputError


def loop(x: np.ndarray, y: np.ndarray, w: np.ndarray) -> list[float]:
    result = []
    for row, label in zip(x, y, strict=True):
        angles = [math.acos(row @ v / math.sqrt((row @ row) * (v @ v))) for v in w]
        result.append(angles[label] / sum(angles))
    return result


def data() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    return rng.normal(size=(60, 5)), rng.integers(0, 4, 60), rng.normal(size=(4, 5))


def test_equals_the_loop_in_one_piece_and_in_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, w = data()
    np.testing.assert_allclose(angular_visual_hardness(x, y, w), loop(x, y, w), rtol=1e-12)
    monkeypatch.setattr(hardness, "MAX_ANGLES", 28)
    np.testing.assert_allclose(angular_visual_hardness(x, y, w), loop(x, y, w), rtol=1e-12)


def test_scores_of_all_labels_sum_to_one_and_lengths_do_not_matter() -> None:
    x, y, w = data()
    every = [angular_visual_hardness(x, np.full(60, k), w) for k in range(4)]
    np.testing.assert_allclose(np.sum(every, axis=0), 1, rtol=1e-12)
    longer = np.random.default_rng(1).uniform(0.1, 9, size=(60, 1))
    np.testing.assert_allclose(angular_visual_hardness(longer * x, y, 5 * w), angular_visual_hardness(x, y, w), rtol=1e-9)


def test_kind_follows_the_input() -> None:
    x, y, w = data()
    result = angular_visual_hardness(torch.from_numpy(x).float(), y, torch.nn.Parameter(torch.from_numpy(w)))
    assert isinstance(result, torch.Tensor)
    assert result.dtype == torch.float32
    np.testing.assert_allclose(result, loop(x, y, w), rtol=1e-4)


def test_invalid_arguments_are_named() -> None:
    x, y, w = data()
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
