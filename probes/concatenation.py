"""Embeddings of two models side by side: concatenation and stacking (Gontijo-Lopes et al. 2022, 4.6 and 4.7)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
import torch
from sklearn.base import BaseEstimator, clone
from torch import Tensor

from probes._inputs import finite, label_array
from probes._rows import Features, Rows, Values, hstack, rows_of
from probes.linear import LinearProbe
from probes.multilabel import MultilabelProbe
from zoo.cards.names import similar
from zoo.core.splits import hold_out
from zoo.errors import InputError, UnknownName

TEST_FRACTION = 0.2  # of each class, if no test set is given


@dataclass(frozen=True)
class FeatureSplit:
    """Embeddings [N, D] of several models on the same examples, split into training and test examples."""

    train: dict[str, Rows]
    labels: np.ndarray
    test: dict[str, Rows]
    test_labels: np.ndarray

    def standardised(self) -> "FeatureSplit":
        """Give every dimension mean 0 and variance 1 on the training examples; a constant dimension becomes 0."""
        moments = {name: rows.moments() for name, rows in self.train.items()}
        train, test = (
            {name: rows.standardised(*moments[name]) for name, rows in side.items()} for side in (self.train, self.test)
        )
        return replace(self, train=train, test=test)

    def side_by_side(self, models: Sequence[str]) -> tuple[Rows, Rows]:
        """Return the embeddings of several models side by side, of the training and of the test examples."""
        return hstack([self.train[name] for name in models]), hstack([self.test[name] for name in models])


def concatenate(
    features: Mapping[str, Features],
    labels: Values,
    base: str,
    rates: Sequence[float] = (1, 0.75, 0.5, 0.25, 0),
    seeds: int | Sequence[int] = 3,
    test: tuple[Mapping[str, Features], Values] | None = None,
    validation: float = 0.2,
    standardised: bool = False,
    **probe_options: Any,
) -> pd.DataFrame:
    """Return the accuracy of probes on some dimensions of a base model and some of each other model (Fig. 6).

    With D dimensions of the base and E of the other model, `rate * D` are drawn from the base and `(1 - rate) * min(D, E)`
    from the other, rounded such that there are never more than D: an improvement cannot come from a larger width.

    Args:
        features: embeddings [N, D] by model name.
        labels: [N] labels of any type.
        base: the name of the base model.
        rates: fractions of the base's dimensions. Rates 1 and 0 probe the base and the other model alone.
        seeds: the number of draws of dimensions, or their seeds. A seed affects nothing else.
        test: (embeddings by model name, labels) to score on; default: a fifth of each class, the same for all draws.
        validation: the fraction of the training examples on which the probe chooses its strength.
        standardised: whether to give each dimension variance 1, for models whose embeddings differ so much in scale that
            one strength cannot suit both.
        probe_options: further options of `LinearProbe`.

    Returns:
        A frame with one row per other model, rate and seed: `other`, `rate`, `seed`, `dimensions`, `base_dimensions`,
        `other_dimensions`, and the test `accuracy`.

    >>> x, y = np.eye(2).repeat(20, 0), np.arange(2).repeat(20)
    >>> frame = concatenate({"a": x, "b": -x}, y, "a", rates=[1, 0.5], seeds=1, strengths=[0.1, 1])
    >>> frame[["other", "rate", "base_dimensions", "other_dimensions", "accuracy"]].values.tolist()
    [['b', 1.0, 2, 0, 1.0], ['b', 0.5, 1, 1, 1.0]]
    """
    if base not in features:
        raise UnknownName(kind="model", name=base, argument="base", suggestions=similar(base, features) or list(features))
    for rate in rates:
        if not 0 <= rate <= 1:
            raise InputError(argument="rates", expected="fractions from 0 to 1", found=rate)
    draws = list(range(seeds)) if isinstance(seeds, int) else list(seeds)
    for argument, values in (("rates", rates), ("seeds", draws)):
        if not len(values):
            raise InputError(argument=argument, expected="at least one value", found=0)
    split = split_features(features, labels, test)
    split = split.standardised() if standardised else split
    accuracies: dict[Any, float] = {}  # all dimensions of one model make one probe, whatever the seed
    table = []
    for other in features:
        if other == base:
            continue
        widths = split.train[base].shape[1], split.train[other].shape[1]
        for rate in map(float, rates):
            counts = _counts(rate, *widths)
            for seed in draws:
                drawn = _draw(seed, widths, counts)
                columns = {name: part for name, part in zip((base, other), drawn, strict=True) if len(part)}
                key = tuple((name, tuple(part.tolist())) for name, part in columns.items())
                if key not in accuracies:
                    train, held_out = (
                        hstack([side[name].columns(part) for name, part in columns.items()])
                        for side in (split.train, split.test)
                    )
                    probe = LinearProbe(validation=validation, **probe_options).fit(train, split.labels)
                    accuracies[key] = probe.score(held_out, split.test_labels)
                table.append((other, rate, seed, sum(counts), *counts, accuracies[key]))
    names = ["other", "rate", "seed", "dimensions", "base_dimensions", "other_dimensions", "accuracy"]
    return pd.DataFrame(table, columns=names)


def stack(
    features: Mapping[str, Features],
    labels: Values,
    test: tuple[Mapping[str, Features], Values] | None = None,
    multilabel: bool = False,
    probe: BaseEstimator | None = None,
    standardised: bool = True,
    **probe_options: Any,
) -> pd.DataFrame:
    """Return the scores of probes on each model's embeddings and on every pair's (Fig. 7, right; Wolpert 1992).

    Args:
        features: embeddings [N, D] by model name.
        labels: [N] of any type, or [N, K] of 0, 1 and -1 (ignored) if `multilabel`.
        test: (embeddings by model name, labels) to score on; default: a fifth of each class, or of all rows if
            `multilabel`.
        multilabel: whether an example may have several classes.
        probe: any estimator with `fit` and `score`, copied for each fit; default: `LinearProbe`, or `MultilabelProbe` if
            `multilabel`.
        standardised: whether to give each dimension mean 0 and variance 1 on the training examples, so that no model
            outweighs another by its scale.
        probe_options: options of the default probe.

    Returns:
        A frame with the single models first: `first`, `second` (None for a single model), `dimensions`, `metric`, `score`,
        and `gain`, the pair's score minus that of the better model (NaN for a single model).

    >>> x, y = np.eye(3).repeat(20, 0), np.arange(3).repeat(20)
    >>> stack({"a": x[:, :1], "b": x[:, 1:2]}, y, strengths=[0.1])[["first", "second", "score"]].values.tolist()
    [['a', None, 0.6666666666666666], ['b', None, 0.6666666666666666], ['a', 'b', 1.0]]
    """
    if probe is not None and probe_options:
        problem = f"comes with its own options, so {', '.join(probe_options)} cannot be passed as well"
        raise InputError(problem, argument="probe", hint="Set them on the probe")
    estimator = probe if probe is not None else (MultilabelProbe if multilabel else LinearProbe)(**probe_options)
    split = split_features(features, labels, test, multilabel)
    split = split.standardised() if standardised else split
    table: dict[tuple[str, ...], tuple[int, float]] = {}
    for names in [*((name,) for name in features), *combinations(features, 2)]:
        train, held_out = split.side_by_side(names)
        width = train.shape[1]
        if probe is None:
            score = clone(estimator).fit(train, split.labels).score(held_out, split.test_labels)
        else:  # other estimators take arrays only
            score = clone(estimator).fit(train.tensor(), split.labels).score(held_out.tensor(), split.test_labels)
        table[names] = width, float(score)
    alone = {names[0]: score for names, (_, score) in table.items() if len(names) == 1}
    return pd.DataFrame(
        {
            "first": [names[0] for names in table],
            "second": pd.Series([names[1] if len(names) == 2 else None for names in table], dtype=object),
            "dimensions": [width for width, _ in table.values()],
            "metric": getattr(estimator, "metric", "score"),
            "score": [score for _, score in table.values()],
            "gain": [
                score - max(alone[name] for name in names) if len(names) == 2 else np.nan
                for names, (_, score) in table.items()
            ],
        }
    )


def split_features(
    features: Mapping[str, Features],
    labels: Values,
    test: tuple[Mapping[str, Features], Values] | None = None,
    multilabel: bool = False,
) -> FeatureSplit:
    """Check that the embeddings of two or more models match the labels, and set test examples apart.

    Arguments as in `stack`.
    """
    if len(features) < 2:
        raise InputError(argument="features", expected="embeddings of at least two models", found=list(features))
    train, train_labels = _check_side(features, labels, ("features", "labels"), multilabel)
    if test is not None:
        if set(test[0]) != set(features):
            expected = f"embeddings of the same models as `features`, {', '.join(features)}"
            raise InputError(argument="test", expected=expected, found=list(test[0]))
        in_order = {name: test[0][name] for name in features}
        held_out, test_labels = _check_side(in_order, test[1], ("test", "test"), multilabel)
        for name in train:
            expected_width, width = train[name].shape[1], held_out[name].shape[1]
            if expected_width != width:
                raise InputError(where=name, argument="test", expected=f"{expected_width} dimensions wide", found=width)
        return FeatureSplit(train, train_labels, held_out, test_labels)
    strata = np.zeros(len(train_labels), np.int64) if multilabel else np.unique(train_labels, return_inverse=True)[1]
    kept, held = hold_out(strata, TEST_FRACTION, seed=0)
    sides = ({name: rows.rows(part) for name, rows in train.items()} for part in (kept, held))
    return FeatureSplit(next(sides), train_labels[kept], next(sides), train_labels[held])


def _check_side(
    features: Mapping[str, Features], labels: Values, arguments: tuple[str, str], multilabel: bool
) -> tuple[dict[str, Rows], np.ndarray]:
    """Return the rows of each model and the labels; `arguments` are the names of both in error messages."""
    checked = label_array(labels, arguments[1])
    if checked.ndim != 1 + multilabel:
        shape = "labels of shape [N, K], zeros and ones" if multilabel else "labels of shape [N]"
        raise InputError(argument=arguments[1], expected=shape, found=list(checked.shape))
    rows: dict[str, Rows] = {}
    for name, values in features.items():
        if isinstance(values, Tensor) and rows:
            values = values.to(next(iter(rows.values())).device)
        try:
            x = rows_of(values, arguments[0])
            if len(x) != len(checked):
                raise InputError(argument=arguments[0], expected=f"{len(checked)} rows, one per label", found=len(x))
            rows[name] = finite(x, arguments[0])
        except InputError as error:
            error.inside(name)
            raise
    return rows, checked


def _counts(rate: float, base: int, other: int) -> tuple[int, int]:
    """Return the numbers of dimensions from the base and from the other: together at least one and at most `base`."""
    from_base = math.floor(rate * base + 0.5)
    return from_base, min(math.floor((1 - rate) * min(base, other) + 0.5), base - from_base)


def _draw(seed: int, widths: tuple[int, int], counts: tuple[int, int]) -> list[Tensor]:
    """Return the dimensions drawn from the base and from the other, each sorted.

    Each model's draw is the beginning of one permutation, so a larger draw with the same seed contains the smaller ones.
    """
    streams = np.random.default_rng(seed).spawn(2)
    drawn = (stream.permutation(width)[:count] for stream, width, count in zip(streams, widths, counts, strict=True))
    return [torch.from_numpy(np.sort(part)) for part in drawn]
