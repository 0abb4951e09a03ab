"""Features that may be larger than memory: rows read some at a time, from wherever they lie."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from zoo.core import arrays
from zoo.core.columns import Column
from zoo.core.mapped import is_mapped, let_go
from zoo.errors import InputError

BLOCK = 2**22  # numbers read at a time, 16 MB in float32
Where = slice | np.ndarray  # a slice with both ends and step 1, or row numbers


class Rows:
    """Features [N, D] in float32 or float64. What is derived from them reads just what it is asked for, when it is."""

    def __init__(self, shape: tuple[int, int], dtype: torch.dtype, device: torch.device) -> None:
        self.shape, self.dtype, self.device = shape, dtype, device

    def __len__(self) -> int:
        return self.shape[0]

    def read(self, where: Where) -> Tensor:
        """These rows. They may share memory with the source and are not to be written to."""
        raise NotImplementedError

    def blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """Consecutive (slice, rows) of at most BLOCK numbers."""
        for span in spans(len(self), max(1, BLOCK // self.shape[1])):
            yield span, self.read(span)

    def extent(self) -> tuple[Tensor, Tensor, Tensor]:
        """(mean, least, greatest) of each column, [D] in float64, or in the widest type there is."""
        wide = arrays.accumulation_dtype(self.device)
        total = torch.zeros(self.shape[1], dtype=wide, device=self.device)
        low, high = torch.full_like(total, torch.inf), torch.full_like(total, -torch.inf)
        for _, part in self.blocks():
            total += part.sum(0, dtype=wide)
            low, high = torch.minimum(low, part.amin(0)), torch.maximum(high, part.amax(0))
        return total / len(self), low, high

    def tensor(self) -> Tensor:
        """All of them in memory."""
        return self.read(slice(0, len(self)))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(arrays.to_numpy(self.tensor()), dtype=dtype)

    def rows(self, index: np.ndarray) -> "Rows":
        return _Chosen(self, index)

    def columns(self, index: Tensor) -> "Rows":
        return _Columns(self, index)

    def standardised(self, mean: Tensor, spread: Tensor) -> "Rows":
        """(x - mean) / spread in float32, and 0 where the spread is 0."""
        return _Standardised(self, mean, torch.where(spread > 0, 1 / spread, 0))


def rows_of(values: Any, name: str = "x") -> Rows:
    """Features [N, D] of any kind: arrays, memory maps, columns of stored outputs, and tensors where they lie.

    A device without float64 and eigenvectors (Apple's) hands its rows to the host.
    """
    if isinstance(values, Rows):
        return values
    if not isinstance(values, Column):
        x = arrays.tensor(values, name)
        values = Column([values if is_mapped(values) else x.cpu() if x.device.type == "mps" else x])
    if values.ndim != 2 or 0 in values.shape:
        raise InputError(f"{name}: expected shape [N, D] with at least one row and column, found {list(values.shape)}")
    return _Stored(values)


def beside(parts: Sequence[Rows]) -> Rows:
    """The columns of all parts, whose rows are of the same examples."""
    return parts[0] if len(parts) == 1 else _Beside(parts)


def below(first: Rows, second: Rows) -> Rows:
    """The rows of both, which are equally wide, in the precision of the first."""
    return _Below(first, second)


def spans(rows: int, size: int) -> Iterator[slice]:
    """Consecutive slices of at most `size` rows."""
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))


class _Stored(Rows):
    def __init__(self, column: Column) -> None:
        first = arrays.tensor(column[:1], "x")
        wide = torch.float64 if first.dtype == torch.float64 else torch.float32
        super().__init__((column.shape[0], column.shape[1]), wide, first.device)
        self.column, self.mapped = column, any(is_mapped(block) for block in column.blocks)

    def read(self, where: Where) -> Tensor:
        rows = self.column[where]
        found = arrays.tensor(rows, "x").to(self.dtype, copy=self.mapped)
        for touched in ([rows] if isinstance(where, slice) else self.column.blocks) if self.mapped else []:
            let_go(touched)
        return found


class _Chosen(Rows):
    def __init__(self, source: Rows, index: np.ndarray) -> None:
        super().__init__((len(index), source.shape[1]), source.dtype, source.device)
        self.source, self.index = source, index

    def read(self, where: Where) -> Tensor:
        return self.source.read(self.index[where])


class _Columns(Rows):
    def __init__(self, source: Rows, index: Tensor) -> None:
        super().__init__((len(source), len(index)), source.dtype, source.device)
        self.source, self.index = source, index.to(source.device)

    def read(self, where: Where) -> Tensor:
        return self.source.read(where)[:, self.index]


class _Standardised(Rows):
    def __init__(self, source: Rows, mean: Tensor, scale: Tensor) -> None:
        super().__init__(source.shape, torch.float32, source.device)
        self.source, self.mean, self.scale = source, mean, scale

    def read(self, where: Where) -> Tensor:
        return ((self.source.read(where).to(self.mean.dtype) - self.mean) * self.scale).float()


class _Beside(Rows):
    def __init__(self, parts: Sequence[Rows]) -> None:
        wide = torch.float64 if any(part.dtype == torch.float64 for part in parts) else torch.float32
        super().__init__((len(parts[0]), sum(part.shape[1] for part in parts)), wide, parts[0].device)
        self.parts = parts

    def read(self, where: Where) -> Tensor:
        return torch.cat([part.read(where).to(self.device, self.dtype) for part in self.parts], 1)


class _Below(Rows):
    def __init__(self, first: Rows, second: Rows) -> None:
        super().__init__((len(first) + len(second), first.shape[1]), first.dtype, first.device)
        self.first, self.second = first, second

    def read(self, where: Where) -> Tensor:
        at = np.arange(where.start, where.stop) if isinstance(where, slice) else where
        out = torch.empty(len(at), self.shape[1], dtype=self.dtype, device=self.device)
        upper = at < len(self.first)
        out[torch.from_numpy(upper)] = self.first.read(at[upper])
        out[torch.from_numpy(~upper)] = self.second.read(at[~upper] - len(self.first)).to(out)
        return out
