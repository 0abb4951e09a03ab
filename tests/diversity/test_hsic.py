"""The sums over Gram matrices and the two HSIC estimators, against definitions written out with n x n matrices."""

import numpy as np
import pytest
import torch

from diversity._hsic import BLOCK, feature_sums, gram_sums


def centred(n: int, *widths: int, seed: int = 0) -> list[torch.Tensor]:
    rng = np.random.default_rng(seed)
    layers = [torch.from_numpy(rng.normal(size=(n, d))) for d in widths]
    return [x - x.mean(0) for x in layers]


def hsic_0(K: np.ndarray, L: np.ndarray) -> float:
    n = len(K)
    H = np.eye(n) - 1 / n
    return float(np.trace(K @ H @ L @ H) / (n - 1) ** 2)


def hsic_1(K: np.ndarray, L: np.ndarray) -> float:
    """As an average over distinct quadruples of examples, which is what makes it unbiased."""
    n = len(K)
    total = 0.0
    for i in range(n):
        for j in range(n):
            for q in range(n):
                for r in range(n):
                    if len({i, j, q, r}) == 4:
                        total += K[i, j] * (L[i, j] + L[q, r] - 2 * L[i, q])
    return total / (n * (n - 1) * (n - 2) * (n - 3))


@pytest.mark.parametrize("n", [4, 5, 7])
def test_unbiased_is_the_average_over_quadruples(n: int) -> None:
    layers = centred(n, 3, 6)
    grams = [(x @ x.T).numpy() for x in layers]
    expected = [[hsic_1(K, L) for L in grams] for K in grams]
    np.testing.assert_allclose(gram_sums(layers).unbiased(), expected, atol=1e-12)


@pytest.mark.parametrize("n", [2, 10, BLOCK, BLOCK + 1, 2 * BLOCK + 37])
def test_biased_is_the_trace_with_centring_matrices(n: int) -> None:
    layers = centred(n, 4, 9, 1)
    grams = [(x @ x.T).numpy() for x in layers]
    expected = [[hsic_0(K, L) for L in grams] for K in grams]
    np.testing.assert_allclose(gram_sums(layers).biased(), expected, rtol=1e-10, atol=1e-12)


def test_gaussian_grams_across_blocks() -> None:
    x, y = centred(BLOCK + 60, 3, 5)
    grams = [np.exp(-((z[:, None] - z[None]) ** 2).sum(-1).numpy() / 2) for z in (x, y)]
    sums = gram_sums([x, y], gaussian=True)
    np.testing.assert_allclose(sums.biased(), [[hsic_0(K, L) for L in grams] for K in grams], rtol=1e-10)
    off = [K - np.diag(np.diag(K)) for K in grams]
    np.testing.assert_allclose(sums.rows, [K.sum(1) for K in off], rtol=1e-12)
    np.testing.assert_allclose(sums.products, [[(K * L).sum() for L in off] for K in off], rtol=1e-12)


@pytest.mark.parametrize("n", [5, 300, 4096 + 20])
def test_feature_space_gives_the_same_sums_as_grams(n: int) -> None:
    x, y = centred(n, 6, 11)
    slow, fast = gram_sums([x, y]), feature_sums(x + 7, y - 3)
    for estimator in ("biased", "unbiased"):
        np.testing.assert_allclose(getattr(fast, estimator)(), getattr(slow, estimator)(), rtol=1e-9, atol=1e-12)


def test_float32_far_from_zero_keeps_its_digits() -> None:
    rng = np.random.default_rng(3)
    exact = rng.normal(size=(500, 20))
    shifted = (exact + 1000).astype(np.float32)
    x64 = torch.from_numpy(shifted.astype(np.float64))
    reference = gram_sums([x64 - x64.mean(0)]).biased()
    x32 = torch.from_numpy(shifted)
    np.testing.assert_allclose(feature_sums(x32, x32).biased()[0, 0], reference[0, 0], rtol=1e-5)
