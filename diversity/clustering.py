"""Agglomerative clustering of models by a similarity matrix, as a dendrogram."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from numpy.typing import ArrayLike

from zoo.core import arrays, checks
from zoo.core.arrays import Array
from zoo.errors import InputError

if TYPE_CHECKING:
    import pandas

Method = Literal["average", "single", "complete"]
SYMMETRY_TOLERANCE = 1e-6
_LEFT, _RIGHT, _UP, _DOWN = 1, 2, 4, 8  # directions of the lines of a cell; their sum is the index of its character:
_LINES = " ╴╶─╵┘└┴╷┐┌┬│┤├┼"


@dataclass(frozen=True, eq=False)
class Dendrogram:
    """The tree of merged clusters: SciPy's `linkage` [M - 1, 4], and an order of leaves with similar models side by side."""

    names: tuple[str, ...]
    linkage: np.ndarray
    order: tuple[int, ...]

    @property
    def leaves(self) -> tuple[str, ...]:
        """The names in the order of the leaves."""
        return tuple(self.names[i] for i in self.order)

    def groups(self, count: int) -> dict[str, int]:
        """Return each model's group if the tree is cut into `count` groups, numbered from left to right from 0."""
        from scipy.cluster.hierarchy import fcluster

        if not 1 <= count <= len(self.names):
            raise InputError(argument="count", expected=f"1 to {len(self.names)}", found=count)
        found = fcluster(self.linkage, count, "maxclust")
        number: dict[int, int] = {}
        for leaf in self.order:
            number.setdefault(int(found[leaf]), len(number))
        return {name: number[int(group)] for name, group in zip(self.names, found, strict=True)}

    def segments(self) -> "pandas.DataFrame":
        """Return the tree's line segments x, y, x2, y2. Leaf i of `leaves` is at x = i; y is a distance."""
        import pandas
        from scipy.cluster.hierarchy import dendrogram

        drawn = dendrogram(self.linkage, no_plot=True)
        lines = []
        for x, y in zip(drawn["icoord"], drawn["dcoord"], strict=True):
            x = [(value - 5) / 10 for value in x]  # SciPy puts leaves at 5, 15, 25, ...
            lines += [(x[i], y[i], x[i + 1], y[i + 1]) for i in range(3)]
        return pandas.DataFrame(lines, columns=["x", "y", "x2", "y2"])

    def to_text(self, width: int = 80) -> str:
        """Return the tree as text, one line per model. Clusters merge further right at larger distances.

        >>> print(cluster([[1, 0.9, 0.2], [0.9, 1, 0.3], [0.2, 0.3, 1]], names=["a", "b", "c"]).to_text(width=20))
        c ────────────────┐
        b ──┬─────────────┘
        a ──┘
          0            0.75
        """
        names = [name if len(name) <= width // 2 else name[: width // 2 - 1] + "…" for name in self.leaves]
        margin = max(map(len, names)) + 1
        last = max(width - margin - 2, 1)
        furthest = float(self.linkage[-1, 2])
        cells = np.zeros((len(names), last + 1), int)
        cells[:, 0] |= _LEFT
        ends = {leaf: (row, 0) for row, leaf in enumerate(self.order)}  # where the line of each cluster ends so far
        for number, (a, b, distance, _) in enumerate(self.linkage, len(names)):
            column = round(last * distance / furthest) if furthest > 0 else last
            merged = sorted(ends.pop(int(child)) for child in (a, b))
            for row, start in merged:
                cells[row, start:column] |= _RIGHT
                cells[row, start + 1 : column + 1] |= _LEFT
            (top, _), (bottom, _) = merged
            cells[top:bottom, column] |= _DOWN
            cells[top + 1 : bottom + 1, column] |= _UP
            ends[number] = ((top + bottom) // 2, column)
        drawn = ["".join(_LINES[cell] for cell in row).rstrip() for row in cells]
        scale = "0" + f"{furthest:.3g}".rjust(last)
        return "\n".join([*(f"{n:<{margin}}{d}" for n, d in zip(names, drawn, strict=True)), " " * margin + scale])


def cluster(similarity: ArrayLike | Array, names: Sequence[str] | None = None, method: Method = "average") -> Dendrogram:
    """Return the dendrogram of M models. The distance of two models is 1 - similarity.

    Args:
        similarity: symmetric matrix [M, M] with values of at most 1: agreement, kappa, CKA, ...
        names: [M] names of the models; default: numbers.
        method: distance of two clusters: the `average`, smallest (`single`) or largest (`complete`) of their models'.

    >>> tree = cluster([[1, 0.9, 0.2], [0.9, 1, 0.3], [0.2, 0.3, 1]], names=["a", "b", "c"])
    >>> tree.linkage[:, 2].round(2).tolist(), tree.groups(2)
    ([0.1, 0.75], {'a': 1, 'b': 1, 'c': 0})
    """
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    values = _matrix(similarity)
    names = tuple(str(i) for i in range(len(values))) if names is None else tuple(names)
    if len(names) != len(values):
        raise InputError(argument="names", expected=f"{len(values)} names, one per model", found=len(names))
    if method not in ("average", "single", "complete"):
        raise InputError(argument="method", expected="average, single or complete", found=method)
    for i, j in np.argwhere(~np.isfinite(values)):
        raise InputError(
            f"is {values[i, j]} for {names[i]} and {names[j]}",
            argument="similarity",
            hint="Choose a measure that is defined for every pair",
        )
    if np.abs(values - values.T).max() > SYMMETRY_TOLERANCE:
        raise InputError(
            "is not symmetric", argument="similarity", hint="For a directed measure, pass its mean with its transpose"
        )
    if values.max() > 1 + SYMMETRY_TOLERANCE:
        raise InputError(argument="similarity", expected="at most 1", found=float(values.max()))
    distance = np.maximum(1 - (values + values.T) / 2, 0)
    np.fill_diagonal(distance, 0)
    tree = linkage(squareform(distance, checks=False), method, optimal_ordering=len(values) <= 200)
    return Dendrogram(names, tree, tuple(int(i) for i in leaves_list(tree)))


def _matrix(similarity: Any) -> np.ndarray:
    values = checks.array(similarity, "similarity")
    if values.ndim != 2 or values.shape[0] != values.shape[1] or len(values) < 2:
        raise InputError(argument="similarity", expected="of shape [M, M] for at least two models", found=list(values.shape))
    return arrays.to_numpy(values).astype(np.float64)
