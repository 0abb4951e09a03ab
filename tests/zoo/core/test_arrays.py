"""Arrays in, arrays out: what is accepted, what is refused, and where results live."""

import numpy as np
import pytest
import torch
from accelerator import Accelerator, WrongDevice, download, upload

from zoo.core import arrays
from zoo.errors import InputError


@pytest.mark.parametrize(
    "values",
    [
        [[1.0, 2.0], [3.0, 4.0]],
        np.array([[1, 2], [3, 4]], np.uint16),
        np.array([[1, 2], [3, 4]], ">f4"),
        np.array([[4.0, 3.0], [2.0, 1.0]])[::-1, ::-1],
        np.array([[1, 2], [3, 4]], np.longdouble),
        np.asfortranarray([[1.0, 2.0], [3.0, 4.0]]),
        torch.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True),
    ],
)
def test_tensor_takes_any_layout(values):
    assert arrays.tensor(values, "x").tolist() == [[1, 2], [3, 4]]


def test_memory_is_shared_and_read_only_memory_is_no_trouble():
    x = np.arange(4.0)
    assert arrays.tensor(x, "x").data_ptr() == x.ctypes.data
    x.flags.writeable = False
    assert arrays.tensor(x, "x").data_ptr() == x.ctypes.data


def test_results_come_back_in_the_callers_kind():
    assert isinstance(arrays.like_input(torch.ones(2), np.ones(2)), np.ndarray)
    assert isinstance(arrays.like_input(torch.ones(2), [1.0]), np.ndarray)
    assert isinstance(arrays.like_input(torch.ones(2), torch.ones(2)), torch.Tensor)


@pytest.mark.parametrize(
    ("check", "values", "message"),
    [
        (arrays.logits, [[0.0, np.nan]], "row 0 has NaN"),
        (arrays.logits, [[0.0, 1.0], [np.inf, 0.0]], "row 1 has NaN, \\+inf"),
        (arrays.logits, [[-np.inf, -np.inf]], "no finite value"),
        (arrays.logits, [0.0, 1.0], r"expected shape \[N, K\]"),
        (arrays.logits, [[0, 1]], "floating-point"),
        (arrays.logits, np.zeros((0, 3)), "at least one row"),
        (arrays.probabilities, [[0.5, 0.2]], "row 0 is not a distribution"),
        (arrays.probabilities, [[0.5, 0.5], [-0.1, 1.1]], "row 1 is not a distribution"),
        (arrays.probabilities, [[3.0, -2.0]], "pass logits through their link first"),
        (arrays.probabilities, [[np.nan, 1.0]], "row 0"),
        (arrays.labels, [0, -1], "entry 1 is -1"),
        (arrays.labels, [0.0, 1.0], "whole-number"),
        (arrays.labels, [True, False], "whole-number"),
        (arrays.labels, [[0, 1], [1, 0]], "not one-hot rows"),
        (arrays.labels, ["a", "b"], "expected numbers"),
        (arrays.labels, [[0], [1, 2]], "different lengths"),
    ],
)
def test_faults(check, values, message):
    with pytest.raises(InputError, match=message):
        check(values)


def test_labels_know_their_limits():
    assert arrays.labels(np.array([2, 0], np.uint8), 3).dtype == torch.int64
    assert len(arrays.labels(np.zeros(0, int))) == 0
    with pytest.raises(InputError, match=r"entry 1 is 3, expected class indices in 0\.\.2"):
        arrays.labels([0, 3], 3)
    with pytest.raises(InputError, match="expected 3 entries"):
        arrays.labels([0, 1], rows=3)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_probabilities_declared_as_logits(dtype):
    p = np.random.default_rng(0).dirichlet(np.ones(6), 20).astype(dtype)
    with pytest.raises(InputError, match="z: every row sums to one, so these are probabilities"):
        arrays.logits(p, "z")
    arrays.logits(p[:3], "z")  # a few rows may sum to one by chance
    arrays.logits(np.eye(6)[np.arange(20) % 6], "z")  # and one-hot rows may be logits
    arrays.logits(p - 0.01, "z")


def test_masked_classes_and_half_precision_are_fine():
    assert arrays.logits(np.array([[0.0, -np.inf]], np.float16)).dtype == torch.float16
    thousand = np.full((2, 1000), 1e-3, np.float16)
    assert arrays.probabilities(thousand).dtype == torch.float16


def test_totals_are_wide():
    ones = torch.full((2**24 + 10,), 1.0)
    assert arrays.total(ones, 0) == 2**24 + 10


class TestStandIn:
    """The stand-in must be able to fail, or it shows nothing."""

    @pytest.mark.parametrize(
        "misuse",
        [
            lambda x: x + torch.ones(3),
            lambda x: x.cpu(),
            lambda x: x.to("cpu"),
            lambda x: x.numpy(),
            lambda x: np.asarray(x),
            lambda x: x.tolist(),
            lambda x: x[torch.tensor([0, 1])],
            lambda x: torch.zeros(3).copy_(x),
            lambda x: torch.stack([x, torch.zeros(3)]),
        ],
    )
    def test_refuses(self, misuse):
        with Accelerator(), pytest.raises(WrongDevice):
            misuse(upload([1.0, 2.0, 3.0]))

    def test_computes(self):
        with Accelerator():
            x = upload([[1.0, 2.0], [3.0, 4.0]])
            y = torch.arange(2, device=x.device) + torch.ones(2).to(x.device) * float(x.sum())
            z = x @ x.new_ones(2, 1) + 1
            x[0] = 7
            assert arrays.to_numpy(z).tolist() == [[4], [8]]
        assert download(y).tolist() == [10, 11]
        assert download(x).tolist() == [[7, 7], [3, 4]]

    def test_checks_run_there(self):
        with Accelerator():
            arrays.logits(upload([[0.0, 1.0]]))
            arrays.probabilities(upload([[0.5, 0.5]]))
            arrays.labels(upload([0, 1]), 2)
            with pytest.raises(InputError, match="row 0"):
                arrays.logits(upload([[0.0, np.nan]]))


class TestOddArrays:
    def test_masked_entries_are_refused_and_a_mask_of_nothing_is_not(self):
        masked = np.ma.masked_array([[0.1, 0.2], [0.3, 0.4]], mask=[[0, 1], [0, 0]])
        with pytest.raises(InputError, match="x: 1 entries are masked; fill or drop them"):
            arrays.tensor(masked, "x")
        plain = arrays.tensor(np.ma.masked_array([[0.1, 0.2]], mask=False), "x")
        assert plain.tolist() == [[0.1, 0.2]]

    def test_lists_of_tensors_with_gradients(self):
        rows = [torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([3.0, 4.0])]
        joined = arrays.tensor(rows, "x")
        assert joined.tolist() == [[1.0, 2.0], [3.0, 4.0]]
        assert not joined.requires_grad
        with pytest.raises(InputError, match="x: expected a rectangular array"):
            arrays.tensor([torch.zeros(2), torch.zeros(3)], "x")
        with pytest.raises(InputError, match="x: expected tensors of one device and dtype"):
            arrays.tensor([torch.zeros(2), torch.zeros(2, dtype=torch.float64)], "x")
        with pytest.raises(InputError, match="x: expected an array"):
            arrays.tensor([[torch.zeros(2, requires_grad=True)], [torch.zeros(2)]], "x")

    def test_tensors_without_plain_numbers(self):
        with pytest.raises(InputError, match=r"x: expected a dense tensor, found a sparse_coo one; call \.to_dense"):
            arrays.tensor(torch.eye(3).to_sparse(), "x")
        with pytest.raises(InputError, match="x: a tensor on the meta device has a shape and no numbers"):
            arrays.tensor(torch.empty(3, device="meta"), "x")
        with pytest.raises(InputError, match=r"x: expected real numbers, found dtype torch\.complex64"):
            arrays.tensor(torch.zeros(2, dtype=torch.complex64), "x")

    @pytest.mark.parametrize("dtype", [">i8", ">i4", ">u2", ">u8", "<u8"])
    def test_labels_of_either_byte_order(self, dtype):
        assert arrays.labels(np.array([3, 0, 258], dtype)).tolist() == [3, 0, 258]

    def test_labels_beyond_all_classes_do_not_turn_negative(self):
        with pytest.raises(InputError, match="has the entry 18446744073709551615, expected whole numbers below"):
            arrays.labels(np.array([2**64 - 1], np.uint64))

    @pytest.mark.parametrize("seed", [-1, 1.5, True, None, "0"])
    def test_seeds(self, seed):
        with pytest.raises(InputError, match="seed: expected a whole number of at least 0"):
            arrays.seed(seed)
        assert arrays.seed(np.int32(5)) == 5
