"""Probes of stored outputs: how well each model's embeddings separate the classes of a dataset, or its own classes."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd

from probes._inputs import is_fraction
from probes._rows import Rows, rows_of
from probes.knn import KNNProbe
from probes.linear import LinearProbe
from probes.metrics import METRICS
from probes.metrics import metric as metric_by_name
from probes.multilabel import METRICS as MULTILABEL_METRICS
from probes.multilabel import MultilabelProbe
from zoo.core.splits import hold_out, random_rank
from zoo.datasets import metric_of
from zoo.errors import InputError
from zoo.outputs.outputs import Outputs, Runs, align

Kind = Literal["linear", "knn"]


def probe(
    train: Outputs | Runs, test: Outputs | Runs, kind: Kind = "linear", metric: str | None = None, **options: Any
) -> pd.DataFrame:
    """Fit a probe on each model's embeddings of one set and score it on another (Kornblith et al. 2021, Table 1).

    Labels come from the dataset; the classes that a model predicts do not matter.

    Args:
        train: outputs to fit on, of one model or several.
        test: outputs of the same models to score on.
        kind: "linear" or "knn".
        metric: "accuracy" or "mean-per-class"; "map" or "auc" if examples have several classes. Default: the metric that
            the authors of the test dataset use.
        options: parameters of the probe.

    Returns:
        A frame with one row per model: `model`, `kind`, `dimensions`, `examples`, `metric`, `score`, and the chosen
        `strength` (the median, if each class has its own) or `k`.

    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(60) % 3
    >>> runs = Runs([Outputs.from_arrays("m", embeddings=np.eye(3)[y] + rng.normal(size=(60, 3)) / 9, labels=y)])
    >>> probe(runs.select(slice(0, 40)), runs.select(slice(40, 60)))[["model", "dimensions", "score"]].values.tolist()
    [['m', 3, 1.0]]
    """
    train, test = (part if isinstance(part, Runs) else Runs([part]) for part in (train, test))
    rows = []
    for name, outputs in train.items():
        x, test_x = outputs.require_embeddings(), test[name].require_embeddings()
        labels, test_labels = labels_of(outputs, test[name])
        multilabel = labels.ndim == 2
        chosen_metric = metric or _metric_of_dataset(test[name].dataset, multilabel)
        estimator = _estimator(kind, chosen_metric, multilabel, options).fit(x, labels)
        rows.append(
            {
                "model": name,
                "kind": kind,
                "dimensions": x.shape[1],
                "examples": len(x),
                "metric": estimator.metric,
                "score": estimator.score(test_x, test_labels),
                **_choice(estimator),
            }
        )
    return pd.DataFrame(rows)


def relearn(
    outputs: Outputs | Runs,
    per_class: int | Sequence[int] | None = None,
    test: float = 0.2,
    metric: str = "accuracy",
    seed: int = 0,
) -> pd.DataFrame:
    """Probe each model's embeddings for its own classes, and compare with its predictions (Kornblith et al. 2021, Fig. 6).

    The paper trains on 40 of the 50 validation examples of each ImageNet class, which the models were not trained on.

    Args:
        outputs: outputs of one model or several, with embeddings and labels. All models use the same examples.
        per_class: how many training examples per class, one number or several; default: all.
        test: the fraction of each class on which both are scored.
        metric: "accuracy" or "mean-per-class".
        seed: the seed of the choice of examples.

    Returns:
        A frame with one row per model and number of examples: `model`, `per_class`, `examples`, `original` (the score of the
        model's predictions), `relearned` (the score of the probe), and `gap`, original - relearned.

    >>> rng = np.random.default_rng(0)
    >>> y = np.arange(100) % 2
    >>> x = y[:, None] + rng.normal(size=(100, 3)) / 10
    >>> model = Outputs.from_arrays("m", predictions=y, labels=y, embeddings=x)
    >>> relearn(model, per_class=5)[["examples", "original", "relearned"]].values.tolist()
    [[10.0, 1.0, 1.0]]
    """
    if not is_fraction(test):
        raise InputError(argument="test", expected="a fraction between 0 and 1", found=test)
    sizes = [per_class] if per_class is None or isinstance(per_class, int) else list(per_class)
    for size in sizes:
        if size is not None and size < 2:
            expected = "at least 2: one example to fit and one to choose the strength"
            raise InputError(argument="per_class", expected=expected, found=size)
    score = metric_by_name(metric)
    runs = align(list(outputs.values()) if isinstance(outputs, Runs) else [outputs])
    labels = runs[0].require_labels()
    kept, held_out = hold_out(labels, test, seed)
    rank = random_rank(labels[kept], seed)  # a smaller size is part of a larger one
    rows = []
    for model in runs:
        x = model.require_embeddings()
        original = score(model.predictions[held_out], labels[held_out])
        for size in sizes:
            chosen = kept if size is None else kept[rank < size]
            probe = LinearProbe(metric=metric, seed=seed).fit(x[chosen], labels[chosen])
            relearned = probe.score(x[held_out], labels[held_out])
            counts = {"model": model.name, "per_class": size, "examples": len(chosen)}
            rows.append({**counts, "original": original, "relearned": relearned, "gap": original - relearned})
    return pd.DataFrame(rows)


def features_of(runs: Mapping[str, Outputs]) -> tuple[dict[str, Rows], np.ndarray]:
    """Return (embeddings [N, D] by model name, labels) of the same examples, in the order of the first model's rows.

    Stored embeddings are not loaded: the probes read them block by block.
    """
    first = next(iter(runs.values()), None)
    if first is None:
        raise InputError(argument="runs", expected="outputs of at least one model", found=0)
    features = {}
    for name, outputs in runs.items():
        position = {row_id: row for row, row_id in enumerate(outputs.ids.tolist())}
        if set(position) != set(first.ids.tolist()):
            hint = "Run both on the same dataset"
            raise InputError("outputs are of different examples", where=f"{first.name} and {name}", hint=hint)
        rows = rows_of(outputs.require_embeddings())
        order = np.array([position[row_id] for row_id in first.ids.tolist()])
        features[name] = rows if (order == np.arange(len(order))).all() else rows.rows(order)
    return features, _labels(first)


def labels_of(train: Outputs, test: Outputs) -> tuple[np.ndarray, np.ndarray]:
    """Return the labels to fit on and to score with.

    They are class names [N], or [N, K] of 0, 1 and -1 with the classes in the same columns if examples have several.
    """
    labels, test_labels = _labels(train), _labels(test)
    if labels.ndim == 2:
        names, test_names = _class_names(train), _class_names(test)
        if set(names) != set(test_names):
            raise InputError(f"the classes of {train.dataset} and {test.dataset} differ", where=train.name)
        # Classes without a positive training example cannot be probed, such as unused ones of a larger label set.
        used = [k for k in range(len(names)) if (labels[:, k] == 1).any()]
        labels, test_labels = labels[:, used], test_labels[:, [test_names.index(names[k]) for k in used]]
    return labels, test_labels


def _labels(outputs: Outputs) -> np.ndarray:
    """Return class names [N], which do not depend on the classes a model predicts; or [N, K] of 0, 1 and -1."""
    if outputs.labels is not None:
        return np.array(_class_names(outputs))[outputs.labels]
    if outputs.targets is None:
        dataset = f" for {outputs.dataset}" if outputs.dataset else ""
        raise InputError(f"no labels are stored{dataset}; a probe needs them", where=outputs.name)
    return outputs.targets


def _class_names(outputs: Outputs) -> list[str]:
    return list(outputs.label_classes or outputs.classes)


def _metric_of_dataset(dataset: str | None, multilabel: bool) -> str | None:
    """Return the metric of a known dataset; None if it does not suit these labels."""
    name = metric_of(dataset)
    return name if name in (MULTILABEL_METRICS if multilabel else METRICS) else None


def _estimator(
    kind: str, metric: str | None, multilabel: bool, options: Mapping[str, Any]
) -> LinearProbe | KNNProbe | MultilabelProbe:
    if kind not in ("linear", "knn"):
        raise InputError(argument="kind", expected="linear or knn", found=kind)
    metrics = MULTILABEL_METRICS if multilabel else METRICS
    if metric is not None and metric not in metrics:
        examples = "several classes" if multilabel else "one class"
        expected = f"one of {', '.join(metrics)} for examples of {examples}"
        raise InputError(argument="metric", expected=expected, found=metric)
    if multilabel and kind == "knn":
        raise InputError(argument="kind", expected="linear for examples of several classes", found=kind)
    estimator = MultilabelProbe if multilabel else {"linear": LinearProbe, "knn": KNNProbe}[kind]
    return estimator(**options) if metric is None else estimator(metric=metric, **options)


def _choice(estimator: LinearProbe | KNNProbe | MultilabelProbe) -> dict[str, float]:
    if isinstance(estimator, KNNProbe):
        return {"k": estimator.k_}
    chosen = estimator.strengths_ if isinstance(estimator, MultilabelProbe) else estimator.strength_
    return {"strength": float(np.median(chosen))}
