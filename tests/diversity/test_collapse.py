"""The collapse quantities: 0 at an exact simplex, the definitions with explicit covariances, and the isotropic identity."""

import dataclasses

import numpy as np
import pytest
import torch
from raised import fields

from diversity.collapse import neural_collapse
from diversity.separation import class_separation
from zoo.errors import InputError


def simplex(classes: int, dims: int, seed: int = 0) -> np.ndarray:
    """The vertices of a regular simplex about the origin, turned at random in `dims` >= `classes` - 1 dimensions."""
    vertices = np.linalg.svd(np.eye(classes) - 1 / classes)[0][:, : classes - 1]
    vertices = np.pad(vertices, ((0, 0), (0, dims - classes + 1)))
    return vertices @ np.linalg.qr(np.random.default_rng(seed).normal(size=(dims, dims)))[0]


def data(n: int = 200, d: int = 6, c: int = 5, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    y = np.concatenate([np.arange(c), rng.integers(0, c, n - c)])
    x = 2 * rng.normal(size=(c, d))[y] + rng.normal(size=(n, d)) * rng.uniform(0.2, 2, d) + 3
    return x, y, rng.normal(size=(c, d)), rng.normal(size=c)


@pytest.mark.parametrize(("classes", "dims"), [(2, 1), (2, 5), (4, 3), (10, 30)])
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_all_are_zero_at_an_exact_simplex(classes: int, dims: int, dtype: type) -> None:
    frame = simplex(classes, dims)
    y = np.concatenate([np.arange(classes), np.arange(classes), np.arange(classes)[: classes // 2]])  # unequal classes
    result = neural_collapse((4 * frame[y] + 1).astype(dtype), y, (0.3 * frame).astype(dtype), np.full(classes, -1.0))
    tolerance = 1e-10 if dtype is np.float64 else 1e-5
    assert dataclasses.asdict(result) == pytest.approx(dict.fromkeys(dataclasses.asdict(result), 0), abs=tolerance)


@pytest.mark.parametrize(("d", "c"), [(6, 5), (3, 8), (20, 4)])
def test_each_quantity_against_its_definition(d: int, c: int) -> None:
    x, y, w, b = data(d=d, c=c)
    result = neural_collapse(x, y, w, b)
    means = np.stack([x[y == k].mean(0) for k in range(c)])
    m = means - means.mean(0)
    pairs = [(i, j) for i in range(c) for j in range(c) if i != j]

    def cosines(v: np.ndarray) -> np.ndarray:
        return np.array([v[i] @ v[j] / np.linalg.norm(v[i]) / np.linalg.norm(v[j]) for i, j in pairs])

    def variation(v: np.ndarray) -> float:
        norms = np.linalg.norm(v, axis=1)
        return float(norms.std() / norms.mean())

    between = m.T @ m / c
    within = np.mean([(x[y == k] - means[k]).T @ (x[y == k] - means[k]) / (y == k).sum() for k in range(c)], axis=0)
    distances = ((x[:, None] - means) ** 2).sum(-1)
    expected = {
        "mean_norm_variation": variation(m),
        "weight_norm_variation": variation(w),
        "mean_angle_std": cosines(m).std(),
        "weight_angle_std": cosines(w).std(),
        "mean_angle_gap": np.abs(cosines(m) + 1 / (c - 1)).mean(),
        "weight_angle_gap": np.abs(cosines(w) + 1 / (c - 1)).mean(),
        "duality_gap": ((w / np.linalg.norm(w) - m / np.linalg.norm(m)) ** 2).sum(),
        "variability": np.trace(within @ np.linalg.pinv(between)) / c,
        "nearest_mean_disagreement": np.mean(distances.argmin(1) != (x @ w.T + b).argmax(1)),
    }
    assert dataclasses.asdict(result) == pytest.approx(expected, rel=1e-8)
    single = neural_collapse(x.astype(np.float32), torch.from_numpy(y), torch.nn.Parameter(torch.from_numpy(w)), b)
    assert dataclasses.asdict(single) == pytest.approx(expected, rel=2e-4)


@pytest.mark.parametrize("anisotropic", [False, True])
def test_isotropic_identity_with_class_separation(anisotropic: bool) -> None:
    """Means on a cross polytope have Sigma_B = b I; then Tr(Sigma_W Sigma_B^+) / C = D / C (1 / R^2 - 1)."""
    dims, rng = 6, np.random.default_rng(0)
    means = np.concatenate([np.eye(dims), -np.eye(dims)])
    classes = 2 * dims
    deviations = rng.normal(size=(classes, 40, dims)) * (rng.uniform(0.1, 2, dims) if anisotropic else 1)
    deviations -= deviations.mean(1, keepdims=True)
    x, y = (means[:, None] + deviations).reshape(-1, dims), np.repeat(np.arange(classes), 40)
    r2 = class_separation(x, y, "euclidean")
    expected = dims / classes * (1 / r2 - 1)
    assert neural_collapse(x, y, means).variability == pytest.approx(expected, rel=1e-9)


def test_shift_scale_and_rotation_leave_the_means_quantities() -> None:
    x, y, w, b = data()
    rotation = np.linalg.qr(np.random.default_rng(1).normal(size=(6, 6)))[0]
    here, there = neural_collapse(x, y, w, b), neural_collapse(5 * x @ rotation - 2, y, 7 * w @ rotation, b)
    for name in ("mean_norm_variation", "weight_norm_variation", "mean_angle_std", "duality_gap", "variability"):
        assert getattr(here, name) == pytest.approx(getattr(there, name), rel=1e-9)


def test_dead_features_and_single_examples() -> None:
    x, y, w, _ = data(n=6, d=9, c=5)
    x[:, 3] = 0
    result = neural_collapse(x, y, w)
    assert np.isfinite(list(dataclasses.asdict(result).values())).all()
    alone = neural_collapse(x[:5], y[:5], w)
    assert alone.variability == pytest.approx(0, abs=1e-12)


def test_invalid_arguments_are_named() -> None:
    x, y, w, b = data()
    with pytest.raises(InputError, check=fields(argument="labels", problem=["1 of 5 classes", "class 2"])):
        neural_collapse(x[y != 2], y[y != 2], w, b)
    with pytest.raises(InputError, check=fields(argument="weight", found=[5, 4])):
        neural_collapse(x, y, w[:, :4], b)
    with pytest.raises(InputError, check=fields(argument="bias", expected="[5]", found=[4])):
        neural_collapse(x, y, w, b[:4])
    with pytest.raises(InputError, check=fields(argument="weight", found=1)):
        neural_collapse(x, np.zeros(len(x), int), w[:1])
    with pytest.raises(InputError, check=fields(argument="labels")):
        neural_collapse(x, y, w[:4])
    with pytest.raises(InputError, check=fields(where="mean of class 0")):
        neural_collapse(np.full_like(x, 0.1, dtype=np.float32), y, w)
    with pytest.raises(InputError, check=fields(where="weight of class 1")):
        neural_collapse(x, y, np.where(np.arange(5)[:, None] == 1, 0, w))
    with pytest.raises(InputError, check=fields(where="weight and bias")):
        neural_collapse(x, y, np.where(np.arange(5)[:, None] == 1, np.nan, w))
    x[17, 2] = np.nan
    with pytest.raises(InputError, check=fields(where="x: row 17")):
        neural_collapse(x, y, w, b)
