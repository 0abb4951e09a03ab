"""Activations as matrices: one row per example, whatever the shape of the layer, checked once and centred without loss."""

import math
from collections.abc import Iterator
from typing import Any

import torch

from zoo.core import arrays
from zoo.core.columns import Column
from zoo.core.mapped import is_mapped, let_go
from zoo.errors import InputError

# Rows read at a time: a float32 sum this long is still good to six digits, and longer ones go on in float64.
CHUNK = 4096


def matrix(values: Any, name: str = "x") -> torch.Tensor:
    """`values` [N, ...] as floating [N, D]; convolutional maps are flattened across channels and positions.

    Half precision and whole numbers become float32, so that a square neither overflows nor wraps round.
    """
    x = arrays.tensor(values, name)
    if x.ndim < 2:
        raise InputError(f"{name}: expected activations of shape [N, D] or [N, ...], found {list(x.shape)}")
    if 0 in x.shape:
        raise InputError(f"{name}: expected at least one row and one feature, found shape {list(x.shape)}")
    return (x if x.dtype in (torch.float32, torch.float64) else x.float()).flatten(1)


def same_rows(first: torch.Tensor, other: torch.Tensor, names: tuple[str, str]) -> None:
    """An error unless the two describe the same number of examples."""
    if len(first) != len(other):
        raise InputError(
            f"{names[0]} has {len(first)} rows and {names[1]} has {len(other)}; expected the same examples in both"
        )


def row_norms(x: torch.Tensor, name: str, first_row: int = 0, centre: torch.Tensor | None = None) -> torch.Tensor:
    """Euclidean norms [N] of x, or of x - `centre`; an error names the first row, from `first_row`, that is not finite.

    A measure that needs the norms anyway has looked for bad rows without a further pass over the activations.
    """
    norms = torch.linalg.vector_norm(x, dim=1) if centre is None else _distances(x, centre.to(x.dtype))
    bad = ~torch.isfinite(norms)
    if bad.any():
        row = first_row + int(bad.nonzero()[0])
        raise InputError(
            f"{name}: row {row} has NaN, an infinity or values too large to square ({int(bad.sum())} such rows)"
        )
    return norms


def nonzero_norms(x: torch.Tensor, name: str, first_row: int = 0, centre: torch.Tensor | None = None) -> torch.Tensor:
    """`row_norms` where a row of zeros, which has no direction, is an error too."""
    norms = row_norms(x, name, first_row, centre)
    zero = norms == 0
    if zero.any():
        row = first_row + int(zero.nonzero()[0])
        what = "a zero vector" if centre is None else "the mean itself"
        raise InputError(
            f"{name}: row {row} is {what} ({int(zero.sum())} such rows), which has no cosine similarity; "
            "leave such rows out or use a Euclidean measure"
        )
    return norms


def unit_rows(x: torch.Tensor, name: str, first_row: int = 0) -> torch.Tensor:
    """Rows divided by their norms; a zero row has no direction and is an error that names it."""
    return x / nonzero_norms(x, name, first_row)[:, None]


def _distances(x: torch.Tensor, centre: torch.Tensor) -> torch.Tensor:
    """||x - centre|| through one buffer small enough to stay in the cache, so that it costs no more than the norms of x."""
    buffer = torch.empty(min(256, len(x)), x.shape[1], dtype=x.dtype, device=x.device)
    norms = torch.empty(len(x), dtype=x.dtype, device=x.device)
    for start, part in chunks(x, len(buffer)):
        difference = torch.sub(part, centre, out=buffer[: len(part)])
        torch.linalg.vector_norm(difference, dim=1, out=norms[start : start + len(part)])
    return norms


def chunks(x: torch.Tensor, rows: int = CHUNK) -> Iterator[tuple[int, torch.Tensor]]:
    """Consecutive (first row, rows) views of at most `rows` rows."""
    for start in range(0, len(x), rows):
        yield start, x[start : start + rows]


def column_means(x: torch.Tensor, name: str = "x", first_row: int = 0) -> torch.Tensor:
    """[D] float64, of [N, D]. A row, counted from `first_row`, that is not finite is an error.

    A product with ones reads x twice as fast as a sum does, and over no more than 256 rows it is as exact.
    """
    ones = torch.ones(256, dtype=x.dtype, device=x.device)
    whole = len(x) - len(x) % len(ones)
    total = (
        (ones @ x[:whole].unflatten(0, (-1, len(ones)))).sum(0, dtype=arrays.accumulation_dtype(x.device)) if whole else 0.0
    )
    total = total + (ones[: len(x) - whole] @ x[whole:]).to(arrays.accumulation_dtype(x.device))
    if not total.isfinite().all():
        row_norms(x, name, first_row)
    return total / len(x)


class Batches:
    """Activations [N, ...] as matrices [n, D]: all at once, or in batches where a file holds them or they are widened.

    Half precision grows to twice its size when it is computed with, and pages of a mapped file count as memory once they
    are touched; neither is needed of more than a batch.
    """

    NUMBERS = 2**23  # of a batch

    def __init__(self, values: Any, name: str = "x") -> None:
        self.name, self.column = name, values if isinstance(values, Column) else None
        if self.column is None:
            x = arrays.tensor(values, name)
            if is_mapped(values):
                self.column = Column([values])
            elif x.ndim > 1 and x.dtype in (torch.float16, torch.bfloat16):
                self.column = Column([x])
            else:
                self.whole = matrix(x, name)

    def __len__(self) -> int:
        return len(self.whole if self.column is None else self.column)

    def __iter__(self) -> Iterator[tuple[slice, torch.Tensor]]:
        if self.column is None:
            yield slice(0, len(self.whole)), self.whole
            return
        width = max(1, math.prod(self.column.shape[1:]))
        for span, part in self.column.chunks(max(CHUNK, self.NUMBERS // width)):
            yield span, matrix(part, self.name)
            let_go(part)

    def means(self) -> torch.Tensor:
        """[D] float64, of each column."""
        totals = [len(rows) * column_means(rows, self.name, span.start) for span, rows in self]
        return torch.stack(totals).sum(0) / len(self)


def minus(x: torch.Tensor, centre: torch.Tensor) -> torch.Tensor:
    """`x - centre` in the dtype of x, for a float64 `centre` [D].

    The centre is taken off in two parts, its value in x's own dtype and then what that rounding left, so that the column
    sums vanish to the precision of the *differences*, however far from zero the activations lie.
    """
    coarse = centre.to(x.dtype)
    return (x - coarse).sub_((centre - coarse).to(x.dtype))
