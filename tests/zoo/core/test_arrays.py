"""Which arrays are accepted and refused, and on which device results are."""

import numpy as np
import pytest
import torch
from accelerator import Accelerator, WrongDevice, download, upload
from raised import fields

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


def test_memory_is_shared_even_if_it_is_read_only():
    x = np.arange(4.0)
    assert arrays.tensor(x, "x").data_ptr() == x.ctypes.data
    x.flags.writeable = False
    assert arrays.tensor(x, "x").data_ptr() == x.ctypes.data


def test_a_result_is_of_the_kind_of_the_input():
    assert isinstance(arrays.like_input(torch.ones(2), np.ones(2)), np.ndarray)
    assert isinstance(arrays.like_input(torch.ones(2), [1.0]), np.ndarray)
    assert isinstance(arrays.like_input(torch.ones(2), torch.ones(2)), torch.Tensor)


@pytest.mark.parametrize(
    ("check", "values", "facts"),
    [
        (arrays.logits, [[0.0, np.nan]], {"problem": ["row 0", "1 such"]}),
        (arrays.logits, [[0.0, 1.0], [np.inf, 0.0]], {"problem": ["row 1", "1 such"]}),
        (arrays.logits, [[-np.inf, -np.inf]], {"problem": "row 0", "expected": "finite"}),
        (arrays.logits, [0.0, 1.0], {"expected": "[N, K]", "found": [2]}),
        (arrays.logits, [[0, 1]], {"expected": "floating-point", "found": torch.int64}),
        (arrays.logits, np.zeros((0, 3)), {"expected": "at least one row", "found": [0, 3]}),
        (arrays.probabilities, [[0.5, 0.2]], {"problem": ["row 0", "0.7"]}),
        (arrays.probabilities, [[0.5, 0.5], [-0.1, 1.1]], {"problem": ["row 1", "-0.1"]}),
        (arrays.probabilities, [[3.0, -2.0]], {"problem": "row 0", "hint": "logits"}),
        (arrays.probabilities, [[np.nan, 1.0]], {"problem": "row 0"}),
        (arrays.labels, [0, -1], {"problem": ["1", "-1"], "expected": "0"}),
        (arrays.labels, [0.0, 1.0], {"expected": "whole-number", "found": torch.float64}),
        (arrays.labels, [True, False], {"expected": "whole-number", "found": torch.bool}),
        (arrays.labels, [[0, 1], [1, 0]], {"expected": "[N]", "found": [2, 2], "hint": "one-hot"}),
        (arrays.labels, ["a", "b"], {"expected": "numbers", "found": np.dtype("<U1")}),
        (arrays.labels, [[0], [1, 2]], {"expected": "rectangular"}),
    ],
)
def test_an_error_names_the_array_and_the_fault(check, values, facts):
    with pytest.raises(InputError, check=fields(argument=check.__name__, **facts)):
        check(values)


def test_labels_are_below_the_number_of_classes_and_one_per_example():
    assert arrays.labels(np.array([2, 0], np.uint8), 3).dtype == torch.int64
    assert len(arrays.labels(np.zeros(0, int))) == 0
    with pytest.raises(InputError, check=fields(argument="labels", problem=["1", "3"], expected="from 0 to 2")):
        arrays.labels([0, 3], 3)
    with pytest.raises(InputError, check=fields(argument="labels", expected="3", found=2)):
        arrays.labels([0, 1], rows=3)
    assert arrays.optional_predictions([1, arrays.NO_PREDICTION], 2).tolist() == [1, -1]
    with pytest.raises(InputError, check=fields(argument="predictions", problem="-2")):
        arrays.optional_predictions([1, -2], 2)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_probabilities_declared_as_logits_are_refused(dtype):
    p = np.random.default_rng(0).dirichlet(np.ones(6), 20).astype(dtype)
    with pytest.raises(InputError, check=fields(argument="z", problem="probabilities")):
        arrays.logits(p, "z")
    arrays.logits(p[:3], "z")  # a few rows may sum to one by chance
    arrays.logits(np.eye(6)[np.arange(20) % 6], "z")  # and one-hot rows may be logits
    arrays.logits(p - 0.01, "z")


def test_masked_classes_and_half_precision_are_accepted():
    assert arrays.logits(np.array([[0.0, -np.inf]], np.float16)).dtype == torch.float16
    thousand = np.full((2, 1000), 1e-3, np.float16)
    assert arrays.probabilities(thousand).dtype == torch.float16


def test_totals_are_exact_beyond_float32():
    ones = torch.full((2**24 + 10,), 1.0)
    assert arrays.total(ones, 0) == 2**24 + 10


class TestAccelerator:
    """The simulated accelerator refuses operations across devices, as a real one does."""

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

    def test_checks_run_on_the_accelerator(self):
        with Accelerator():
            arrays.logits(upload([[0.0, 1.0]]))
            arrays.probabilities(upload([[0.5, 0.5]]))
            arrays.labels(upload([0, 1]), 2)
            with pytest.raises(InputError, check=fields(problem="row 0")):
                arrays.logits(upload([[0.0, np.nan]]))


class TestUnusualArrays:
    def test_masked_entries_are_refused_and_an_empty_mask_is_not(self):
        masked = np.ma.masked_array([[0.1, 0.2], [0.3, 0.4]], mask=[[0, 1], [0, 0]])
        with pytest.raises(InputError, check=fields(argument="x", problem="1 entries")):
            arrays.tensor(masked, "x")
        plain = arrays.tensor(np.ma.masked_array([[0.1, 0.2]], mask=False), "x")
        assert plain.tolist() == [[0.1, 0.2]]

    def test_lists_of_tensors_with_gradients(self):
        rows = [torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([3.0, 4.0])]
        joined = arrays.tensor(rows, "x")
        assert joined.tolist() == [[1.0, 2.0], [3.0, 4.0]]
        assert not joined.requires_grad
        with pytest.raises(InputError, check=fields(argument="x", expected="rectangular")):
            arrays.tensor([torch.zeros(2), torch.zeros(3)], "x")
        with pytest.raises(InputError, check=fields(argument="x", problem="dtype")):
            arrays.tensor([torch.zeros(2), torch.zeros(2, dtype=torch.float64)], "x")
        with pytest.raises(InputError, check=fields(argument="x", problem="list")):
            arrays.tensor([[torch.zeros(2, requires_grad=True)], [torch.zeros(2)]], "x")

    def test_tensors_without_plain_numbers_are_refused(self):
        with pytest.raises(InputError, check=fields(argument="x", expected="dense", found="sparse_coo", hint="to_dense")):
            arrays.tensor(torch.eye(3).to_sparse(), "x")
        with pytest.raises(InputError, check=fields(argument="x", problem="meta")):
            arrays.tensor(torch.empty(3, device="meta"), "x")
        with pytest.raises(InputError, check=fields(argument="x", expected="real", found=torch.complex64)):
            arrays.tensor(torch.zeros(2, dtype=torch.complex64), "x")

    @pytest.mark.parametrize("dtype", [">i8", ">i4", ">u2", ">u8", "<u8"])
    def test_labels_of_either_byte_order(self, dtype):
        assert arrays.labels(np.array([3, 0, 258], dtype)).tolist() == [3, 0, 258]

    def test_labels_above_int64_do_not_become_negative(self):
        with pytest.raises(InputError, check=fields(argument="labels", expected="2^63", found=2**64 - 1)):
            arrays.labels(np.array([2**64 - 1], np.uint64))

    @pytest.mark.parametrize("seed", [-1, 1.5, True, None, "0"])
    def test_a_seed_is_a_whole_number_of_at_least_0(self, seed):
        with pytest.raises(InputError, check=fields(argument="seed", expected="at least 0", found=seed)):
            arrays.seed(seed)
        assert arrays.seed(np.int32(5)) == 5
