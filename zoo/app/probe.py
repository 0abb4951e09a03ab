"""`zoo probe`: classifiers on fixed embeddings."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from zoo.app import options
from zoo.app.terminal import Format, note, print_table, records
from zoo.core.units import percent, points
from zoo.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from probes._rows import Rows
    from zoo.outputs.outputs import Runs

Kind = Literal["linear", "knn", "concat", "compress", "stack"]
TEST_FRACTION = 0.2  # of each class, for a dataset without training and test splits
DIMENSIONS_PER_STEP = 256  # of --method compress
MIN_STEPS = 8  # --method compress takes smaller steps if 256 dimensions at a time would give fewer than half of this


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("probe", rich_help_panel=options.FEATURES)(options.command(probe))


def probe(
    *,
    models: options.Models,
    kind: Annotated[Kind, typer.Option("--method", help="Which probe, see above.")] = "linear",
    test: Annotated[
        str | None, options.spec_option("--test", "Dataset to test on; --data is then the training data.")
    ] = None,
    metric: Annotated[str | None, typer.Option(help="accuracy, mean-per-class, map or auc. Default: the dataset's.")] = None,
    distance: Annotated[str, typer.Option(help="knn: cosine or euclidean.")] = "cosine",
    base: options.Base = None,
    seeds: Annotated[int, typer.Option(help="concat: random draws of dimensions.")] = 3,
    target: Annotated[
        float | None, typer.Option("--target-score", help="compress: score to reach. Default: that of the base alone.")
    ] = None,
    multiples: Annotated[int | None, typer.Option("--dimensions-per-step", help="compress: default 256.")] = None,
    order: Annotated[
        str, typer.Option(help="compress: which dimensions come first: least-redundant, most-redundant or variance.")
    ] = "least-redundant",
    standardised: Annotated[
        bool, typer.Option("--standardised/--raw", help="stack: dimensions scaled to unit variance, or as they are.")
    ] = True,
    resize_mode: options.ResizeMode = None,
    pretrained: options.Pretrained = True,
    inputs: options.ModelInputs,
    results: options.Results,
) -> None:
    """Probe embeddings: which transfer to a dataset, and what do several models' embeddings give together?

    linear, knn: a classifier on each model's embeddings. concat: part of the base's dimensions with part of another
    model's. compress: how few dimensions of a pair reach a score. stack: all dimensions of every pair.
    If --data is a name without a split, probes are trained on its training split and tested on its test split.

    [dim]zoo probe resnet8-softmax resnet8-cosine --data fashion-mnist --method knn[/dim]
    """
    results.check(options.TABLE, options.NUMBERS, *options.CHARTS)
    splits = _splits(models, inputs, test, pretrained, resize_mode)
    metric = metric or splits.metric
    kinds: dict[str, Callable[[], _Result]] = {
        "linear": lambda: _scored(splits, metric, kind="linear"),
        "knn": lambda: _scored(splits, metric, kind="knn", distance=distance),
        "concat": lambda: _concatenated(splits, metric, base, seeds),
        "compress": lambda: _compressed(splits, metric, base, target, multiples, order),
        "stack": lambda: _stacked(splits, metric, standardised),
    }
    result = kinds[kind]()
    about = {"train": splits.train_spec, "test": splits.test_spec, "kind": kind, "metric": metric}
    results.deliver(
        about | result.value,
        lambda: print_table(result.rows, title=result.title, formats=result.formats),
        table=result.table,
        chart=result.chart,
    )


@dataclass(frozen=True)
class _Splits:
    """Outputs of the models to train and to test on, and the metric that the dataset's authors use."""

    train: "Runs"
    test: "Runs"
    train_spec: str
    test_spec: str
    metric: str

    def features(self, multilabel: bool = False) -> "tuple[dict[str, Rows], np.ndarray, tuple[dict[str, Rows], np.ndarray]]":
        """Return embeddings and labels to train on, and the same to test on.

        Args:
            multilabel: whether the probe accepts several classes per example.
        """
        from probes.model_probes import features_of, labels_of

        features, labels = features_of(self.train)
        test_features, test_labels = features_of(self.test)
        if labels.ndim == 2:
            if not multilabel:
                raise InputError(
                    "examples have several classes",
                    where=self.train_spec,
                    argument="kind",
                    hint="Use {kind=linear} or {kind=stack}",
                )
            labels, test_labels = labels_of(next(iter(self.train.values())), next(iter(self.test.values())))
        return features, labels, (test_features, test_labels)


@dataclass(frozen=True)
class _Result:
    """The result of a probe: rows and title of the printed table, contents of JSON and .csv, the chart."""

    rows: list[dict[str, Any]]
    value: dict[str, Any]
    table: "pd.DataFrame"
    chart: Callable[[], Any]
    formats: dict[str, Format]
    title: str | None = None


def _splits(
    models: Sequence[str], inputs: options.ModelInputs, test: str | None, pretrained: bool, resize_mode: str | None
) -> _Splits:
    from zoo import datasets
    from zoo.runs.resolver import infer_dataset
    from zoo.runs.runner import run

    names = inputs.named(models)
    data = inputs.data or (infer_dataset(names, None) or "").partition(":")[0]
    train_spec, test_spec = split_specs(data, test)
    settings: dict[str, Any] = {"pretrained": pretrained, "resize_mode": resize_mode, "fresh": inputs.fresh}
    train = run(names, data=train_spec, **settings)
    metric = datasets.metric_of(test_spec or train_spec)
    if test_spec is not None:
        return _Splits(train, run(names, data=test_spec, **settings), train_spec, test_spec, metric)
    rows, test_rows = _hold_out(train)
    note(f"{train_spec}: a fifth of each class is held out to test on; --test names another dataset")
    return _Splits(train.select(rows), train.select(test_rows), train_spec, train_spec, metric)


def split_specs(data: str, test: str | None) -> tuple[str, str | None]:
    """Return the datasets to train and to test on; a name without a split stands for both splits, if it has them."""
    from zoo.datasets import canonical

    if test is not None:
        return canonical(data), canonical(test)
    if ":" not in data and "[" not in data:
        try:
            return canonical(f"{data}:train"), canonical(data)
        except InputError:
            canonical(data)  # raises an error if the name itself is unknown
    return canonical(data), None


def _hold_out(runs: "Runs") -> "tuple[np.ndarray, np.ndarray]":
    import numpy as np
    import torch

    from probes.multilabel import strata
    from zoo.core.splits import hold_out

    first = next(iter(runs.values()))
    if any(not np.array_equal(first.ids, other.ids) for other in runs.values()):
        raise InputError("the models' outputs are on different examples", hint="Run them on the same dataset")
    if first.labels is None and first.targets is None:
        raise InputError("has no labels, which a probe needs", where=first.dataset)
    codes = first.labels if first.labels is not None else strata(torch.from_numpy(first.targets))
    return hold_out(codes, TEST_FRACTION, seed=0)


def _scored(splits: _Splits, metric: str, **settings: Any) -> _Result:
    import probes
    from probes.probe_charts import score_chart

    frame = probes.probe(splits.train, splits.test, metric=metric, **settings)
    rows = records(frame.sort_values("score", ascending=False, kind="stable"))
    shown = [
        {metric if key == "score" else key: value for key, value in row.items() if key not in ("kind", "metric")}
        for row in rows
    ]
    return _Result(shown, {"models": rows}, frame, lambda: score_chart(frame), {metric: percent})


def _concatenated(splits: _Splits, metric: str, base: str | None, seeds: int) -> _Result:
    import probes
    from probes.probe_charts import concatenation_chart

    features, labels, test = splits.features()
    base = _base(base, splits.train)
    frame = probes.concatenate(features, labels, base, seeds=seeds, test=test, metric=metric)
    rows: dict[str, dict[str, Any]] = {}
    for other, rate in dict.fromkeys(zip(frame["other"], frame["rate"], strict=True)):
        mean, error = probes.mean_and_error(frame.loc[(frame["other"] == other) & (frame["rate"] == rate), "accuracy"])
        score = f"{100 * mean:.1f}" + (f"±{100 * error:.1f}" if error > 0 else "")
        rows.setdefault(other, {"with": other})[f"{100 * rate:g}/{100 * (1 - rate):g}"] = score

    title = f"{metric} in percent, with A% of the dimensions of {base} and B% of another model's (A/B)"
    return _Result(
        list(rows.values()), {"base": base, "draws": records(frame)}, frame, lambda: concatenation_chart(frame), {}, title
    )


def _compressed(
    splits: _Splits, metric: str, base: str | None, target: float | None, multiples: int | None, order: str
) -> _Result:
    import pandas as pd

    import probes
    from probes.probe_charts import compression_chart

    features, labels, (test_features, test_labels) = splits.features()
    base = _base(base, splits.train)
    if target is None:
        alone = probes.probe(splits.train[base], splits.test[base], metric=metric)
        target = float(alone["score"].iloc[0])
        note(f"target: {percent(target)}, the {metric} of {base} alone")
    found = {}
    for other in [name for name in features if name != base] or [base]:
        pair = (base, other)
        dimensions = sum(features[name].shape[1] for name in pair)
        small = dimensions <= DIMENSIONS_PER_STEP * MIN_STEPS // 2
        found[other] = probes.compress(
            {name: features[name] for name in pair},
            labels,
            multiples=multiples or (max(1, dimensions // MIN_STEPS) if small else DIMENSIONS_PER_STEP),
            target=target,
            test=({name: test_features[name] for name in pair}, test_labels),
            order=order,  # type: ignore[arg-type]  # checked there
            metric=metric,
        )
    reached, of_all = f"dimensions for {percent(target)}", f"{metric} with all"
    rows = [
        {"with": other, reached: part.dimensions, "of": len(part.order), of_all: float(part.frame["accuracy"].iloc[-1])}
        for other, part in found.items()
    ]
    words = {"least-redundant": "least redundant", "most-redundant": "most redundant"}
    title = f"dimensions of {base} and another model, {words.get(order, 'highest variance')} first"
    table = pd.concat([result.frame.assign(**{"with": other}) for other, result in found.items()], ignore_index=True)
    return _Result(rows, {"base": base, "results": found}, table, lambda: compression_chart(found), {of_all: percent}, title)


def _stacked(splits: _Splits, metric: str, standardised: bool) -> _Result:
    import probes
    from probes.probe_charts import stacking_chart

    features, labels, test = splits.features(multilabel=True)
    frame = probes.stack(features, labels, test=test, multilabel=labels.ndim == 2, standardised=standardised, metric=metric)
    rows = [
        {
            "models": row["first"] if row["second"] is None else f"{row['first']} + {row['second']}",
            "dimensions": row["dimensions"],
            metric: row["score"],
            "gain": row["gain"],
        }
        for row in records(frame.sort_values("score", ascending=False, kind="stable"))
    ]

    formats: dict[str, Format] = {metric: percent, "gain": points}
    return _Result(rows, {"results": records(frame)}, frame, lambda: stacking_chart(frame), formats)


def _base(base: str | None, runs: "Runs") -> str:
    """Return the full name of the base; default: the first model."""
    return runs.names[0] if base is None else runs[base].name
