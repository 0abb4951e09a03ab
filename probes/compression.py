"""Compression by diversity (Gontijo-Lopes et al. 2022, 4.6): how few dimensions of several models reach an accuracy."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from probes._rows import Features, Rows, Values, hstack
from probes.concatenation import split_features
from probes.linear import LinearProbe
from zoo.core import arrays
from zoo.core.checks import whole_number
from zoo.errors import InputError

# The paper ranks dimensions "of highest to lowest covariance" and takes the most diverse first. That can mean the covariance
# with the other dimensions, lowest first, or a dimension's variance, highest first.
Order = Literal["least-redundant", "most-redundant", "variance"]


@dataclass(frozen=True)
class Compression:
    """The accuracy of linear probes on a growing number of ranked dimensions.

    Attributes:
        frame: one row per probe: `dimensions`, `accuracy`.
        order: one row per dimension, in the order in which they are added: its `index` in the concatenation, its `model`,
            its `dimension` there, its `redundancy` and its `variance`.
        target: the accuracy to reach.
    """

    frame: pd.DataFrame
    order: pd.DataFrame
    target: float

    @property
    def dimensions(self) -> int | None:
        """The smallest number of dimensions that reaches the target; None if none does."""
        enough = self.frame.dimensions[self.frame.accuracy >= self.target]
        return int(enough.min()) if len(enough) else None

    def to_dict(self) -> dict[str, Any]:
        """Return plain lists and numbers, for JSON."""
        return {
            "target": self.target,
            "dimensions": self.dimensions,
            "frame": self.frame.to_dict("records"),
            "order": self.order.to_dict("list"),
        }


def compress(
    features: Mapping[str, Features],
    labels: Values,
    multiples: int = 256,
    target: float = 0.76,
    test: tuple[Mapping[str, Features], Values] | None = None,
    order: Order = "least-redundant",
    seed: int = 0,
    **probe_options: Any,
) -> Compression:
    """Rank the standardised dimensions of several models by `redundancy`, and probe a growing number of them.

    Args:
        features: embeddings [N, D] by model name.
        labels: [N] labels of any type.
        multiples: the step between numbers of dimensions. The last probe has all dimensions.
        target: the accuracy to reach.
        test: (embeddings by model name, labels) to score on; default: a fifth of each class, which neither the ranking nor
            the probe sees.
        order: which dimensions come first: "least-redundant", "most-redundant" or "variance" (highest variance before
            standardisation). Constant dimensions come last in every order.
        seed: the seed of the split on which the probe chooses its strength.
        probe_options: further options of `LinearProbe`.

    >>> y = np.arange(40) % 2
    >>> a = np.stack([y, y, np.zeros(40)], 1) + 0.1 * np.random.default_rng(0).normal(size=(40, 3))
    >>> result = compress({"a": a, "b": np.ones((40, 1))}, y, multiples=3, target=0.9, strengths=[0.1, 1])
    >>> result.dimensions, result.frame.dimensions.tolist()
    (3, [3, 4])
    >>> result.order[["model", "dimension"]].values.tolist()[::3]
    [['a', 2], ['b', 0]]
    """
    whole_number(multiples, "multiples")
    if not 0 <= target <= 1:
        raise InputError(argument="target", expected="an accuracy from 0 to 1", found=target)
    if order not in get_args(Order):
        raise InputError(argument="order", expected=f"one of {', '.join(get_args(Order))}", found=order)
    split = split_features(features, labels, test)
    ranking = _rank(split.train, order)
    train, held_out = split.standardised().side_by_side(list(features))
    index = torch.from_numpy(ranking["index"].to_numpy().copy())
    table = []
    for width in [*range(multiples, len(index), multiples), len(index)]:
        probe = LinearProbe(**{"seed": seed, **probe_options}).fit(train.columns(index[:width]), split.labels)
        table.append((width, probe.score(held_out.columns(index[:width]), split.test_labels)))
    return Compression(pd.DataFrame(table, columns=["dimensions", "accuracy"]), ranking, float(target))


def redundancy(rows: Rows, mean: Tensor, deviation: Tensor) -> Tensor:
    """Return the total absolute correlation of each dimension with all others: [D], sum over j != i of |corr_ij|.

    Rows are read in blocks, with float32 products and float64 sums. A constant dimension correlates with no other.

    Args:
        rows: [N, D] embeddings.
        mean, deviation: [D] each, `rows.moments()`.

    >>> from probes._rows import rows_of
    >>> rows = rows_of(np.array([[1.0, -2.0, 0.0], [2.0, -4.0, 0.0], [3.0, -6.0, 0.0]]))
    >>> redundancy(rows, *rows.moments()).numpy().round(4).tolist()
    [1.0, 1.0, 0.0]
    """
    width = rows.shape[1]
    covariance = torch.zeros(width, width, dtype=mean.dtype, device=rows.device)
    for _, block in rows.standardised(mean, deviation).blocks():
        covariance += block.T @ block
    covariance /= len(rows)
    return covariance.abs_().fill_diagonal_(0).sum(1)


def _rank(features: Mapping[str, Rows], order: Order) -> pd.DataFrame:
    """Return every dimension of the concatenation, in the order in which they are added."""
    rows = hstack(list(features.values()))
    mean, deviation = rows.moments()
    values, constant = arrays.to_numpy(redundancy(rows, mean, deviation)), arrays.to_numpy(deviation == 0)
    # Copies of a dimension are equally redundant up to the rounding of products. Rounded, they tie and keep their order.
    keys = np.round(values, 4)
    variance = arrays.to_numpy(deviation).astype(float) ** 2
    index = np.lexsort(({"least-redundant": keys, "most-redundant": -keys, "variance": -variance}[order], constant))
    widths = {name: part.shape[1] for name, part in features.items()}
    return pd.DataFrame(
        {
            "index": index,
            "model": np.repeat(list(widths), list(widths.values()))[index],
            "dimension": np.concatenate([np.arange(width) for width in widths.values()])[index],
            "redundancy": values[index],
            "variance": variance[index],
        }
    )
