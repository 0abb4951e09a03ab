"""Feature concatenation ([G] 4.6): what a part of one model's features and a part of another's give together."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import torch
from torch import Tensor

from probes._inputs import finite
from probes._rows import Rows, beside, rows_of
from probes.linear import LinearProbe
from zoo.core import arrays
from zoo.core.splits import hold_out
from zoo.errors import InputError, UnknownName

HELD_OUT = 0.2  # of each class, for the score, where no test set is given


@dataclass(frozen=True)
class Shared:
    """Several models' features [N, D] of the same examples: those a probe may see, and those it is scored on."""

    x: dict[str, Rows]
    y: np.ndarray
    test_x: dict[str, Rows]
    test_y: np.ndarray

    def standardised(self) -> "Shared":
        """Every dimension with mean 0 and variance 1 over the rows a probe may see; a constant one becomes 0."""
        rule = {name: moments(x) for name, x in self.x.items()}
        fitted, test = ({name: x.standardised(*rule[name]) for name, x in side.items()} for side in (self.x, self.test_x))
        return replace(self, x=fitted, test_x=test)

    def score(self, columns: Mapping[str, Tensor], **probe_options: Any) -> float:
        """The test score of a linear probe on the columns named of each model, side by side."""
        fitted, test = (
            beside([side[name].columns(part) for name, part in columns.items()]) for side in (self.x, self.test_x)
        )
        return LinearProbe(**probe_options).fit(fitted, self.y).score(test, self.test_y)


def concatenate(
    features: Mapping[str, Any],
    y: Any,
    base: str,
    rates: Sequence[float] = (1, 0.75, 0.5, 0.25, 0),
    seeds: int | Sequence[int] = 3,
    test: tuple[Mapping[str, Any], Any] | None = None,
    validation: float = 0.2,
    standardised: bool = False,
    **probe_options: Any,
) -> pd.DataFrame:
    """Linear probes on a random share `rate` of the base's dimensions with `1 - rate` of each other model's ([G] Fig. 6).

    `features` maps a model's name to its embeddings [N, D] of the examples labelled `y` [N]. With D dimensions of the base
    and E of the other, `rate * D` are drawn from the base and `(1 - rate) * min(D, E)` from the other, rounded so that they
    are never more than D together: a gain cannot come from width. A seed decides the draw, and nothing else. The probe
    chooses its strength on the share `validation` of the rows it sees and takes further options of `LinearProbe`.

    `test` is (features by name, labels) to score on; without it a fifth of each class is held out, the same for all draws.
    Features enter as they are, so rates 1 and 0 are the models' own probes; `standardised` gives each dimension variance 1
    first, for models whose features differ so much in scale that one strength cannot suit both.

    Returns a frame with a row for each other model, rate and seed: `other`, `rate`, `seed`, `dimensions`,
    `base_dimensions`, `other_dimensions`, and `accuracy` on the test examples.

    >>> x, y = np.eye(2).repeat(20, 0), np.arange(2).repeat(20)
    >>> frame = concatenate({"a": x, "b": -x}, y, "a", rates=[1, 0.5], seeds=1, strengths=[0.1, 1])
    >>> frame[["other", "rate", "base_dimensions", "other_dimensions", "accuracy"]].values.tolist()
    [['b', 1.0, 2, 0, 1.0], ['b', 0.5, 1, 1, 1.0]]
    """
    if base not in features:
        raise UnknownName(f"base: {base!r} is not among the models given, {', '.join(map(repr, features))}")
    shares = [_share(rate) for rate in rates]
    draws = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    if not shares or not draws:
        raise InputError(f"expected at least one rate and one seed, found rates {list(rates)} and seeds {seeds}")
    shared = gather(features, y, test)
    shared = shared.standardised() if standardised else shared
    known: dict[Any, float] = {}  # all of the base, or all of the other, is one probe whatever the seed
    table = []
    for other in features:
        if other == base:
            continue
        widths = shared.x[base].shape[1], shared.x[other].shape[1]
        for rate in shares:
            counts = _counts(rate, *widths)
            for seed in draws:
                drawn = _draw(seed, widths, counts)
                columns = {name: part for name, part in zip((base, other), drawn, strict=True) if len(part)}
                key = tuple((name, tuple(part.tolist())) for name, part in columns.items())
                if key not in known:
                    known[key] = shared.score(columns, validation=validation, **probe_options)
                table.append((other, rate, seed, sum(counts), *counts, known[key]))
    names = ["other", "rate", "seed", "dimensions", "base_dimensions", "other_dimensions", "accuracy"]
    return pd.DataFrame(table, columns=names)


def gather(
    features: Mapping[str, Any], y: Any, test: tuple[Mapping[str, Any], Any] | None = None, multilabel: bool = False
) -> Shared:
    """Check that two or more models' features and the labels belong together, and set the test examples apart.

    Labels are [N] of any type, or [N, K] of zeros and ones if `multilabel`. Without `test`, a fifth of each class is held
    out, or a fifth of all rows where examples have several labels.
    """
    if len(features) < 2:
        raise InputError(f"features: expected two or more models, found {len(features)}: {', '.join(map(repr, features))}")
    x, labels = _side(features, y, "", multilabel)
    if test is not None:
        if set(test[0]) != set(features):
            raise InputError(f"test: expected features of {', '.join(features)}, found those of {', '.join(test[0])}")
        test_x, test_labels = _side({name: test[0][name] for name in features}, test[1], "test ", multilabel)
        for name in x:
            if x[name].shape[1] != test_x[name].shape[1]:
                found = f"{x[name].shape[1]} dimensions to fit on and {test_x[name].shape[1]} to test on"
                raise InputError(f"features of {name!r}: expected the same dimensions on both sides, found {found}")
        return Shared(x, labels, test_x, test_labels)
    strata = np.zeros(len(labels), np.int64) if multilabel else np.unique(labels, return_inverse=True)[1]
    kept, held = hold_out(strata, HELD_OUT, seed=0)
    sides = ({name: rows.rows(part) for name, rows in x.items()} for part in (kept, held))
    return Shared(next(sides), labels[kept], next(sides), labels[held])


def moments(x: Rows) -> tuple[Tensor, Tensor]:
    """Mean [D] and standard deviation [D] of the rows of x [N, D], block by block in float64; exactly 0 if constant."""
    mean, low, high = x.extent()
    square = torch.stack([(part.to(mean.dtype) - mean).square().sum(0) for _, part in x.blocks()]).sum(0) / len(x)
    # The mean of equal numbers may round to another, which would leave a spread of pure rounding.
    return mean, torch.where(high == low, 0, square.sqrt())


def _side(features: Mapping[str, Any], y: Any, which: str, multilabel: bool) -> tuple[dict[str, Rows], np.ndarray]:
    labels = arrays.to_numpy(y) if isinstance(y, Tensor) else np.asarray(y)
    if labels.ndim != 1 + multilabel:
        shape = "[N, K] of zeros and ones" if multilabel else "[N]"
        raise InputError(f"{which}labels: expected shape {shape}, found {list(labels.shape)}")
    rows: dict[str, Rows] = {}
    for name, values in features.items():
        called = f"{which}features of {name!r}"
        if isinstance(values, Tensor) and rows:
            values = values.to(next(iter(rows.values())).device)
        x = rows_of(values, called)
        if len(x) != len(labels):
            raise InputError(f"{called}: expected {len(labels)} rows, one per label, found {len(x)}")
        rows[name] = finite(x, called)
    return rows, labels


def _share(rate: float) -> float:
    if not 0 <= rate <= 1:
        raise InputError(f"rates: expected shares from 0 to 1, found {rate}")
    return float(rate)


def _counts(rate: float, base: int, other: int) -> tuple[int, int]:
    """Dimensions from the base and from the other: at least one and at most `base` together."""
    from_base = math.floor(rate * base + 0.5)
    return from_base, min(math.floor((1 - rate) * min(base, other) + 0.5), base - from_base)


def _draw(seed: int, widths: tuple[int, int], counts: tuple[int, int]) -> list[Tensor]:
    """The dimensions drawn from the base and from the other, each sorted.

    Each model's draw is the beginning of one permutation, so a seed's larger shares contain its smaller ones.
    """
    streams = np.random.default_rng(seed).spawn(2)
    drawn = (stream.permutation(width)[:count] for stream, width, count in zip(streams, widths, counts, strict=True))
    return [torch.from_numpy(np.sort(part)) for part in drawn]
