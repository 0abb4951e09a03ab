"""Relearning a model's own classes from a few examples: how much its last layer knows that its features do not say."""

from collections.abc import Sequence

import numpy as np
import pandas as pd

from probes.linear import LinearProbe
from probes.metrics import metric as metric_of
from zoo.core.splits import hold_out, random_rank
from zoo.errors import InputError
from zoo.outputs.outputs import Outputs, Runs, align


def relearn(
    outputs: Outputs | Runs,
    per_class: int | Sequence[int] | None = None,
    test: float = 0.2,
    metric: str = "accuracy",
    seed: int = 0,
) -> pd.DataFrame:
    """Learn the classes anew from each model's embeddings, and compare with its own predictions ([K] 3.4 and Fig. 6).

    Of each class, `test` of the examples are held out for both; the rest, or `per_class` of each class, train a linear
    probe. The paper takes 40 of each ImageNet class's 50 validation examples, which the models were not trained on either.
    All models see the same examples.

    A frame, one row per model and number of examples: model, per_class, examples, original, relearned, and
    gap = original - relearned.

    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(100) % 2
    >>> x = y[:, None] + rng.normal(size=(100, 3)) / 10
    >>> model = Outputs.from_arrays("m", predictions=y, labels=y, embeddings=x)
    >>> relearn(model, per_class=5)[["examples", "original", "relearned"]].values.tolist()
    [[10.0, 1.0, 1.0]]
    """
    runs = align(list(outputs.values()) if isinstance(outputs, Runs) else [outputs])
    labels = runs[0].require_labels()
    kept, held = hold_out(labels, test, seed)
    sizes = [per_class] if per_class is None or isinstance(per_class, int) else list(per_class)
    score = metric_of(metric)
    rows = []
    for model in runs:
        x = model.require_embeddings()
        original = score(model.predictions[held], labels[held])
        for size in sizes:
            few = kept if size is None else _few(labels, kept, size, seed)
            relearned = LinearProbe(metric=metric, seed=seed).fit(x[few], labels[few]).score(x[held], labels[held])
            counts = {"model": model.name, "per_class": size, "examples": len(few)}
            rows.append({**counts, "original": original, "relearned": relearned, "gap": original - relearned})
    return pd.DataFrame(rows)


def _few(labels: np.ndarray, rows: np.ndarray, size: int, seed: int) -> np.ndarray:
    """`size` of the rows of each class, by chance; all where there are no more. A smaller size is part of a larger one."""
    if size < 2:
        raise InputError(f"per_class: expected at least 2, one to fit and one to choose the strength by, found {size}")
    return rows[random_rank(labels[rows], seed) < size]
