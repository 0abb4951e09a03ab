"""CKA against the formulas of its papers with whole Gram matrices, its invariances, and invalid arguments."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from raised import fields

from diversity.similarity import MinibatchCKA, kernel_cka, linear_cka
from zoo.errors import InputError, ZooWarning


def naive_cka(K: np.ndarray, L: np.ndarray) -> float:
    """Kornblith et al. (2021), eq. 10, on Gram matrices: the cosine of the two centred matrices read as vectors."""
    n = len(K)
    H = np.eye(n) - 1 / n
    K, L = H @ K @ H, H @ L @ H
    return float((K * L).sum() / np.sqrt((K * K).sum() * (L * L).sum()))


def debiased_cka(x: np.ndarray, y: np.ndarray) -> float:
    """HSIC_1 as Song et al. print it, with zeroed diagonals and vectors of ones."""

    def hsic(K: np.ndarray, L: np.ndarray) -> float:
        n, one = len(K), np.ones(len(K))
        K, L = K - np.diag(np.diag(K)), L - np.diag(np.diag(L))
        middle = (one @ K @ one) * (one @ L @ one) / ((n - 1) * (n - 2))
        return float((np.trace(K @ L) + middle - 2 / (n - 2) * (one @ K @ L @ one)) / (n * (n - 3)))

    K, L = x @ x.T, y @ y.T
    return hsic(K, L) / np.sqrt(hsic(K, K) * hsic(L, L))


def pair(n: int, d1: int, d2: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, d1)) + 2
    y = x @ rng.normal(size=(d1, d2)) + 3 * rng.normal(size=(n, d2))
    return x, y


# Rows fewer than, about as many as, and many more than the dimensions: the Gram and the feature-space forms.
SHAPES = [(10, 40, 30), (60, 12, 25), (700, 8, 5), (1200, 3, 4)]


@pytest.mark.parametrize("shape", SHAPES)
def test_linear_is_the_centred_gram_formula(shape: tuple[int, int, int]) -> None:
    x, y = pair(*shape)
    assert linear_cka(x, y) == pytest.approx(naive_cka(x @ x.T, y @ y.T), rel=1e-9)
    assert linear_cka(x.astype(np.float32), y.astype(np.float32)) == pytest.approx(naive_cka(x @ x.T, y @ y.T), rel=2e-5)


@pytest.mark.parametrize("shape", SHAPES)
def test_unbiased_is_the_debiased_formula(shape: tuple[int, int, int]) -> None:
    x, y = pair(*shape)
    assert linear_cka(x, y, unbiased=True) == pytest.approx(debiased_cka(x, y), rel=1e-8)


@pytest.mark.parametrize("bandwidth", [0.4, 1.0])
def test_rbf_with_the_median_distance(bandwidth: float) -> None:
    x, y = pair(300, 6, 9)

    def gram(z: np.ndarray) -> np.ndarray:
        squares = ((z[:, None] - z[None]) ** 2).sum(-1)
        distances = np.sort(np.sqrt(squares[np.triu_indices(len(z), 1)]))
        return np.exp(-squares / (2 * (bandwidth * distances[(len(distances) - 1) // 2]) ** 2))

    assert kernel_cka(x, y, "rbf", bandwidth) == pytest.approx(naive_cka(gram(x), gram(y)), rel=1e-9)


def test_cosine_kernel_is_linear_on_unit_rows() -> None:
    x, y = pair(80, 6, 9)
    unit = [z / np.linalg.norm(z, axis=1, keepdims=True) for z in (x, y)]
    expected = naive_cka(unit[0] @ unit[0].T, unit[1] @ unit[1].T)
    assert kernel_cka(x, y, "cosine") == pytest.approx(expected, rel=1e-9)
    wide = kernel_cka(x[:10], y[:10], "cosine")
    assert wide == pytest.approx(linear_cka(unit[0][:10], unit[1][:10]), rel=1e-9)


@settings(max_examples=40, deadline=None)
@given(
    n=st.integers(5, 40), d=st.integers(1, 30), seed=st.integers(0, 999), scale=st.floats(1e-3, 1e3), unbiased=st.booleans()
)
def test_invariant_to_rotation_scale_and_shift(n: int, d: int, seed: int, scale: float, unbiased: bool) -> None:
    x, y = pair(n, d, 3, seed)
    rotation = np.linalg.qr(np.random.default_rng(seed + 1).normal(size=(d, d)))[0]
    moved = scale * (x @ rotation) + 4 * scale
    assert linear_cka(moved, y, unbiased) == pytest.approx(linear_cka(x, y, unbiased), abs=1e-7)
    assert linear_cka(y, x, unbiased) == pytest.approx(linear_cka(x, y, unbiased), abs=1e-12)
    assert linear_cka(x, moved, unbiased) == pytest.approx(1, abs=1e-9)
    if not unbiased:
        assert -1e-12 <= linear_cka(x, y) <= 1 + 1e-12


def test_unbiased_on_independent_gaussians_has_mean_zero_and_biased_has_not() -> None:
    rng = np.random.default_rng(5)
    draws = [(rng.normal(size=(20, 40)), rng.normal(size=(20, 30))) for _ in range(300)]
    unbiased = np.array([linear_cka(x, y, unbiased=True) for x, y in draws])
    biased = np.array([linear_cka(x, y) for x, y in draws])
    assert abs(unbiased.mean()) < 3 * unbiased.std(ddof=1) / np.sqrt(len(draws))
    assert biased.mean() > 0.5


def test_convolutional_maps_are_flattened_and_tensors_accepted() -> None:
    x = torch.randn(30, 3, 4, 4, generator=torch.Generator().manual_seed(0))
    assert linear_cka(x, x.flatten(1).numpy()) == pytest.approx(1, abs=1e-6)
    assert linear_cka(x.half(), x) == pytest.approx(1, abs=1e-4)


@pytest.mark.parametrize(
    ("x", "y", "options", "expected"),
    [
        (np.ones((9, 3)), np.eye(9), {}, {"where": "x", "problem": "all 9 rows are equal"}),
        (np.eye(9), np.full((9, 3), 0.1, np.float32), {"unbiased": True}, {"where": "y", "problem": "all 9 rows are equal"}),
        (np.eye(9), np.eye(8), {}, {"where": "x and y", "problem": ["9 rows", "8 rows"]}),
        (np.eye(3), np.eye(3), {"unbiased": True}, {"where": "x and y", "found": 3}),
        (np.eye(1), np.eye(1), {}, {"where": "x and y", "found": 1}),
        (np.where(np.eye(9) == 1, np.nan, 0), np.eye(9), {}, {"where": "x: row 0"}),
        (np.eye(9), np.diag([1.0, 1, np.inf, 1, 1, 1, 1, 1, 1]), {}, {"where": "y: row 2"}),
        (np.arange(9.0), np.eye(9), {}, {"where": "x", "found": [9]}),
        (np.empty((0, 3)), np.empty((0, 3)), {}, {"where": "x", "found": [0, 3]}),
    ],
)
def test_invalid_arguments_are_named(x: np.ndarray, y: np.ndarray, options: dict, expected: dict) -> None:
    with pytest.raises(InputError, check=fields(**expected)):
        linear_cka(x, y, **options)


@pytest.mark.parametrize("kernel", ["linear", "cosine", "rbf"])
@pytest.mark.parametrize("shape", [(60, 12, 25), (700, 8, 5)])
@pytest.mark.parametrize(("scale", "other"), [(1e200, 1e-200), (1e-300, 1.0), (1e300, 1e300)])
def test_extreme_scales_change_nothing(kernel: str, shape: tuple[int, int, int], scale: float, other: float) -> None:
    x, y = pair(*shape)
    expected = kernel_cka(x, y, kernel)
    assert kernel_cka(scale * x, other * y, kernel) == pytest.approx(expected, rel=1e-9)
    meters = MinibatchCKA(kernel), MinibatchCKA(kernel)
    for rows in (slice(0, 30), slice(30, 60)):
        meters[0].update([x[rows]], [y[rows]])
        meters[1].update([scale * x[rows]], [other * y[rows]])
    assert meters[1].result().iloc[0, 0] == pytest.approx(meters[0].result().iloc[0, 0], rel=1e-9)


@pytest.mark.parametrize("exponent", [-120, -60, -12, 20, 60, 120])
def test_powers_of_two_change_no_digit(exponent: int) -> None:
    x, y = (z.astype(np.float32) for z in pair(80, 6, 9))
    assert linear_cka(np.ldexp(x, exponent), y) == linear_cka(x, y)


def test_bad_kernels() -> None:
    x, y = pair(20, 3, 3)
    with pytest.raises(InputError, check=fields(argument="kernel", found="poly")):
        kernel_cka(x, y, "poly")  # type: ignore[arg-type]
    with pytest.raises(InputError, check=fields(argument="bandwidth", found=0)):
        kernel_cka(x, y, "rbf", bandwidth=0)
    with pytest.raises(InputError, check=fields(where="x: row 4", problem="zero vector")):
        kernel_cka(np.where(np.arange(20)[:, None] == 4, 0, x), y, "cosine")
    with pytest.raises(InputError, check=fields(where="x", problem="half of the pairs")):
        kernel_cka(np.where(np.arange(20)[:, None] < 18, 1, x), y, "rbf")


def test_one_batch_of_the_meter_is_the_unbiased_form() -> None:
    x, y = pair(50, 7, 4)
    meter = MinibatchCKA()
    meter.update([x, x**2], [y])
    result = meter.result()
    assert result.shape == (2, 1)
    assert result.iloc[0, 0] == pytest.approx(debiased_cka(x, y), rel=1e-8)
    assert result.iloc[1, 0] == pytest.approx(debiased_cka(x**2, y), rel=1e-8)
    assert meter.result("first").iloc[0, 1] == pytest.approx(debiased_cka(x, x**2), rel=1e-8)
    assert meter.result("second").iloc[0, 0] == pytest.approx(1)


def test_the_meter_averages_hsic_and_not_cka() -> None:
    meter, hsics = MinibatchCKA(), np.zeros((2, 2))
    for seed in range(4):
        x, y = pair(30, 5, 6, seed)
        meter.update({"a": x}, {"a": y})
        u = [_u_centred(z @ z.T) for z in (x, y)]
        hsics += [[(p * q).sum() for q in u] for p in u]
    assert meter.result().loc["a", "a"] == pytest.approx(hsics[0, 1] / np.sqrt(hsics[0, 0] * hsics[1, 1]), rel=1e-9)
    assert meter.rows == 120


def _u_centred(K: np.ndarray) -> np.ndarray:
    """Szekely and Rizzo's form, whose product is n (n - 3) HSIC_1: another road to the same estimator."""
    n = len(K)
    K = K - np.diag(np.diag(K))
    rows = K.sum(0)
    U = K - rows[:, None] / (n - 2) - rows / (n - 2) + rows.sum() / ((n - 1) * (n - 2))
    return U - np.diag(np.diag(U))


def test_the_meter_is_unbiased_on_independent_gaussians() -> None:
    rng = np.random.default_rng(11)
    values = []
    for _ in range(200):
        meter = MinibatchCKA()
        for _ in range(3):
            meter.update([rng.normal(size=(12, 20))], [rng.normal(size=(12, 16))])
        values.append(meter.result().iloc[0, 0])
    assert abs(np.mean(values)) < 3 * np.std(values, ddof=1) / np.sqrt(len(values))


def test_many_small_batches_estimate_the_full_batch_value() -> None:
    x, y = pair(4000, 6, 5)
    meter = MinibatchCKA()
    for rows in np.split(np.random.default_rng(0).permutation(4000), 40):
        meter.update([x[rows]], [y[rows]])
    assert meter.result().iloc[0, 0] == pytest.approx(linear_cka(x, y, unbiased=True), abs=0.02)


def test_rbf_meter_keeps_the_bandwidth_of_its_first_batch() -> None:
    x, y = pair(60, 4, 4)
    meter = MinibatchCKA("rbf", bandwidth=0.5)
    meter.update([x], [y])
    assert meter.result().iloc[0, 0] == pytest.approx(kernel_cka(x, y, "rbf", 0.5, unbiased=True), rel=1e-9)
    alone = MinibatchCKA("rbf", bandwidth=0.5)
    alone.update([10 * x], [y])
    meter.update([10 * x], [y])
    assert meter.result().iloc[0, 0] != pytest.approx(alone.result().iloc[0, 0], rel=1e-3)


def test_a_last_batch_below_four_rows_is_skipped_with_a_warning() -> None:
    x, y = pair(50, 7, 4)
    meter = MinibatchCKA()
    meter.update([x[:47]], [y[:47]])
    before = meter.result()
    with pytest.warns(ZooWarning, match="3 rows"):
        meter.update([x[47:]], [y[47:]])
    assert meter.result().equals(before)
    assert (meter.rows, meter.skipped_rows) == (47, 3)


def test_cka_of_a_constant_layer_is_undefined() -> None:
    x, y = pair(50, 7, 4)
    meter = MinibatchCKA()
    meter.update({"alive": x, "dead": np.full((50, 3), 0.1, np.float32)}, {"y": y})
    with pytest.warns(ZooWarning, match="dead"):
        result = meter.result()
    assert np.isnan(result.loc["dead", "y"])
    assert result.loc["alive", "y"] == pytest.approx(debiased_cka(x, y), rel=1e-4)


def test_invalid_batches_are_named() -> None:
    x, y = pair(20, 3, 3)
    meter = MinibatchCKA()
    with pytest.raises(InputError, check=fields(problem="batch")):
        meter.result()
    with pytest.raises(InputError, check=fields(argument="layers_a", found=0)):
        meter.update({})
    with pytest.raises(InputError, check=fields(where="layer a and layer b", problem=["20 rows", "10 rows"])):
        meter.update({"a": x}, {"b": y[:10]})
    with pytest.raises(InputError, check=fields(where="layer b: row 7")):
        meter.update({"a": x}, {"b": np.where(np.arange(20)[:, None] == 7, np.nan, y)})
    meter.update({"a": x}, {"b": y})
    with pytest.raises(InputError, check=fields(argument="layers_a", problem="first batch")):
        meter.update({"a": x}, {"c": y})
    one = MinibatchCKA()
    one.update([x])
    with pytest.raises(InputError, check=fields(argument="part", found="second")):
        one.result("second")
