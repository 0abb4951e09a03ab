"""Commands about features: `zoo similarity` and `zoo separation`."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from zoo.app.bare_files import takes_bare_files
from zoo.app.charting import ChartOption, check_chart, save_chart
from zoo.app.printing import JsonOption, note, print_json, print_table
from zoo.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

PANEL = "Features"
TERMINAL = 80  # columns

DataOption = Annotated[str | None, typer.Option(help="Dataset: digits:test, cifar10, folder:PATH, ...")]
RandomOption = Annotated[bool, typer.Option("--random", help="Random weights; nothing is downloaded.")]
LayerOption = Annotated[list[str] | None, typer.Option("--layer", help="Only this layer; may be given several times.")]
BatchOption = Annotated[int | None, typer.Option(help="Images in one batch; as many as memory allows by default.")]


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
    app.command("similarity", rich_help_panel=PANEL)(takes_bare_files(similarity))
    app.command("separation", rich_help_panel=PANEL)(takes_bare_files(separation))


def similarity(
    first: Annotated[str, typer.Argument(help="A model.", metavar="A")],
    second: Annotated[str, typer.Argument(help="Another, or the same again.", metavar="B")],
    data: DataOption = None,
    layer: LayerOption = None,
    kernel: Annotated[str, typer.Option(help="linear, cosine or rbf.")] = "linear",
    bandwidth: Annotated[float, typer.Option(help="Of rbf, in median distances.")] = 1.0,
    epochs: Annotated[int, typer.Option(help="Times through the dataset; more, less noise.")] = 1,
    batch_size: BatchOption = None,
    random: RandomOption = False,
    chart: ChartOption = None,
    json: JsonOption = False,
) -> None:
    """How alike two models' layers are: CKA of every layer of A with every layer of B.

    [dim]zoo similarity resnet8-softmax resnet8-cosine --data digits:test --chart cka.html[/dim]
    """
    from diversity.layerwise import cka

    check_chart(chart)
    frame = cka(
        first,
        second,
        data=data,
        layers=layer or None,
        batch_size=batch_size,
        epochs=epochs,
        kernel=kernel,  # type: ignore[arg-type]  # checked there
        bandwidth=bandwidth,
        pretrained=not random,
    )
    if json:
        print_json(
            {
                "first": first,
                "second": second,
                "kernel": kernel,
                "rows": frame.attrs["rows"],
                "first_layers": list(frame.index),
                "second_layers": list(frame.columns),
                "cka": frame.to_numpy(),
            }
        )
    else:
        _print_similarity(frame)
    if chart is not None:
        from diversity.feature_charts import similarity_chart

        save_chart(similarity_chart(frame, f"CKA on {data or 'the default dataset'}"), chart)


def separation(
    names: Annotated[list[str], typer.Argument(help="Models, by name or pattern.", metavar="NAMES")],
    data: DataOption = None,
    layers: Annotated[bool, typer.Option("--layers", help="Of every hidden layer, not of the embedding alone.")] = False,
    training: Annotated[bool, typer.Option("--training", help="Over the epochs of training, from its log.")] = False,
    metric: Annotated[str, typer.Option(help="With --layers: cosine, centered-cosine or euclidean.")] = "cosine",
    batch_size: BatchOption = None,
    random: RandomOption = False,
    chart: ChartOption = None,
    json: JsonOption = False,
) -> None:
    """Class separation R²: how much of a model's spread lies between the classes.

    0 is none, 1 all of it. Models with more of it tend to be better at their own classes and worse at others.

    [dim]zoo separation resnet8-softmax resnet8-cosine --data digits:test[/dim]
    """
    check_chart(chart)
    if layers and training:
        raise InputError("expected one of --layers and --training, found both")
    if layers:
        from diversity.layerwise import layer_separation

        found = layer_separation(names, data, metric, batch_size=batch_size, pretrained=not random)  # type: ignore[arg-type]
        shown = found[["model", "layer", "r2"]]
    elif training:
        from diversity.over_training import separation_over_training

        found = separation_over_training(names)
        shown = found
    else:
        found = _of_embeddings(names, data, batch_size, not random)
        shown = found
    if json:
        print_json(found)
    else:
        print_table([{str(key): value for key, value in row.items()} for row in shown.to_dict("records")])
    if chart is not None:
        save_chart(_separation_chart(found), chart)


def _of_embeddings(names: list[str], data: str | None, batch_size: int | None, pretrained: bool) -> "pd.DataFrame":
    """The three metrics of each model's embeddings, which are stored once made."""
    import pandas as pd

    from diversity.separation import METRICS, class_separation
    from zoo.runs.runner import run

    rows: list[dict[str, Any]] = []
    for outputs in run(names, data=data, pretrained=pretrained, batch_size=batch_size or 64).values():
        if outputs.labels is None:
            raise InputError(f"{outputs.name}: {outputs.dataset} has no labels, which class separation needs")
        scored = outputs.kind != "embeddings" and outputs.label_classes is None
        row = {"model": outputs.name, "accuracy": outputs.accuracy if scored else None}
        rows.append(
            row | {metric: class_separation(outputs.require_embeddings(), outputs.labels, metric) for metric in METRICS}
        )
    return pd.DataFrame(rows)


def _print_similarity(frame: "pd.DataFrame") -> None:
    """The whole matrix where it fits, else for each layer of A the layer of B that is most like it."""
    width = max(len(name) for name in frame.index) + 2
    widths = [max(len(name), 6) + 3 for name in frame.columns]
    if width + sum(widths) <= TERMINAL:
        print_table([{"layer": name, **{str(k): float(v) for k, v in row.items()}} for name, row in frame.iterrows()])
        return
    best = frame.fillna(-1.0).to_numpy().argmax(1)
    rows = [
        {"layer": name, "most like": frame.columns[best[k]], "cka": float(frame.to_numpy()[k, best[k]])}
        for k, name in enumerate(frame.index)
    ]
    print_table(rows)
    note(f"{frame.shape[0]} x {frame.shape[1]} layers; --chart or --json give all of them")


def _separation_chart(found: "pd.DataFrame") -> Any:
    from diversity.feature_charts import metrics_chart, separation_chart, training_chart

    if "epoch" in found:
        return training_chart(found)
    return separation_chart(found) if "layer" in found else metrics_chart(found)
