"""NumPy and torch compute the same numbers, on ordinary and on extreme input."""

import numpy as np
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal
from scipy import special

from zoo.core import arrays, backend, checks

EXTREMES = np.array(
    [[0.0, -0.0, 1e-300, 1.0], [-745.0, 745.0, 1e4, -1e30], [1e30, 1e30, 0.0, -np.inf], [5.0, 5.0, 5.0, 5.0]]
)


def matrices():
    rng = np.random.default_rng(0)
    return [rng.normal(size=(50, 7)), 100 * rng.normal(size=(9, 1)), rng.normal(size=(3, 2000)), EXTREMES]


def agree(found, expected, rtol=1e-12):
    assert [torch.is_tensor(one) for one in found] == [False, True]
    for one in found:
        assert_allclose(np.asarray(one), expected, rtol=rtol, atol=1e-320)


@pytest.mark.parametrize("x", matrices())
def test_functions_agree_with_scipy(x):
    tensor = torch.from_numpy(x)
    agree([backend.softmax(x), backend.softmax(tensor)], special.softmax(x, -1))
    agree([backend.log_sigmoid(x), backend.log_sigmoid(tensor)], special.log_expit(x))
    agree([backend.sigmoid(x), backend.sigmoid(tensor)], np.where(x < -709, 0, special.expit(x)))
    finite = np.where(np.isfinite(x), x, 0)
    agree([backend.row_norms(finite), backend.row_norms(torch.from_numpy(finite))], np.linalg.norm(finite, axis=1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_rows_are_picked_replaced_and_summed(dtype):
    rng = np.random.default_rng(1)
    x, index, values = rng.normal(size=(40, 6)).astype(dtype), rng.integers(0, 6, 40), rng.normal(size=40).astype(dtype)
    tensor, places, others = torch.from_numpy(x), torch.from_numpy(index), torch.from_numpy(values)
    rows = np.arange(40)
    agree([backend.pick(x, index), backend.pick(tensor, places)], x[rows, index], 0)
    cube = np.stack([x, -x])
    agree([backend.pick(cube, index), backend.pick(torch.from_numpy(cube), places)], cube[:, rows, index], 0)
    expected = x.copy()
    expected[rows, index] = values
    agree([backend.replaced(x, index, values), backend.replaced(tensor, places, others)], expected, 0)
    sums = np.stack([values[index == k].sum() for k in range(9)])
    agree([backend.sums_by(values, index, 9), backend.sums_by(others, places, 9)], sums, 1e-4)
    assert backend.sums_by(np.stack([values, -values]), index, 9).shape == (2, 9)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int64", "bool"])
def test_dtypes_have_one_name(dtype):
    for x in (np.ones(2, dtype), torch.ones(2, dtype=getattr(torch, dtype))):
        assert backend.dtype_name(x) == dtype
        assert backend.is_floating(x) == dtype.startswith("float")
        assert backend.cast(x, dtype) is x or np.shares_memory(np.asarray(backend.cast(x, dtype)), np.asarray(x))
        assert backend.dtype_name(backend.to_accumulation_dtype(x)) == "float64"
        assert backend.dtype_name(backend.single_or_double(x)) == ("float64" if dtype == "float64" else "float32")
        assert backend.dtype_name(backend.zeros((2,), x, "int32")) == "int32"


def test_large_arrays_become_tensors_without_a_copy():
    x = np.arange(4.0)
    assert arrays.by_size(x, backend.MAX_NUMPY) is x
    large = arrays.by_size(x, backend.MAX_NUMPY + 1)
    assert large.data_ptr() == x.ctypes.data
    assert arrays.by_size(large, 1) is large
    assert_array_equal(arrays.like(large, x), x)
    assert torch.is_tensor(arrays.like(x, large))


@pytest.mark.parametrize(
    ("check", "values"),
    [
        ("logits", [[0.0, 2.0], [-np.inf, 1.0]]),
        ("probabilities", [[0.25, 0.75], [1.0, 0.0]]),
        ("labels", [0, 3]),
        ("optional_predictions", [-1, 3]),
    ],
)
def test_a_check_returns_what_it_was_given(check, values):
    found, of_tensor = getattr(checks, check)(values), getattr(checks, check)(torch.tensor(values))
    assert isinstance(found, np.ndarray)
    assert torch.is_tensor(of_tensor)
    assert found.tolist() == of_tensor.tolist() == getattr(arrays, check)(values).tolist() == values
