"""Stacked generalization ([G] 4.7, after Wolpert 1992): one linear layer on top of two models' features."""

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from sklearn.base import clone

from probes._rows import beside
from probes.concatenation import gather
from probes.linear import LinearProbe
from zoo.errors import InputError


def stack(
    features: Mapping[str, Any],
    y: Any,
    test: tuple[Mapping[str, Any], Any] | None = None,
    multilabel: bool = False,
    probe: Any = None,
    standardised: bool = True,
    **probe_options: Any,
) -> pd.DataFrame:
    """A probe on each model's features alone and on those of every two models side by side ([G] Fig. 7, right).

    `features` maps a model's name to its embeddings [N, D] of the examples labelled `y` [N], or [N, K] of zeros and ones if
    `multilabel`. Every dimension is standardised on the rows the probe sees, alone and in pairs alike, so that no model
    outweighs another by its scale; without `standardised` features stay as they are. `test` is (features by name, labels)
    to score on; without it a fifth of each class is held out (a fifth of all rows if `multilabel`). `probe` is any
    estimator with `fit` and `score`, copied for each fit; by default a `LinearProbe`, or where examples have several labels
    a `MultilabelProbe`, with `probe_options`.

    Returns a frame, the models alone first: `first`, `second` (None for a model alone), `dimensions`, `metric`, `score`, and
    `gain`, what the pair scores above the better of its two (NaN for a model alone).

    >>> x, y = np.eye(3).repeat(20, 0), np.arange(3).repeat(20)
    >>> stack({"a": x[:, :1], "b": x[:, 1:2]}, y, strengths=[0.1])[["first", "second", "score"]].values.tolist()
    [['a', None, 0.6666666666666666], ['b', None, 0.6666666666666666], ['a', 'b', 1.0]]
    """
    if probe is not None and probe_options:
        raise InputError(f"probe: options are its own, found {', '.join(probe_options)} beside it; set them on the probe")
    model = _probe(multilabel, probe_options) if probe is None else probe
    shared = gather(features, y, test, multilabel)
    shared = shared.standardised() if standardised else shared
    table: dict[tuple[str, ...], tuple[int, float]] = {}
    for names in [*((name,) for name in features), *combinations(features, 2)]:
        fitted, held = (beside([side[name] for name in names]) for side in (shared.x, shared.test_x))
        if probe is None:
            score = clone(model).fit(fitted, shared.y).score(held, shared.test_y)
        else:  # an estimator that may be anybody's takes arrays
            score = clone(model).fit(fitted.tensor(), shared.y).score(held.tensor(), shared.test_y)
        table[names] = fitted.shape[1], float(score)
    alone = {names[0]: score for names, (_, score) in table.items() if len(names) == 1}
    return pd.DataFrame(
        {
            "first": [names[0] for names in table],
            "second": pd.Series([names[1] if len(names) == 2 else None for names in table], dtype=object),
            "dimensions": [width for width, _ in table.values()],
            "metric": getattr(model, "metric", "score"),
            "score": [score for _, score in table.values()],
            "gain": [
                score - max(alone[name] for name in names) if len(names) == 2 else np.nan
                for names, (_, score) in table.items()
            ],
        }
    )


def _probe(multilabel: bool, options: Mapping[str, Any]) -> Any:
    if not multilabel:
        return LinearProbe(**options)
    from probes.multilabel import MultilabelProbe

    return MultilabelProbe(**options)
