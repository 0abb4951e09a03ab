"""Activations as matrices with one row per example: shape checks, norms, column means, and reading in batches."""

import math
from collections.abc import Iterator
from typing import Any

import torch

from zoo.core import arrays
from zoo.core.columns import Column
from zoo.core.mapped import is_mapped, let_go
from zoo.errors import InputError

# Rows read at a time. A float32 sum over this many rows has six correct digits; longer sums continue in float64.
CHUNK = 4096


def matrix(values: Any, name: str = "x") -> torch.Tensor:
    """Return activations [N, ...] as a floating-point matrix [N, D]; convolutional maps are flattened.

    Half precision and integers become float32, so that squares do not overflow.
    """
    x = arrays.tensor(values, name)
    if x.ndim < 2:
        raise InputError(where=name, expected="activations of shape [N, D] or [N, ...]", found=list(x.shape))
    if 0 in x.shape:
        raise InputError(where=name, expected="at least one row and one feature", found=list(x.shape))
    return (x if x.dtype in (torch.float32, torch.float64) else x.float()).flatten(1)


def check_same_rows(first: torch.Tensor, other: torch.Tensor, names: tuple[str, str]) -> None:
    """Raise an error unless two matrices have the same number of rows."""
    if len(first) != len(other):
        raise InputError(
            f"{len(first)} rows and {len(other)} rows; both must hold the same examples", where=f"{names[0]} and {names[1]}"
        )


def row_norms(x: torch.Tensor, name: str, first_row: int = 0, centre: torch.Tensor | None = None) -> torch.Tensor:
    """Return the Euclidean norms [N] of the rows of `x`, or raise an error for a row that is not finite.

    The norms also serve as the check for NaN and infinity, which then costs no extra pass over the activations.

    Args:
        x: [N, D].
        name: the name of `x` in error messages.
        first_row: the number of the first row in error messages.
        centre: [D], subtracted from every row first.
    """
    norms = torch.linalg.vector_norm(x, dim=1) if centre is None else _distances(x, centre.to(x.dtype))
    bad = ~torch.isfinite(norms)
    if bad.any():
        row = first_row + int(bad.nonzero()[0])
        raise InputError(
            f"has NaN, an infinity or values too large to square ({int(bad.sum())} such rows)", where=f"{name}: row {row}"
        )
    return norms


def nonzero_norms(x: torch.Tensor, name: str, first_row: int = 0, centre: torch.Tensor | None = None) -> torch.Tensor:
    """Return `row_norms`, or raise an error for a row of norm 0, which has no direction."""
    norms = row_norms(x, name, first_row, centre)
    zero = norms == 0
    if zero.any():
        row = first_row + int(zero.nonzero()[0])
        what = "is a zero vector" if centre is None else "equals the mean"
        raise InputError(
            f"{what} and has no cosine similarity ({int(zero.sum())} such rows)",
            where=f"{name}: row {row}",
            hint="Remove these rows, or use a Euclidean measure",
        )
    return norms


def unit_rows(x: torch.Tensor, name: str, first_row: int = 0) -> torch.Tensor:
    """Return the rows divided by their norms, or raise an error for a row of zeros."""
    return x / nonzero_norms(x, name, first_row)[:, None]


def _distances(x: torch.Tensor, centre: torch.Tensor) -> torch.Tensor:
    """Return ||x - centre|| for each row, through one buffer that stays in the cache: as fast as the norms of x."""
    buffer = torch.empty(min(256, len(x)), x.shape[1], dtype=x.dtype, device=x.device)
    norms = torch.empty(len(x), dtype=x.dtype, device=x.device)
    for start, part in chunks(x, len(buffer)):
        difference = torch.sub(part, centre, out=buffer[: len(part)])
        torch.linalg.vector_norm(difference, dim=1, out=norms[start : start + len(part)])
    return norms


def chunks(x: torch.Tensor, rows: int = CHUNK) -> Iterator[tuple[int, torch.Tensor]]:
    """Yield (number of the first row, view of at most `rows` rows), in order."""
    for start in range(0, len(x), rows):
        yield start, x[start : start + rows]


def column_means(x: torch.Tensor, name: str = "x", first_row: int = 0) -> torch.Tensor:
    """Return the column means [D] of [N, D] in float64, or raise an error for a row that is not finite.

    A product with ones reads x twice as fast as a sum, and over at most 256 rows it is as exact.
    """
    wide = arrays.accumulation_dtype(x.device)
    ones = torch.ones(256, dtype=x.dtype, device=x.device)
    full = len(x) - len(x) % len(ones)
    total = (ones[: len(x) - full] @ x[full:]).to(wide)
    if full:
        total = (ones @ x[:full].unflatten(0, (-1, len(ones)))).sum(0, dtype=wide) + total
    if not total.isfinite().all():
        row_norms(x, name, first_row)
    return total / len(x)


class Batches:
    """Activations [N, ...] as matrices [n, D], read in batches if they are memory-mapped or in half precision.

    A batch bounds the memory in use: half precision doubles in size when it becomes float32, and pages of a mapped file
    count as memory once they are read.
    """

    NUMBERS = 2**23  # values per batch

    def __init__(self, values: Any, name: str = "x") -> None:
        self.name, self.column = name, values if isinstance(values, Column) else None
        if self.column is None:
            x = arrays.tensor(values, name)
            if is_mapped(values):
                self.column = Column([values])
            elif x.ndim > 1 and x.dtype in (torch.float16, torch.bfloat16):
                self.column = Column([x])
            else:
                self.in_memory = matrix(x, name)

    def __len__(self) -> int:
        return len(self.in_memory if self.column is None else self.column)

    def __iter__(self) -> Iterator[tuple[slice, torch.Tensor]]:
        if self.column is None:
            yield slice(0, len(self.in_memory)), self.in_memory
            return
        width = max(1, math.prod(self.column.shape[1:]))
        for span, part in self.column.chunks(max(CHUNK, self.NUMBERS // width)):
            yield span, matrix(part, self.name)
            let_go(part)

    def means(self) -> torch.Tensor:
        """Return the column means [D] in float64."""
        totals = [len(rows) * column_means(rows, self.name, span.start) for span, rows in self]
        return torch.stack(totals).sum(0) / len(self)


def minus(x: torch.Tensor, centre: torch.Tensor) -> torch.Tensor:
    """Return `x - centre` in the dtype of x, for a float64 `centre` [D].

    The centre is subtracted in two parts: its value rounded to x's dtype, then the rounding error. The column sums of the
    result are then zero to the precision of the *differences*, however far from zero the activations are.
    """
    coarse = centre.to(x.dtype)
    return (x - coarse).sub_((centre - coarse).to(x.dtype))
