"""From outputs to probes: whose embeddings tell the classes of a dataset apart, model by model."""

from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
import pandas as pd

from probes._rows import Rows, rows_of
from probes.knn import KNNProbe
from probes.linear import LinearProbe
from probes.metrics import METRICS
from probes.multilabel import METRICS as MULTILABEL_METRICS
from probes.multilabel import MultilabelProbe
from zoo.datasets import metric_of
from zoo.errors import InputError
from zoo.outputs.outputs import Outputs, Runs

Kind = Literal["linear", "knn"]


def probe(
    train: Outputs | Runs, test: Outputs | Runs, kind: Kind = "linear", metric: str | None = None, **options: Any
) -> pd.DataFrame:
    """Fit a probe on each model's embeddings of `train` and score it on those of `test` ([K] Table 1).

    `kind` is "linear" or "knn". `metric` is by default what the authors of the dataset tested on ask for: "accuracy" or
    "mean-per-class"; "map" or "auc" where examples have several classes. Further options go to the probe. A model's own
    classes play no part, the labels are the dataset's.

    A frame, one row per model: model, kind, dimensions, examples, metric, score, and `strength` or `k` as chosen (the median
    over classes where each has its own).

    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(60) % 3
    >>> runs = Runs([Outputs.from_arrays("m", embeddings=np.eye(3)[y] + rng.normal(size=(60, 3)) / 9, labels=y)])
    >>> probe(runs.select(slice(0, 40)), runs.select(slice(40, 60)))[["model", "dimensions", "score"]].values.tolist()
    [['m', 3, 1.0]]
    """
    train, test = (part if isinstance(part, Runs) else Runs([part]) for part in (train, test))
    rows = []
    for name, fitted in train.items():
        x, test_x = fitted.require_embeddings(), test[name].require_embeddings()
        y, test_y = labels_of(fitted, test[name])
        wanted = metric or _asked_for(test[name].dataset, y.ndim == 2)
        estimator = _estimator(kind, wanted, y.ndim == 2, options).fit(x, y)
        rows.append(
            {
                "model": name,
                "kind": kind,
                "dimensions": x.shape[1],
                "examples": len(x),
                "metric": estimator.metric,
                "score": estimator.score(test_x, test_y),
                **_choice(estimator),
            }
        )
    return pd.DataFrame(rows)


def features_of(runs: Mapping[str, Outputs]) -> tuple[dict[str, Rows], np.ndarray]:
    """({model: embeddings [N, D]}, labels) of the same examples in one order, that of the first model's rows.

    Stored embeddings are not loaded: the probes read them block by block.
    """
    first = next(iter(runs.values()), None)
    if first is None:
        raise InputError("expected at least one model's outputs, found none")
    features = {}
    for name, outputs in runs.items():
        place = {row_id: row for row, row_id in enumerate(outputs.ids.tolist())}
        if set(place) != set(first.ids.tolist()):
            raise InputError(f"{first.name} and {name}: different examples; run both on the same dataset")
        rows, order = rows_of(outputs.require_embeddings()), np.array([place[row_id] for row_id in first.ids.tolist()])
        features[name] = rows if (order == np.arange(len(order))).all() else rows.rows(order)
    return features, _labels(first)


def labels_of(train: Outputs, test: Outputs) -> tuple[np.ndarray, np.ndarray]:
    """Labels to fit on and to score with, the classes of several-label examples in the same columns."""
    y, test_y = _labels(train), _labels(test)
    if y.ndim == 2:
        names, test_names = _class_names(train), _class_names(test)
        if set(names) != set(test_names):
            raise InputError(f"{train.name}: the classes of {train.dataset} and of {test.dataset} differ")
        # A class that no example to learn from has cannot be probed: those of a larger label set, in which these stand.
        learnt = [k for k in range(len(names)) if (y[:, k] == 1).any()]
        y, test_y = y[:, learnt], test_y[:, [test_names.index(names[k]) for k in learnt]]
    return y, test_y


def _labels(outputs: Outputs) -> np.ndarray:
    """Class names [N], so that they mean the same whatever a model's own classes are; or [N, K] of 0, 1 and -1."""
    if outputs.labels is not None:
        return np.array(_class_names(outputs))[outputs.labels]
    if outputs.targets is None:
        raise InputError(f"{outputs.name}: {outputs.dataset or 'these outputs'} have no labels; a probe needs them")
    return outputs.targets


def _class_names(outputs: Outputs) -> list[str]:
    return list(outputs.label_classes or outputs.classes)


def _asked_for(dataset: str | None, multilabel: bool) -> str | None:
    """The metric of a known dataset; None where outputs of one by another name have other labels than it."""
    found = metric_of(dataset)
    return found if found in (MULTILABEL_METRICS if multilabel else METRICS) else None


def _estimator(kind: str, metric: str | None, multilabel: bool, options: Mapping[str, Any]) -> Any:
    if kind not in ("linear", "knn"):
        raise InputError(f"kind: expected linear or knn, found {kind!r}")
    known = MULTILABEL_METRICS if multilabel else METRICS
    if metric is not None and metric not in known:
        several = "several classes" if multilabel else "one class"
        raise InputError(f"metric: expected one of {', '.join(known)} for examples of {several}, found {metric!r}")
    if multilabel and kind == "knn":
        raise InputError("kind: examples of several classes take the linear probe, found knn")
    make = MultilabelProbe if multilabel else {"linear": LinearProbe, "knn": KNNProbe}[kind]
    return make(**options) if metric is None else make(metric=metric, **options)


def _choice(estimator: Any) -> dict[str, float]:
    if isinstance(estimator, KNNProbe):
        return {"k": estimator.k_}
    chosen = estimator.strengths_ if isinstance(estimator, MultilabelProbe) else estimator.strength_
    return {"strength": float(np.median(chosen))}
