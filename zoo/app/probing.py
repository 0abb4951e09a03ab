"""Commands that probe features: `zoo probe`."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from zoo.app.bare_files import takes_bare_files
from zoo.app.charting import ChartOption, check_chart, save_chart
from zoo.app.features import RandomOption
from zoo.app.printing import JsonOption, note, print_json, print_table
from zoo.app.running import ResizeModeOption
from zoo.cards.names import default_dataset
from zoo.errors import InputError

if TYPE_CHECKING:
    import numpy as np
    import pandas as pd

    from probes._rows import Rows
    from zoo.outputs.outputs import Runs

Kind = Literal["linear", "knn", "concat", "compress", "stack"]
PANEL = "Features"
HELD_OUT = 0.2  # of each class, where a dataset has no training and test split of its own
HIDDEN = ("kind", "metric")  # said by the command itself
STEPS = 8  # compress: of embeddings so narrow that 256 dimensions would be most of them


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
    app.command("probe", rich_help_panel=PANEL)(takes_bare_files(probe))


def probe(
    names: Annotated[list[str], typer.Argument(help="Models, by name or pattern.", metavar="NAMES")],
    data: Annotated[str | None, typer.Option(help="Dataset; a name alone means its training and its test split.")] = None,
    test: Annotated[str | None, typer.Option(help="Dataset to score on; then --data is what to train on.")] = None,
    kind: Annotated[Kind, typer.Option(help="Which probe, see above.")] = "linear",
    metric: Annotated[str | None, typer.Option(help="accuracy, mean-per-class, map, auc; default: the dataset's.")] = None,
    distance: Annotated[str, typer.Option(help="knn: cosine or euclidean.")] = "cosine",
    base: Annotated[
        str | None, typer.Option(help="concat, compress: to which others are added; default: the first.")
    ] = None,
    seeds: Annotated[int, typer.Option(help="concat: random draws of dimensions.")] = 3,
    target: Annotated[float | None, typer.Option(help="compress: a score; default: what the base reaches alone.")] = None,
    multiples: Annotated[int | None, typer.Option(help="compress: dimensions per step; default: 256.")] = None,
    order: Annotated[
        str, typer.Option(help="compress: least-redundant, most-redundant or variance, the first taken first.")
    ] = "least-redundant",
    standardised: Annotated[
        bool, typer.Option("--standardised/--raw", help="stack: dimensions of one scale, or as they are.")
    ] = True,
    resize_mode: ResizeModeOption = None,
    random: RandomOption = False,
    chart: ChartOption = None,
    json: JsonOption = False,
) -> None:
    """Whose features transfer, and what two models' features give together.

    linear, knn: a classifier on each model's fixed embeddings. concat: shares of the base's dimensions with shares of the
    others'. compress: how few dimensions, least redundant first, reach a score. stack: every two models side by side.

    [dim]zoo probe resnet8-softmax resnet8-cosine --data fashion-mnist --kind knn[/dim]
    """
    check_chart(chart)
    sides = _sides(names, data, test, not random, resize_mode)
    metric = metric or sides.metric
    kinds: dict[str, Callable[[], _Shown]] = {
        "linear": lambda: _scored(sides, metric, kind="linear"),
        "knn": lambda: _scored(sides, metric, kind="knn", distance=distance),
        "concat": lambda: _concatenated(sides, metric, base, seeds),
        "compress": lambda: _compressed(sides, metric, base, target, multiples, order),
        "stack": lambda: _stacked(sides, metric, standardised),
    }
    shown = kinds[kind]()
    if json:
        print_json({"train": sides.train_spec, "test": sides.test_spec, "kind": kind, "metric": metric, **shown.value})
    else:
        print_table(shown.rows, title=shown.title)
    if chart is not None:
        save_chart(shown.chart(), chart)


@dataclass(frozen=True)
class _Sides:
    """The models' outputs to fit on and to score with, and the metric the dataset's authors ask for."""

    train: "Runs"
    test: "Runs"
    train_spec: str
    test_spec: str
    metric: str

    def features(self, several: bool = False) -> "tuple[dict[str, Rows], np.ndarray, tuple[dict[str, Rows], np.ndarray]]":
        """What a probe of several models' features takes; `several` says whether examples may have several classes."""
        from probes.transfer import features_of, labels_of

        features, labels = features_of(self.train)
        test_features, test_labels = features_of(self.test)
        if labels.ndim == 2:
            if not several:
                raise InputError(f"{self.train_spec}: its examples have several classes; use --kind linear or stack")
            labels, test_labels = labels_of(next(iter(self.train.values())), next(iter(self.test.values())))
        return features, labels, (test_features, test_labels)


@dataclass(frozen=True)
class _Shown:
    """A result: rows of the table, what JSON holds, how to draw it, and what stands above the table."""

    rows: list[dict[str, Any]]
    value: dict[str, Any]
    chart: Callable[[], Any]
    title: str | None = None


def _sides(names: list[str], data: str | None, test: str | None, pretrained: bool, resize_mode: str | None) -> _Sides:
    from zoo import datasets
    from zoo.runs.runner import run

    train, tested = _specs(data or default_dataset(), test)
    options: dict[str, Any] = {"pretrained": pretrained, "resize_mode": resize_mode}
    fitted = run(names, data=train, **options)
    metric = datasets.metric_of(tested or train)
    if tested is not None:
        return _Sides(fitted, run(names, data=tested, **options), train, tested, metric)
    kept, held = _split(fitted)
    note(f"{train}: a fifth of each class is held out to score on; --test names a dataset for that")
    return _Sides(fitted.select(kept), fitted.select(held), train, train, metric)


def _specs(data: str, test: str | None) -> tuple[str, str | None]:
    """(what to train on, what to test on): a dataset's own two splits where only its name is given."""
    from zoo.datasets import canonical

    if test is not None:
        return canonical(data), canonical(test)
    if ":" not in data and "[" not in data:
        try:
            return canonical(f"{data}:train"), canonical(data)
        except InputError:
            canonical(data)  # the name itself may be what is wrong
    return canonical(data), None


def _split(runs: "Runs") -> "tuple[np.ndarray, np.ndarray]":
    import numpy as np
    import torch

    from probes.multilabel import strata
    from zoo.core.splits import hold_out

    first = next(iter(runs.values()))
    if any(not np.array_equal(first.ids, other.ids) for other in runs.values()):
        raise InputError("the models' outputs are of different examples; run them on the same dataset")
    if first.labels is None and first.targets is None:
        raise InputError(f"{first.dataset}: no labels; a probe needs them")
    codes = first.labels if first.labels is not None else strata(torch.from_numpy(first.targets))
    return hold_out(codes, HELD_OUT, seed=0)


def _scored(sides: _Sides, metric: str, **options: Any) -> _Shown:
    import probes
    from probes.charts import score_chart

    frame = probes.probe(sides.train, sides.test, metric=metric, **options)
    rows = _records(frame.sort_values("score", ascending=False, kind="stable"))
    shown = [{metric if key == "score" else key: value for key, value in row.items() if key not in HIDDEN} for row in rows]
    return _Shown(shown, {"models": rows}, lambda: score_chart(frame))


def _concatenated(sides: _Sides, metric: str, base: str | None, seeds: int) -> _Shown:
    import probes
    from probes.charts import concatenation_chart

    features, labels, test = sides.features()
    base = base or next(iter(features))
    frame = probes.concatenate(features, labels, base, seeds=seeds, test=test, metric=metric)
    rows: dict[str, dict[str, Any]] = {}
    for other, rate in dict.fromkeys(zip(frame["other"], frame["rate"], strict=True)):
        mean, error = probes.mean_and_error(frame.loc[(frame["other"] == other) & (frame["rate"] == rate), "accuracy"])
        score = f"{mean:.4f}" + (f"±{error:.4f}" if error > 0 else "")
        rows.setdefault(other, {"with": other})[f"{100 * rate:g}/{100 * (1 - rate):g}"] = score
    title = f"{metric} of {base}'s dimensions with others', shares in %"
    return _Shown(list(rows.values()), {"base": base, "draws": _records(frame)}, lambda: concatenation_chart(frame), title)


def _compressed(
    sides: _Sides, metric: str, base: str | None, target: float | None, multiples: int | None, order: str
) -> _Shown:
    import probes
    from probes.charts import compression_chart

    features, labels, (test_features, test_labels) = sides.features()
    base = base or next(iter(features))
    if base not in features:
        raise InputError(f"--base {base}: expected one of {', '.join(features)}")
    if target is None:
        alone = probes.probe(sides.train[base], sides.test[base], metric=metric)
        target = float(alone["score"].iloc[0])
        note(f"target: {target:.4f}, what {base} reaches alone")
    found = {}
    for other in [name for name in features if name != base] or [base]:
        pair = (base, other)
        width = sum(features[name].shape[1] for name in pair)
        found[other] = probes.compress(
            {name: features[name] for name in pair},
            labels,
            multiples=multiples or (256 if width > 256 * STEPS // 2 else max(1, width // STEPS)),
            target=target,
            test=({name: test_features[name] for name in pair}, test_labels),
            order=order,  # type: ignore[arg-type]  # checked there
            metric=metric,
        )
    rows = [
        {
            "with": other,
            f"dimensions for {target:.4g}": result.dimensions,
            "of": len(result.order),
            f"{metric} with all": float(result.frame["accuracy"].iloc[-1]),
        }
        for other, result in found.items()
    ]
    first = {"least-redundant": "least redundant", "most-redundant": "most redundant"}.get(order, "most varying")
    title = f"dimensions of {base}'s features with others', {first} first"
    return _Shown(rows, {"base": base, "results": found}, lambda: compression_chart(found), title)


def _stacked(sides: _Sides, metric: str, standardised: bool) -> _Shown:
    import probes
    from probes.charts import stacking_chart

    features, labels, test = sides.features(several=True)
    frame = probes.stack(features, labels, test=test, multilabel=labels.ndim == 2, standardised=standardised, metric=metric)
    rows = [
        {
            "models": row["first"] if row["second"] is None else f"{row['first']} + {row['second']}",
            "dimensions": row["dimensions"],
            metric: row["score"],
            "gain": row["gain"],
        }
        for row in _records(frame.sort_values("score", ascending=False, kind="stable"))
    ]
    return _Shown(rows, {"results": _records(frame)}, lambda: stacking_chart(frame))


def _records(frame: "pd.DataFrame") -> list[dict[str, Any]]:
    """The rows of a frame, by column name."""
    return [{str(key): value for key, value in row.items()} for row in frame.to_dict("records")]
