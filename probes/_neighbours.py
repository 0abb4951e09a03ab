"""Exact nearest neighbours by tiles of inner products: nothing of size N x N is held, and a symmetric tile is used twice.

Selecting the k best of N costs as much as the products if every similarity is sorted. Here each row gets a bar, guessed from
the first tile it sees such that somewhat more than k of all N will pass it, and only what passes is kept. The guess decides
how fast this is, never what comes out: where more pass than there is room for, the bar is raised to the k-th best so far; a
row that ends with fewer than k is searched again in full. It is a good guess when the columns come in random order.
"""

import math
from collections.abc import Iterable

import numpy as np
import torch
from torch import Tensor

TILE = 4096  # rows and columns of a tile, 67 MB of similarities; a multiple of GROUP
SMALL = 4096  # columns that are sorted in full
GROUP = 4  # columns whose maximum is compared with the bar before they are


class Passed:
    """For each row, the columns whose similarity passed the row's bar."""

    def __init__(self, rows: int, columns: int, k: int, device: torch.device) -> None:
        self.k, self.columns = k, columns
        self.bar = torch.full((rows, 1), torch.nan, device=device)
        self.count = torch.zeros(rows, dtype=torch.int64, device=device)
        self.lost = torch.zeros(rows, dtype=torch.bool, device=device)  # whether there was no room in spite of all
        self.room = 3 * k + 32
        self.values = torch.full((rows, self.room), -torch.inf, device=device)
        self.index = torch.zeros(rows, self.room, dtype=torch.int32, device=device)

    def look(self, rows: slice, similarity: Tensor, first: int) -> None:
        """Show `similarity` [R, n] of these rows with the columns `first`, `first` + 1, …; it may be a transposed view."""
        group = GROUP if similarity.shape[1] % GROUP == 0 else 1
        width = similarity.shape[1] // group  # column m * width + j is member m of group j
        best = _group_maxima(similarity, group)
        if self.bar[rows.start].isnan():
            self.bar[rows] = _from_the_top(best, self._rank(similarity.shape[1]))
        bar = self.bar[rows]
        row, inside = (best > bar).nonzero().unbind(1)
        down, right = similarity.stride()
        starts = (row * down + inside * right)[:, None] + torch.arange(group, device=row.device) * (width * right)
        flat = similarity.as_strided((similarity.numel(),), (1,))  # index_select along memory, several times faster than [ ]
        members = flat.index_select(0, starts.flatten())
        at = (members.view(-1, group) > bar.index_select(0, row)).flatten().nonzero()[:, 0]
        hit, member = at // group, at % group
        column = inside.index_select(0, hit) + member * width + first
        self._keep(rows, row.index_select(0, hit), column, members.index_select(0, at))

    def _rank(self, seen: int) -> int:
        """Of `seen` columns about k seen / N belong to the k best of all; 3 standard deviations more make nearly sure."""
        share = self.k * seen / self.columns
        return math.ceil(share + 3 * math.sqrt(share)) + 4

    def _keep(self, rows: slice, row: Tensor, column: Tensor, value: Tensor) -> None:
        """Append to the rows' arrays, whose last slot takes what there is no room for; `row` is ascending."""
        new = torch.bincount(row, minlength=rows.stop - rows.start)
        if int((self.count[rows] + new).max()) >= self.room:
            self._raise_bar(rows)
        before = self.count[rows] - (new.cumsum(0) - new)
        slot = torch.arange(len(row), device=row.device) + before.index_select(0, row)
        at = (row + rows.start) * self.room + slot.clamp_(max=self.room - 1)
        self.values.view(-1).index_copy_(0, at, value)
        self.index.view(-1).index_copy_(0, at, column.int())
        self.count[rows] += new
        self.lost[rows] |= self.count[rows] >= self.room

    def _raise_bar(self, rows: slice) -> None:
        """Keep the k best so far of each row; nothing below the last of them can be among the k best of all."""
        values, at = self.values[rows].topk(self.k)
        self.index[rows, : self.k] = self.index[rows].gather(1, at)
        self.values[rows, : self.k] = values
        self.values[rows, self.k :] = -torch.inf
        self.bar[rows] = torch.maximum(self.bar[rows], values[:, -1:])
        self.count[rows] = self.count[rows].clamp(max=self.k)

    def best(self) -> tuple[Tensor, Tensor]:
        """([N, k] the best columns of each row, best first; [F] the rows for which that cannot be told)."""
        index = self.index.gather(1, self.values.topk(self.k).indices).long()
        return index, (self.lost | (self.count < self.k)).nonzero()[:, 0]


class Products:
    """Tiles of inner products in one piece of memory: to be given new pages each time would cost a quarter of the time."""

    def __init__(self, left: Tensor, right: Tensor) -> None:
        self.left, self.right = left, right
        self.tile = left.new_empty(min(TILE, len(left)) * min(TILE, len(right)))

    def __call__(self, rows: slice, columns: slice) -> Tensor:
        """[R, C] the products of these rows and columns, until the next call."""
        shape = (rows.stop - rows.start, columns.stop - columns.start)
        out = self.tile[: shape[0] * shape[1]].view(shape)
        return torch.mm(self.left[rows], self.right[columns].T, out=out)


def nearest(queries: Tensor, base: Tensor, k: int) -> Tensor:
    """[Q, k] the rows of `base` with the largest inner product with each query, best first."""
    if _is_small(base, k):
        return _search_in_full(queries, base, k)
    passed, products = Passed(len(queries), len(base), k, base.device), Products(queries, base)
    for rows in tiles(len(queries)):
        for columns in tiles(len(base)):
            passed.look(rows, products(rows, columns), columns.start)
    index, failed = passed.best()
    index[failed] = _search_in_full(queries[failed], base, k)
    return index


def nearest_others(left: Tensor, right: Tensor, k: int) -> Tensor:
    """[N, k] for each row the others most similar to it, best first.

    The similarity `left @ right.T` [N, N] must be symmetric, as it is for left = right: only half of it is computed.
    """
    if _is_small(right, k):
        return _search_in_full(left, right, k, torch.arange(len(right), device=right.device))
    passed, products = Passed(len(left), len(right), k, right.device), Products(left, right)
    parts = tiles(len(right))
    for number, rows in enumerate(parts):
        for columns in parts[number:]:
            similarity = products(rows, columns)
            if rows == columns:
                similarity.fill_diagonal_(-torch.inf)
            else:
                passed.look(columns, similarity.T, rows.start)
            passed.look(rows, similarity, columns.start)
    index, failed = passed.best()
    index[failed] = _search_in_full(left[failed], right, k, failed)
    return index


def nearest_streamed(queries: Tensor, base: Iterable[tuple[slice, Tensor]], k: int, own: int | None = None) -> Tensor:
    """[Q, k] as `nearest` finds them, over blocks (rows, their features) of a base too large to hold.

    The best so far are merged with each block as it comes, so one pass in any order will do. `own` is the row of the base
    that the first query is, its followers the next ones; each is left out of its own neighbours.
    """
    best = torch.full((len(queries), k), -torch.inf, device=queries.device)
    index = torch.zeros(len(queries), k, dtype=torch.int64, device=queries.device)
    for span, block in base:
        number = torch.arange(span.start, span.stop, device=queries.device)
        for rows in tiles(len(queries)):
            similarity = queries[rows] @ block.T
            if own is not None:
                mine = torch.arange(rows.start, rows.stop, device=queries.device) + own - span.start
                here = ((mine >= 0) & (mine < len(block))).nonzero()[:, 0]
                similarity[here, mine[here]] = -torch.inf
            values, at = similarity.topk(min(k, len(block)))
            both, places = torch.cat([best[rows], values], 1), torch.cat([index[rows], number[at]], 1)
            best[rows], kept = both.topk(k)
            index[rows] = places.gather(1, kept)
    return index


def tiles(rows: int) -> list[slice]:
    """Slices of about equal size, at most TILE; all but a last short one have a multiple of GROUP rows."""
    even = rows - rows % GROUP
    size = GROUP * math.ceil(even / GROUP / max(1, math.ceil(even / TILE)))
    ends = [*range(size, even, size), even, rows] if even else [rows]
    return [slice(start, end) for start, end in zip([0, *ends], ends, strict=False) if end > start]


def _is_small(base: Tensor, k: int) -> bool:
    """Whether there are too few columns to guess a bar from their groups, or so few that all may as well be sorted."""
    return len(base) < max(SMALL, 4 * GROUP * k)


def _search_in_full(queries: Tensor, base: Tensor, k: int, own: Tensor | None = None) -> Tensor:
    """The same by sorting every similarity; `own` [Q] is each query's own row of `base`, left out."""
    parts = [torch.empty(0, k, dtype=torch.int64, device=base.device)]
    for rows in tiles(len(queries)):
        similarity = queries[rows] @ base.T
        if own is not None:
            similarity.scatter_(1, own[rows, None], -torch.inf)
        parts.append(similarity.topk(k).indices)
    return torch.cat(parts)


def _from_the_top(values: Tensor, rank: int) -> Tensor:
    """[R, 1] the `rank`-th greatest of each row."""
    if values.device.type == "cpu" and type(values) is Tensor:
        # NumPy only divides each row at that place, three times as fast as torch finds and sorts all above it.
        return torch.from_numpy(np.partition(values.numpy(), -rank, axis=1)[:, -rank, None])
    return values.topk(rank).values[:, -1:]


def _group_maxima(similarity: Tensor, group: int) -> Tensor:
    """[R, n / group], along memory as it lies."""
    if similarity.stride(1) == 1:
        return similarity.unflatten(1, (group, -1)).amax(1)
    return similarity.T.unflatten(0, (group, -1)).amax(0).T.contiguous()
