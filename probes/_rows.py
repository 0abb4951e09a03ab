"""Features [N, D] that may be larger than memory: rows are read a block at a time, from wherever they are stored.

`Rows` reads a `zoo.core.columns.Column` and converts, selects, standardises or joins its rows as they are read. Nothing is
computed before a block is read.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from zoo.core import arrays
from zoo.core.columns import Column
from zoo.core.mapped import is_mapped, let_go
from zoo.errors import InputError

BLOCK = 2**22  # numbers read at a time, 16 MB in float32
Where: TypeAlias = slice | np.ndarray  # a slice with both ends and step 1, or row numbers


class Rows:
    """Features [N, D] in float32 or float64, read when they are needed.

    Args:
        read: returns the rows at a slice (both ends given, step 1) or at row numbers. The result may share memory with the
            source and must not be written to.
        shape: (N, D).
        dtype: the dtype of the rows that `read` returns.
        device: the device of the rows that `read` returns.
        source_width: numbers that are read for each row, if more than D.
    """

    def __init__(
        self,
        read: Callable[[Where], Tensor],
        shape: tuple[int, int],
        dtype: torch.dtype,
        device: torch.device,
        source_width: int = 0,
    ) -> None:
        self.read, self.shape, self.dtype, self.device = read, shape, dtype, device
        self.source_width = max(shape[1], source_width)

    def __len__(self) -> int:
        return self.shape[0]

    def blocks(self) -> Iterator[tuple[slice, Tensor]]:
        """Yield consecutive (slice, rows), each read from at most BLOCK numbers."""
        for span in spans(len(self), max(1, BLOCK // self.source_width)):
            yield span, self.read(span)

    def tensor(self) -> Tensor:
        """Return all rows in memory."""
        out = torch.empty(self.shape, dtype=self.dtype, device=self.device)
        for span, block in self.blocks():
            out[span] = block
        return out

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.array(arrays.to_numpy(self.tensor()), dtype=dtype)

    def extent(self) -> tuple[Tensor, Tensor, Tensor]:
        """Return (mean, minimum, maximum) of each column, each [D] in the device's accumulation type."""
        wide = arrays.accumulation_dtype(self.device)
        total = torch.zeros(self.shape[1], dtype=wide, device=self.device)
        low, high = torch.full_like(total, torch.inf), torch.full_like(total, -torch.inf)
        for _, block in self.blocks():
            total += block.sum(0, dtype=wide)
            low, high = torch.minimum(low, block.amin(0)), torch.maximum(high, block.amax(0))
        return total / len(self), low, high

    def moments(self) -> tuple[Tensor, Tensor]:
        """Return (mean, standard deviation) of each column, each [D]; the deviation of a constant column is exactly 0."""
        mean, low, high = self.extent()
        squares = torch.stack([(block.to(mean.dtype) - mean).square().sum(0) for _, block in self.blocks()]).sum(0)
        # The mean of equal numbers may be rounded, which would leave a deviation of pure rounding error.
        return mean, torch.where(high == low, 0, (squares / len(self)).sqrt())

    def rows(self, index: np.ndarray) -> "Rows":
        """Return the rows at these row numbers."""
        read = partial(_read_selected, self.read, index)
        return Rows(read, (len(index), self.shape[1]), self.dtype, self.device, self.source_width)

    def columns(self, index: Tensor) -> "Rows":
        """Return the columns at these column numbers."""
        index = index.to(self.device)
        return self.map(lambda block: block[:, index], len(index))

    def standardised(self, mean: Tensor, deviation: Tensor) -> "Rows":
        """Return (rows - mean) / deviation in float32, with 0 in constant columns."""
        scale = torch.where(deviation > 0, 1 / deviation, 0)
        return self.map(lambda block: ((block.to(mean.dtype) - mean) * scale).float(), dtype=torch.float32)

    def map(
        self, function: Callable[[Tensor], Tensor], width: int | None = None, dtype: torch.dtype | None = None
    ) -> "Rows":
        """Return rows that `function` computes from each block; it may change their width and dtype."""
        read = partial(_read_mapped, self.read, function)
        shape = (len(self), self.shape[1] if width is None else width)
        return Rows(read, shape, dtype or self.dtype, self.device, self.source_width)


Values: TypeAlias = ArrayLike | Tensor
Features: TypeAlias = Values | Column | Rows  # [N, D]


def rows_of(values: Features, argument: str = "X") -> Rows:
    """Return features [N, D] as `Rows`, without a copy: arrays, memory maps, columns of stored outputs, or tensors.

    Tensors stay on their device, except on Apple's, which has neither float64 nor eigenvectors: these move to the CPU.

    Args:
        values: [N, D].
        argument: the name of the values in error messages.
    """
    if isinstance(values, Rows):
        return values
    if not isinstance(values, Column):
        x = arrays.tensor(values, argument)
        values = Column([np.asarray(values) if is_mapped(values) else x.cpu() if x.device.type == "mps" else x])
    if values.ndim != 2 or 0 in values.shape:
        expected = "of shape [N, D] with at least one row and one column"
        raise InputError(argument=argument, expected=expected, found=list(values.shape))
    first = arrays.tensor(values[:1], argument)
    dtype = torch.float64 if first.dtype == torch.float64 else torch.float32
    mapped = any(is_mapped(block) for block in values.blocks)
    return Rows(partial(_read_column, values, dtype, mapped), (len(values), values.shape[1]), dtype, first.device)


def hstack(parts: Sequence[Rows]) -> Rows:
    """Return the columns of several features of the same examples side by side."""
    if len(parts) == 1:
        return parts[0]
    dtype = torch.float64 if any(part.dtype == torch.float64 for part in parts) else torch.float32
    device = parts[0].device

    def read(where: Where) -> Tensor:
        return torch.cat([part.read(where).to(device, dtype) for part in parts], 1)

    shape = (len(parts[0]), sum(part.shape[1] for part in parts))
    return Rows(read, shape, dtype, device, sum(part.source_width for part in parts))


def vstack(first: Rows, second: Rows) -> Rows:
    """Return the rows of both, in the precision and on the device of the first."""

    def read(where: Where) -> Tensor:
        index = np.arange(where.start, where.stop) if isinstance(where, slice) else where
        out = torch.empty(len(index), first.shape[1], dtype=first.dtype, device=first.device)
        in_first = index < len(first)
        out[torch.from_numpy(in_first)] = first.read(index[in_first])
        out[torch.from_numpy(~in_first)] = second.read(index[~in_first] - len(first)).to(out)
        return out

    shape = (len(first) + len(second), first.shape[1])
    return Rows(read, shape, first.dtype, first.device, max(first.source_width, second.source_width))


def spans(rows: int, size: int) -> Iterator[slice]:
    """Yield consecutive slices of at most `size` rows."""
    for start in range(0, rows, size):
        yield slice(start, min(start + size, rows))


# Module-level functions rather than closures, so that an estimator that keeps its training rows can be pickled.
def _read_column(column: Column, dtype: torch.dtype, mapped: bool, where: Where) -> Tensor:
    rows = column[where]
    values = arrays.tensor(rows, "X").to(dtype, copy=mapped)
    for touched in ([rows] if isinstance(where, slice) else column.blocks) if mapped else []:
        let_go(touched)
    return values


def _read_selected(read: Callable[[Where], Tensor], index: np.ndarray, where: Where) -> Tensor:
    return read(index[where])


def _read_mapped(read: Callable[[Where], Tensor], function: Callable[[Tensor], Tensor], where: Where) -> Tensor:
    return function(read(where))
