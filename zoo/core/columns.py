"""`Column`: an array [N, ...] in one or more blocks of rows, possibly memory-mapped, read some rows at a time."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from zoo.core.arrays import Array, like
from zoo.core.backend import backend, is_tensor
from zoo.errors import InputError


class Column:
    """An array [N, ...] in blocks of rows: NumPy arrays, memory maps or tensors, all of one dtype and row shape.

    Indexing with a slice, an index array or a mask reads those rows only. `chunks` iterates over all rows, and `array`
    loads all of them.

    >>> column = Column([np.arange(6).reshape(3, 2), np.arange(6, 10).reshape(2, 2)])
    >>> column.shape, column[[4, 0]].tolist()
    ((5, 2), [[8, 9], [0, 1]])
    """

    def __init__(self, blocks: Sequence[Array]) -> None:
        if not blocks:
            raise InputError(argument="blocks", expected="at least one block of rows", found=0)
        first = blocks[0]
        for block in blocks:
            if is_tensor(block) != is_tensor(first) or block.dtype != first.dtype:
                found = f"{first.dtype} and {block.dtype}"
                raise InputError(argument="blocks", expected="all arrays or all tensors, of one dtype", found=found)
            if block.shape[1:] != first.shape[1:]:
                found = f"{list(first.shape[1:])} and {list(block.shape[1:])}"
                raise InputError(argument="blocks", expected="of one row shape", found=found)
        self.blocks = list(blocks)
        self._ends = np.cumsum([len(block) for block in self.blocks])

    def __len__(self) -> int:
        return int(self._ends[-1])

    @property
    def shape(self) -> tuple[int, ...]:
        return (len(self), *self.blocks[0].shape[1:])

    @property
    def dtype(self) -> Any:
        return self.blocks[0].dtype

    @property
    def ndim(self) -> int:
        return len(self.shape)

    def array(self) -> Array:
        """Return all rows as one array; a column of one block is not copied."""
        return self.blocks[0] if len(self.blocks) == 1 else _join(self.blocks)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(self.array(), dtype=dtype) if copy else np.asarray(self.array(), dtype=dtype)

    def __getitem__(self, rows: Any) -> Array:
        """Return the rows of a slice, index array or boolean mask, in the order given; for an integer, a single row."""
        if isinstance(rows, (int, np.integer)):
            return self[[rows]][0]
        if isinstance(rows, slice):
            start, stop, step = rows.indices(len(self))
            if step == 1:
                return self._span(start, max(start, stop))
            rows = np.arange(start, stop, step)
        rows = self._positions(rows)
        first: Any = self.blocks[0]
        if is_tensor(first):
            return self.array()[like(rows, first)]
        if len(self.blocks) == 1:
            return first[rows]
        owner = np.searchsorted(self._ends, rows, side="right")
        out = np.empty((len(rows), *self.shape[1:]), first.dtype)
        for index in np.unique(owner):
            in_block = owner == index
            offset = self._ends[index] - len(self.blocks[index])
            out[in_block] = self.blocks[index][rows[in_block] - offset]
        return out

    def chunks(self, rows: int) -> Iterator[tuple[slice, Array]]:
        """Yield consecutive pairs (slice, rows) of at most `rows` rows; a chunk inside one block is a view."""
        for start in range(0, len(self), rows):
            span = slice(start, min(start + rows, len(self)))
            yield span, self._span(span.start, span.stop)

    def _positions(self, rows: Any) -> np.ndarray:
        """Return the row numbers, from 0 to N - 1, of a mask or of a list of numbers that may be negative."""
        rows = np.asarray(rows.cpu() if is_tensor(rows) else rows)
        if rows.dtype == bool:
            if rows.shape != (len(self),):
                raise InputError(argument="rows", expected=f"a mask of shape [{len(self)}]", found=list(rows.shape))
            return np.flatnonzero(rows)
        if rows.size == 0:
            rows = rows.astype(np.int64)
        if rows.ndim != 1 or rows.dtype.kind not in "iu":
            expected = "a slice, a mask or a list of whole numbers"
            raise InputError(argument="rows", expected=expected, found=f"{rows.ndim}-d {rows.dtype}")
        rows = np.where(rows < 0, rows + len(self), rows).astype(np.int64)
        if len(rows) and (rows.min() < 0 or rows.max() >= len(self)):
            raise IndexError(f"row {int(rows.max() if rows.min() >= 0 else rows.min())} of a column of {len(self)} rows")
        return rows

    def _span(self, start: int, stop: int) -> Array:
        parts = []
        begin = 0
        for block, end in zip(self.blocks, self._ends, strict=True):
            low, high = max(start, begin), min(stop, int(end))
            if low < high:
                parts.append(block[low - begin : high - begin])
            begin = int(end)
        if not parts:
            return self.blocks[0][:0]
        return parts[0] if len(parts) == 1 else _join(parts)


def _join(parts: Sequence[Array]) -> Array:
    joined: Array = backend(parts[0]).concatenate(list(parts))
    return joined
