"""Exact nearest neighbours by tiles of inner products: no N x N matrix is held, and a symmetric tile is used twice.

Sorting all similarities would cost as much as the products. Instead each row gets a threshold, estimated from its first tile
such that somewhat more than k of all N columns will pass, and only columns that pass are kept. The estimate affects the
speed, never the result. If more columns pass than there is room for, the threshold is raised to the k-th best so far. A row
that ends with fewer than k columns is searched again in full. The estimate is good when the columns are in random order.
"""

import math
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

TILE = 4096  # rows and columns of a tile, 67 MB of similarities; a multiple of GROUP
SMALL = 4096  # columns that are sorted in full
GROUP = 4  # columns whose maximum is compared with the threshold before the columns themselves


class Candidates:
    """For each row, the columns whose similarity is above the row's threshold."""

    def __init__(self, rows: int, columns: int, k: int, device: torch.device) -> None:
        self.k, self.columns = k, columns
        self.threshold = torch.full((rows, 1), torch.nan, device=device)
        self.count = torch.zeros(rows, dtype=torch.int64, device=device)
        self.overflowed = torch.zeros(rows, dtype=torch.bool, device=device)
        self.room = 3 * k + 32
        self.values = torch.full((rows, self.room), -torch.inf, device=device)
        self.index = torch.zeros(rows, self.room, dtype=torch.int32, device=device)

    def add(self, rows: slice, similarity: Tensor, first: int) -> None:
        """Consider n more training rows as neighbours of some test rows.

        Args:
            rows: the R test rows.
            similarity: [R, n] of each test row with each training row; may be a transposed view.
            first: number of the first of the n training rows.
        """
        group = GROUP if similarity.shape[1] % GROUP == 0 else 1
        width = similarity.shape[1] // group  # column m * width + j is member m of group j
        best = _group_maxima(similarity, group)
        if self.threshold[rows.start].isnan():
            self.threshold[rows] = _nth_largest(best, self._rank(similarity.shape[1]))
        threshold = self.threshold[rows]
        row, inside = (best > threshold).nonzero().unbind(1)
        down, right = similarity.stride()
        starts = (row * down + inside * right)[:, None] + torch.arange(group, device=row.device) * (width * right)
        flat = similarity.as_strided((similarity.numel(),), (1,))  # index_select along memory is much faster than indexing
        members = flat.index_select(0, starts.flatten())
        at = (members.view(-1, group) > threshold.index_select(0, row)).flatten().nonzero()[:, 0]
        hit, member = at // group, at % group
        column = inside.index_select(0, hit) + member * width + first
        self._append(rows, row.index_select(0, hit), column, members.index_select(0, at))

    def _rank(self, seen: int) -> int:
        """Return how many of `seen` columns to let pass.

        About k seen / N of them belong to the k best of all; three standard deviations more make it nearly certain that
        these pass.
        """
        expected = self.k * seen / self.columns
        return math.ceil(expected + 3 * math.sqrt(expected)) + 4

    def _append(self, rows: slice, row: Tensor, column: Tensor, value: Tensor) -> None:
        """Append to the rows' arrays; `row` is ascending. The last slot takes everything that has no room."""
        new = torch.bincount(row, minlength=rows.stop - rows.start)
        if int((self.count[rows] + new).max()) >= self.room:
            self._raise_threshold(rows)
        before = self.count[rows] - (new.cumsum(0) - new)
        slot = torch.arange(len(row), device=row.device) + before.index_select(0, row)
        at = (row + rows.start) * self.room + slot.clamp_(max=self.room - 1)
        self.values.view(-1).index_copy_(0, at, value)
        self.index.view(-1).index_copy_(0, at, column.int())
        self.count[rows] += new
        self.overflowed[rows] |= self.count[rows] >= self.room

    def _raise_threshold(self, rows: slice) -> None:
        """Keep the k best so far of each row: no column below the last of them can be among the k best of all."""
        values, at = self.values[rows].topk(self.k)
        self.index[rows, : self.k] = self.index[rows].gather(1, at)
        self.values[rows, : self.k] = values
        self.values[rows, self.k :] = -torch.inf
        self.threshold[rows] = torch.maximum(self.threshold[rows], values[:, -1:])
        self.count[rows] = self.count[rows].clamp(max=self.k)

    def best(self) -> tuple[Tensor, Tensor]:
        """Return (the k best columns of each row [N, k], best first; the rows [F] for which this is not known)."""
        index = self.index.gather(1, self.values.topk(self.k).indices).long()
        return index, (self.overflowed | (self.count < self.k)).nonzero()[:, 0]


class Products:
    """Tiles of inner products in one buffer: new memory for every tile would take a quarter of the time."""

    def __init__(self, left: Tensor, right: Tensor) -> None:
        self.left, self.right = left, right
        self.buffer = left.new_empty(min(TILE, len(left)) * min(TILE, len(right)))

    def __call__(self, rows: slice, columns: slice) -> Tensor:
        """Return the products of these rows and columns, [R, C], valid until the next call."""
        shape = (rows.stop - rows.start, columns.stop - columns.start)
        out = self.buffer[: shape[0] * shape[1]].view(shape)
        return torch.mm(self.left[rows], self.right[columns].T, out=out)


def nearest(queries: Tensor, base: Tensor, k: int) -> Tensor:
    """Return the k rows of `base` with the largest inner product with each query, [Q, k], best first."""
    if _is_small(base, k):
        return _search_all(queries, base, k)
    candidates, products = Candidates(len(queries), len(base), k, base.device), Products(queries, base)
    for rows in tiles(len(queries)):
        for columns in tiles(len(base)):
            candidates.add(rows, products(rows, columns), columns.start)
    index, failed = candidates.best()
    index[failed] = _search_all(queries[failed], base, k)
    return index


def nearest_others(left: Tensor, right: Tensor, k: int) -> Tensor:
    """Return the k other rows most similar to each row, [N, k], best first.

    The similarity `left @ right.T` [N, N] must be symmetric, as it is for left = right: only half of it is computed.
    """
    if _is_small(right, k):
        return _search_all(left, right, k, torch.arange(len(right), device=right.device))
    candidates, products = Candidates(len(left), len(right), k, right.device), Products(left, right)
    parts = tiles(len(right))
    for number, rows in enumerate(parts):
        for columns in parts[number:]:
            similarity = products(rows, columns)
            if rows == columns:
                similarity.fill_diagonal_(-torch.inf)
            else:
                candidates.add(columns, similarity.T, rows.start)
            candidates.add(rows, similarity, columns.start)
    index, failed = candidates.best()
    index[failed] = _search_all(left[failed], right, k, failed)
    return index


def nearest_streamed(queries: Tensor, base: Iterable[tuple[slice, Tensor]], k: int, first: int | None = None) -> Tensor:
    """Return the same as `nearest`, [Q, k], in one pass over a base that is too large for memory.

    Args:
        queries: [Q, D].
        base: consecutive (slice, rows) of the base.
        k: the number of rows to return for each query.
        first: if the queries are consecutive rows of the base, the first of these rows. No row is its own neighbour then.
    """
    best = torch.full((len(queries), k), -torch.inf, device=queries.device)
    index = torch.zeros(len(queries), k, dtype=torch.int64, device=queries.device)
    for span, block in base:
        numbers = torch.arange(span.start, span.stop, device=queries.device)
        for rows in tiles(len(queries)):
            similarity = queries[rows] @ block.T
            if first is not None:
                own_column = torch.arange(rows.start, rows.stop, device=queries.device) + first - span.start
                inside = ((own_column >= 0) & (own_column < len(block))).nonzero()[:, 0]
                similarity[inside, own_column[inside]] = -torch.inf
            values, at = similarity.topk(min(k, len(block)))
            both_values, both_index = torch.cat([best[rows], values], 1), torch.cat([index[rows], numbers[at]], 1)
            best[rows], kept = both_values.topk(k)
            index[rows] = both_index.gather(1, kept)
    return index


def tiles(rows: int) -> list[slice]:
    """Return slices of about equal size, at most TILE; all but a last short one have a multiple of GROUP rows."""
    even = rows - rows % GROUP
    size = GROUP * math.ceil(even / GROUP / max(1, math.ceil(even / TILE)))
    ends = [*range(size, even, size), even, rows] if even else [rows]
    return [slice(start, end) for start, end in zip([0, *ends], ends, strict=False) if end > start]


def _is_small(base: Tensor, k: int) -> bool:
    """Return whether there are too few columns to estimate a threshold from, or few enough to sort all of them."""
    return len(base) < max(SMALL, 4 * GROUP * k)


def _search_all(queries: Tensor, base: Tensor, k: int, own_rows: Tensor | None = None) -> Tensor:
    """Return the same as `nearest` by sorting every similarity; each query leaves out its own row, `own_rows` [Q]."""
    parts = [torch.empty(0, k, dtype=torch.int64, device=base.device)]
    for rows in tiles(len(queries)):
        similarity = queries[rows] @ base.T
        if own_rows is not None:
            similarity.scatter_(1, own_rows[rows, None], -torch.inf)
        parts.append(similarity.topk(k).indices)
    return torch.cat(parts)


def _nth_largest(values: Tensor, rank: int) -> Tensor:
    """Return the `rank`-th largest value of each row, [R, 1]."""
    if values.device.type == "cpu" and type(values) is Tensor:
        # NumPy only partitions each row, three times as fast as torch, which sorts the values above.
        return torch.from_numpy(np.partition(values.numpy(), -rank, axis=1)[:, -rank, None])
    return values.topk(rank).values[:, -1:]


def _group_maxima(similarity: Tensor, group: int) -> Tensor:
    """Return the maximum of each group of columns, [R, n / group], reading memory in its order."""
    if similarity.stride(1) == 1:
        return similarity.unflatten(1, (group, -1)).amax(1)
    return similarity.T.unflatten(0, (group, -1)).amax(0).T.contiguous()
