"""Singular values from chunks of rows against a factorisation of the whole matrix."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from raised import fields

from diversity.spectra import singular_spectra, singular_values
from zoo.errors import InputError


@settings(max_examples=40, deadline=None)
@given(n=st.integers(1, 60), d=st.integers(1, 12), center=st.booleans())
def test_any_shape(n: int, d: int, center: bool) -> None:
    x = np.random.default_rng(n * 100 + d).normal(size=(n, d)) * np.logspace(0, -6, d) + 2
    expected = np.linalg.svd(x - x.mean(0) if center else x, compute_uv=False)
    np.testing.assert_allclose(singular_values(x, center), expected, atol=1e-13 * max(expected[0], 1) * n)


@pytest.mark.parametrize("center", [False, True])
def test_rows_of_several_chunks(center: bool) -> None:
    x = np.random.default_rng(0).normal(size=(9000, 3)) + np.linspace(0, 5, 9000)[:, None]
    expected = np.linalg.svd(x - x.mean(0) if center else x, compute_uv=False)
    np.testing.assert_allclose(singular_values(x, center), expected, rtol=1e-12)


def test_small_values_survive_float32_where_a_product_would_lose_them() -> None:
    rng = np.random.default_rng(0)
    left, right = np.linalg.qr(rng.normal(size=(6000, 4)))[0], np.linalg.qr(rng.normal(size=(4, 4)))[0]
    x = (left * [1, 1e-2, 1e-4, 1e-5]) @ right
    np.testing.assert_allclose(singular_values(x.astype(np.float32)), [1, 1e-2, 1e-4, 1e-5], rtol=0.02)


def test_spectra_of_activations_weights_and_centroids() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 100)
    x, w = rng.normal(size=(100, 3, 2)) + y[:, None, None], rng.normal(size=(4, 6))
    frame = singular_spectra(torch.from_numpy(x), y, w).set_index(["matrix", "index"])
    flat = x.reshape(100, 6)
    centroids = np.stack([flat[y == k].mean(0) for k in range(4)])
    for name, matrix in {"activations": flat, "weights": w, "centroids": centroids}.items():
        expected = np.linalg.svd(matrix, compute_uv=False)
        np.testing.assert_allclose(frame.loc[name].value, expected, rtol=1e-10)
        np.testing.assert_allclose(frame.loc[name].relative, expected / expected[0], rtol=1e-10)
    assert set(singular_spectra(x).matrix) == {"activations"}
    assert (singular_spectra(np.zeros((3, 2))).relative == 0).all()


def test_a_row_that_is_not_finite_is_named() -> None:
    with pytest.raises(InputError, check=fields(where="block1: row 1")):
        singular_values(np.diag([1.0, np.nan, 1]), name="block1")
