"""A column in blocks behaves like the array it represents."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from raised import fields

from zoo.core.columns import Column
from zoo.errors import InputError

blocks = st.lists(st.integers(0, 5), min_size=1, max_size=5)


def column(sizes, kind):
    whole = np.arange(sum(sizes) * 2, dtype=np.float32).reshape(-1, 2)
    parts = np.split(whole, np.cumsum(sizes)[:-1])
    return Column([torch.from_numpy(part) for part in parts] if kind == "torch" else parts), whole


@settings(deadline=None)
@given(sizes=blocks, kind=st.sampled_from(["numpy", "torch"]), data=st.data())
def test_rows_of_a_column_are_the_rows_of_the_array(sizes, kind, data):
    values, whole = column(sizes, kind)
    count = len(whole)
    assert (len(values), values.shape, values.ndim) == (count, whole.shape, 2)
    start, stop = data.draw(st.integers(-8, 30)), data.draw(st.integers(-8, 30))
    step = data.draw(st.sampled_from([None, 1, 2, -1, -3]))
    assert np.array_equal(values[start:stop:step], whole[start:stop:step])
    rows = data.draw(st.lists(st.integers(-count, count - 1), max_size=8)) if count else []
    assert np.array_equal(values[rows], whole[np.array(rows, int)])
    mask = np.array(data.draw(st.lists(st.booleans(), min_size=count, max_size=count)), bool)
    assert np.array_equal(values[mask], whole[mask])
    assert np.array_equal(values[torch.from_numpy(mask)], whole[mask])
    assert np.array_equal(np.asarray(values), whole)


@settings(deadline=None)
@given(sizes=blocks, rows=st.integers(1, 7))
def test_chunks_cover_the_column_in_order(sizes, rows):
    values, whole = column(sizes, "numpy")
    spans, parts = zip(*values.chunks(rows), strict=True) if len(whole) else ((), ())
    assert all(len(part) <= rows for part in parts)
    assert [span.start for span in spans] == list(range(0, len(whole), rows))
    assert np.array_equal(np.concatenate([whole[:0], *parts]), whole)


def test_a_chunk_inside_one_block_is_a_view():
    values, _ = column([4, 4], "numpy")
    (_, first), *_ = values.chunks(4)
    assert first.base is not None
    assert np.shares_memory(first, values.blocks[0])


def test_one_row_by_number():
    values, whole = column([2, 3], "numpy")
    assert np.array_equal(values[3], whole[3])
    assert np.array_equal(values[-1], whole[-1])


@pytest.mark.parametrize("rows", [[5], [-6], [0, 99]])
def test_rows_out_of_range_are_refused(rows):
    with pytest.raises(IndexError, match="5 rows"):
        column([2, 3], "numpy")[0][rows]


@pytest.mark.parametrize(("rows", "found"), [([0.5], "1-d float64"), ([[0]], "2-d int64"), (np.array([True, False]), [2])])
def test_invalid_row_selections_are_refused(rows, found):
    with pytest.raises(InputError, check=fields(argument="rows", found=found)):
        column([2, 3], "numpy")[0][rows]


@pytest.mark.parametrize(
    ("blocks", "expected", "found"),
    [
        ([], "at least one", 0),
        ([np.zeros((1, 2)), np.zeros((1, 2), np.float32)], "one dtype", "float64 and float32"),
        ([np.zeros((1, 2)), torch.zeros(1, 2, dtype=torch.float64)], "all tensors", "float64 and torch.float64"),
        ([np.zeros((1, 2)), np.zeros((1, 3))], "row shape", "[2] and [3]"),
    ],
)
def test_blocks_of_different_kinds_are_refused(blocks, expected, found):
    with pytest.raises(InputError, check=fields(argument="blocks", expected=expected, found=found)):
        Column(blocks)
