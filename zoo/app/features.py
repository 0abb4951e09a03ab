"""`zoo similarity` and `zoo separation`: what models' layers and embeddings look like."""

from typing import TYPE_CHECKING, Annotated, Any

import typer

from zoo.app import options
from zoo.app.terminal import matrix_fits, note, print_table
from zoo.core.units import percent
from zoo.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

BatchSize = Annotated[int | None, typer.Option("--batch-size", help="Images per forward pass. Default: what memory allows.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("similarity", rich_help_panel=options.FEATURES)(options.command(similarity))
    app.command("separation", rich_help_panel=options.FEATURES)(options.command(separation))


def similarity(
    *,
    first: Annotated[str, options.model_argument("A model.", "A")],
    second: Annotated[str, options.model_argument("Another model, or the same.", "B")],
    data: options.Data = None,
    layers: Annotated[list[str] | None, typer.Option("--layer", help="Only this layer. May be repeated.")] = None,
    kernel: Annotated[str, typer.Option("--kernel", help="linear, cosine or rbf.")] = "linear",
    bandwidth: Annotated[float, typer.Option("--bandwidth", help="rbf: bandwidth, in median distances.")] = 1.0,
    epochs: Annotated[int, typer.Option("--epochs", help="Passes over the dataset; more passes, less noise.")] = 1,
    batch_size: BatchSize = None,
    pretrained: options.Pretrained = True,
    model_files: options.ModelFiles,
    results: options.Results,
) -> None:
    """Compare the layers of two models: CKA of every layer of A with every layer of B.

    [dim]zoo similarity resnet8-softmax resnet8-cosine --data digits:test -o cka.html[/dim]
    """
    from diversity import cka
    from diversity.feature_charts import similarity_chart

    results.check(options.TABLE, options.NUMBERS, *options.CHARTS)
    first, second = model_files.named([first, second])
    frame = cka(
        first,
        second,
        data=data,
        layers=layers or None,
        batch_size=batch_size,
        epochs=epochs,
        kernel=kernel,  # type: ignore[arg-type]  # checked there
        bandwidth=bandwidth,
        pretrained=pretrained,
    )
    value = {
        "first": first, "second": second, "kernel": kernel, "rows": frame.attrs["rows"], "first_layers": list(frame.index),
        "second_layers": list(frame.columns), "cka": frame.to_numpy(),
    }  # fmt: skip

    results.deliver(
        value,
        lambda: _print_similarity(frame),
        table=frame.rename_axis("layer").reset_index(),
        chart=lambda: similarity_chart(frame, f"CKA on {data or 'the default dataset'}"),
    )


def _print_similarity(frame: "pd.DataFrame") -> None:
    """Print the matrix if it fits the terminal, else for each layer of A the most similar layer of B."""
    if matrix_fits(frame):
        print_table([{"layer": name, **{str(k): float(v) for k, v in row.items()}} for name, row in frame.iterrows()])
        return
    values = frame.to_numpy()
    best = frame.fillna(-1.0).to_numpy().argmax(1)
    print_table(
        {"layer": name, "most similar": frame.columns[best[k]], "CKA": float(values[k, best[k]])}
        for k, name in enumerate(frame.index)
    )
    note(f"{frame.shape[0]} x {frame.shape[1]} layers; --output or --json give all of them")


def separation(
    *,
    models: options.Models,
    layers: Annotated[bool, typer.Option("--layers", help="Of every hidden layer, not only of the embeddings.")] = False,
    training: Annotated[bool, typer.Option("--training", help="Over the epochs of training, from its log.")] = False,
    metric: Annotated[
        str, typer.Option("--distance", help="With --layers: cosine, centered-cosine or euclidean.")
    ] = "cosine",
    batch_size: BatchSize = None,
    pretrained: options.Pretrained = True,
    inputs: options.ModelInputs,
    results: options.Results,
) -> None:
    """Measure class separation R²: the fraction of the embeddings' variance that lies between classes.

    0: classes are not separated; 1: each class is one point. Models that separate their classes more tend to classify them
    better and to transfer worse.

    [dim]zoo separation resnet8-softmax resnet8-cosine --data digits:test[/dim]
    """
    import diversity

    results.check(options.TABLE, options.NUMBERS, *options.CHARTS)
    if layers and training:
        raise InputError("cannot be combined with --training", argument="layers")
    if layers:
        found = diversity.layer_separation(
            inputs.named(models),
            inputs.data,
            metric,  # type: ignore[arg-type]  # checked there
            batch_size=batch_size,
            pretrained=pretrained,
        )
        shown = found[["model", "layer", "r2"]]
    elif training:
        from diversity.training_curves import separation_over_training

        shown = found = separation_over_training(inputs.named(models))
    else:
        shown = found = _of_embeddings(models, inputs, batch_size, pretrained)
    formats = {"accuracy": percent} if "accuracy" in shown else {}
    results.deliver(found, lambda: print_table(shown, formats=formats), table=found, chart=lambda: _separation_chart(found))


def _of_embeddings(
    models: list[str], inputs: options.ModelInputs, batch_size: int | None, pretrained: bool
) -> "pd.DataFrame":
    """Return one row per model: its accuracy, and the class separation of its embeddings by each metric."""
    import pandas as pd

    from diversity.separation import METRICS, class_separation

    rows: list[dict[str, Any]] = []
    for outputs in inputs.runs(models, embeddings=True, pretrained=pretrained, batch_size=batch_size or 64).values():
        if outputs.labels is None:
            raise InputError("no labels, which class separation needs", where=f"{outputs.name} on {outputs.dataset}")
        scored = outputs.kind != "embeddings" and outputs.label_classes is None
        embeddings = outputs.require_embeddings()
        rows.append(
            {"model": outputs.name, "accuracy": outputs.accuracy if scored else None}
            | {metric: class_separation(embeddings, outputs.labels, metric) for metric in METRICS}
        )
    return pd.DataFrame(rows)


def _separation_chart(found: "pd.DataFrame") -> Any:
    from diversity.feature_charts import metrics_chart, separation_chart, training_chart

    if "epoch" in found:
        return training_chart(found)
    return separation_chart(found) if "layer" in found else metrics_chart(found)
