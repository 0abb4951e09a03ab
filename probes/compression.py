"""Compression by diversity ([G] 4.6): how few dimensions of several models' features reach a target accuracy."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from probes._inputs import finite
from probes._rows import Rows, beside, rows_of
from probes.concatenation import Shared, gather, moments
from probes.linear import LinearProbe
from zoo.core import arrays
from zoo.errors import InputError

# The paper ranks dimensions "of highest to lowest covariance" and takes the most diverse first, which can be read as the
# covariance with the others, least first, or as a dimension's own, its variance, greatest first.
Order = Literal["least-redundant", "most-redundant", "variance"]
ORDERS: tuple[Order, ...] = ("least-redundant", "most-redundant", "variance")


@dataclass(frozen=True)
class Compression:
    """The accuracy of a linear probe on ever more of the ranked dimensions.

    `frame`: `dimensions`, `accuracy`. `order`: one row per dimension, the first to be taken first: its `index` in the
    concatenation, its `model`, its `dimension` there, its `redundancy` and its `variance`.
    """

    frame: pd.DataFrame
    order: pd.DataFrame
    target: float

    @property
    def dimensions(self) -> int | None:
        """The fewest dimensions tried that reach the target; None if none do."""
        enough = self.frame.dimensions[self.frame.accuracy >= self.target]
        return int(enough.min()) if len(enough) else None

    def to_dict(self) -> dict[str, Any]:
        """Plain lists and numbers, for JSON."""
        return {
            "target": self.target,
            "dimensions": self.dimensions,
            "frame": self.frame.to_dict("records"),
            "order": self.order.to_dict("list"),
        }


def compress(
    features: Mapping[str, Any],
    y: Any,
    multiples: int = 256,
    target: float = 0.76,
    test: tuple[Mapping[str, Any], Any] | None = None,
    order: Order = "least-redundant",
    seed: int = 0,
    **probe_options: Any,
) -> Compression:
    """Rank the dimensions of the models' concatenated features by `redundancy` and probe at multiples of `multiples`.

    `features` maps a model's name to its embeddings [N, D] of the examples labelled `y` [N]; each dimension is standardised.
    The least redundant come first, or with `order="most-redundant"` the most, or with `order="variance"` those that vary
    most before they are standardised; constant dimensions, which tell nothing, come last in every order. The last step has
    all dimensions, a multiple or not. `test` is (features by name, labels) to score on; without it a fifth of each class is
    held out, which neither the ranking nor the probe sees. `seed` splits off the rows that the probe chooses its strength
    on; it takes further options of `LinearProbe`.

    >>> y = np.arange(40) % 2
    >>> a = np.stack([y, y, np.zeros(40)], 1) + 0.1 * np.random.default_rng(0).normal(size=(40, 3))
    >>> result = compress({"a": a, "b": np.ones((40, 1))}, y, multiples=3, target=0.9, strengths=[0.1, 1])
    >>> result.dimensions, result.frame.dimensions.tolist()
    (3, [3, 4])
    >>> result.order[["model", "dimension"]].values.tolist()[::3]
    [['a', 2], ['b', 0]]
    """
    if multiples != int(multiples) or multiples < 1:
        raise InputError(f"multiples: expected a whole number of dimensions from 1, found {multiples}")
    if not 0 <= target <= 1:
        raise InputError(f"target: expected an accuracy from 0 to 1, found {target}")
    shared = gather(features, y, test)
    ranking = _rank(shared, order)
    shared = shared.standardised()
    taken = torch.from_numpy(ranking["index"].to_numpy().copy())
    fitted, held = (beside(list(side.values())).columns(taken) for side in (shared.x, shared.test_x))
    table = []
    for width in [*range(int(multiples), len(taken), int(multiples)), len(taken)]:
        first = torch.arange(width)
        probe = LinearProbe(**{"seed": seed, **probe_options}).fit(fitted.columns(first), shared.y)
        table.append((width, probe.score(held.columns(first), shared.test_y)))
    return Compression(pd.DataFrame(table, columns=["dimensions", "accuracy"]), ranking, float(target))


def redundancy(x: Any) -> Any:
    """Total absolute covariance [D] of each standardised dimension of x [N, D] with all the others: sum_j!=i |corr_ij|.

    The rows stream through in blocks, float32 products and float64 sums; a constant dimension covaries with nothing.

    >>> redundancy(np.array([[1.0, -2.0, 0.0], [2.0, -4.0, 0.0], [3.0, -6.0, 0.0]])).round(4).tolist()
    [1.0, 1.0, 0.0]
    """
    rows = finite(rows_of(x))
    return arrays.like_input(_redundancy(rows, *moments(rows)), x)


def _redundancy(x: Rows, mean: Tensor, spread: Tensor) -> Tensor:
    width = x.shape[1]
    covariance = torch.zeros(width, width, dtype=mean.dtype, device=x.device)
    for _, values in x.standardised(mean, spread).blocks():
        covariance += values.T @ values
    covariance /= len(x)
    return covariance.abs_().fill_diagonal_(0).sum(1)


def _rank(shared: Shared, order: Order) -> pd.DataFrame:
    """Every dimension of the concatenation, the first to be taken first."""
    if order not in ORDERS:
        raise InputError(f"order: expected one of {', '.join(ORDERS)}, found {order!r}")
    rows = beside(list(shared.x.values()))
    mean, spread = moments(rows)
    values, constant = arrays.to_numpy(_redundancy(rows, mean, spread)), arrays.to_numpy(spread == 0)
    # Copies of a dimension are equally redundant up to the rounding of products: they tie, and ties keep the models' order.
    keys = np.round(values, 4)
    variance = arrays.to_numpy(spread).astype(float) ** 2
    index = np.lexsort(({"least-redundant": keys, "most-redundant": -keys, "variance": -variance}[order], constant))
    widths = {name: x.shape[1] for name, x in shared.x.items()}
    return pd.DataFrame(
        {
            "index": index,
            "model": np.repeat(list(widths), list(widths.values()))[index],
            "dimension": np.concatenate([np.arange(width) for width in widths.values()])[index],
            "redundancy": values[index],
            "variance": variance[index],
        }
    )
