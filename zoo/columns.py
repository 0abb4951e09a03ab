"""A column: rows of numbers in one or more blocks, possibly memory-mapped, read without loading the whole."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch

from zoo.arrays import Array


class Column:
    """`[N, ...]` made of blocks of rows; NumPy arrays (or memory maps) or tensors, all of one dtype.

    Indexing with a slice or an index array reads just those rows; `chunks` streams; `array` loads everything.
    """

    def __init__(self, blocks: Sequence[Array]) -> None:
        self.blocks = list(blocks)
        self._ends = np.cumsum([len(block) for block in self.blocks])

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

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
        """All rows as one array, without a copy where there is one block."""
        return self.blocks[0] if len(self.blocks) == 1 else _join(self.blocks)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.array(), dtype=dtype)

    def __getitem__(self, rows: Any) -> Array:
        """The rows of a slice, an index array or a boolean mask, in the order asked for."""
        if isinstance(rows, slice):
            start, stop, step = rows.indices(len(self))
            if step == 1:
                return self._span(start, max(start, stop))
            rows = np.arange(start, stop, step)
        rows = np.asarray(rows.cpu() if isinstance(rows, torch.Tensor) else rows)
        if rows.dtype == bool:
            rows = np.flatnonzero(rows)
        if len(self.blocks) == 1:
            block = self.blocks[0]
            return block[torch.from_numpy(rows).to(block.device)] if isinstance(block, torch.Tensor) else block[rows]
        owner = np.searchsorted(self._ends, rows, side="right")
        first = self.blocks[0]
        if isinstance(first, torch.Tensor):
            return self.array()[torch.from_numpy(rows).to(first.device)]
        out = np.empty((len(rows), *self.shape[1:]), first.dtype)
        for index in np.unique(owner):
            here = owner == index
            offset = self._ends[index] - len(self.blocks[index])
            out[here] = self.blocks[index][rows[here] - offset]
        return out

    def chunks(self, rows: int) -> Iterator[tuple[slice, Array]]:
        """Consecutive (slice, rows) of at most `rows` rows; a chunk inside one block is a view."""
        for start in range(0, len(self), rows):
            span = slice(start, min(start + rows, len(self)))
            yield span, self._span(span.start, span.stop)

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
    if isinstance(parts[0], torch.Tensor):
        return torch.cat(list(parts))  # type: ignore[arg-type]
    return np.concatenate([np.asarray(part) for part in parts])
