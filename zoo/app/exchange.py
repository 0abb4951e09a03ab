"""`zoo import` and `zoo export`: outputs from and to files."""

import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from zoo.app import options
from zoo.app.checks import check_files
from zoo.app.run import print_runs
from zoo.app.terminal import note, print_json, size, wrote
from zoo.core.units import count
from zoo.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from zoo.outputs.outputs import Runs

BUNDLE, TABLES = ".safetensors", (".csv", ".parquet")


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("import", rich_help_panel=options.RUN)(options.command(import_))
    app.command("export", rich_help_panel=options.RUN)(options.command(export))


def import_(
    source: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILES...",
            help="csv, tsv, json, jsonl, parquet, feather, npz, npy or safetensors files, or folders of them.",
            show_default=False,
        ),
    ],
    data: Annotated[str | None, options.spec_option("--data", "Dataset of the outputs: a known one, or a new name.")] = None,
    name: Annotated[str | None, typer.Option("--name", help="Name of the model. Default: the file's name.")] = None,
    kind: Annotated[
        options.Kind | None, typer.Option("--kind", help="What the numbers are, if the files do not say it.")
    ] = None,
    link: Annotated[
        Literal["softmax", "sigmoid"] | None,
        typer.Option("--link", help="How logits become probabilities. Default: softmax.", show_default=False),
    ] = None,
    labels: Annotated[Path | None, typer.Option(help="True classes: .npy, or .txt with one per line.")] = None,
    classes: Annotated[Path | None, typer.Option(help="Class names: .txt with one per line.")] = None,
    ids: Annotated[Path | None, typer.Option(help="Ids of the examples: .txt with one per line.")] = None,
    columns: Annotated[
        list[str] | None,
        typer.Option(
            "--column", metavar="MEANING=COLUMN", help="Which column holds what, e.g. labels=answer. May be repeated."
        ),
    ] = None,
    id_pattern: Annotated[
        str | None,
        typer.Option(metavar="REGEX", help="The group in parentheses is the part of an id that identifies the example."),
    ] = None,
    positive_class: Annotated[
        str | None,
        typer.Option("--positive-class", metavar="CLASS", help="The class that one probability per example refers to."),
    ] = None,
    drop_missing: Annotated[
        bool, typer.Option("--drop-missing", help="Drop rows that lack a label, a prediction, an id or a number.")
    ] = False,
    drop_unknown: Annotated[
        bool, typer.Option("--drop-unknown", help="Drop rows whose prediction is none of the classes, or of the labels.")
    ] = False,
    meta: Annotated[Path | None, typer.Option(help="Table about the models: model, family, params, ...")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Replace outputs stored under the same name.")] = False,
    json: options.Json = False,
) -> None:
    """Store outputs that another program computed; all commands find them by name.

    [dim]zoo import mine.npz --kind logits --data cifar10:test[/dim]

    [dim]zoo import predictions/ --data cifar10.1-v6 --meta models.csv[/dim]

    [dim]zoo import study.safetensors[/dim]
    """
    from zoo.cards.names import similar
    from zoo.datasets import is_user_dataset, user_datasets
    from zoo.datasets.listing import list_datasets
    from zoo.outputs.outputs import Runs
    from zoo.outputs.store import save

    pairs = [text.partition("=")[::2] for text in columns or ()]
    if not all(column for _, column in pairs):
        raise InputError(
            argument="columns", expected="MEANING=COLUMN, such as labels=answer", found=", ".join(columns or ())
        )
    check_files(source, "source")
    runs = options.read_outputs(
        source,
        data,
        kind,
        name=name,
        link=link,
        labels=labels,
        classes=classes,
        ids=ids,
        columns=dict(pairs) or None,
        id_pattern=id_pattern,
        positive_class=positive_class,
        drop_missing=drop_missing,
        drop_unknown=drop_unknown,
        meta=meta,
    )
    is_new = data is not None and is_user_dataset(data) and not user_datasets.exists(data)
    print_runs(Runs(save(outputs, replace=replace) for outputs in runs.values()), json)
    if is_new:
        close = similar(str(data), [listed.name for listed in list_datasets() if listed.name != data])
        hint = f" (did you mean {' or '.join(close)}?)" if close else ""
        note(f"{data} is a new dataset{hint}: known by these outputs, without images")


def export(
    models: options.Models,
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="File to write: .safetensors (for zoo import and NumPy), .csv or .parquet.",
        ),
    ],
    inputs: options.ModelInputs,
    embeddings: Annotated[
        list[str] | None,
        options.models_option("--embeddings-of", "Include the embeddings of these models (.safetensors only)."),
    ] = None,
    json: options.Json = False,
) -> None:
    """Write the outputs of models on one dataset to one file.

    .safetensors holds logits as float16: predictions do not change, and the file says how far any probability moved.
    .csv and .parquet have a row per example and model: id, label, prediction, confidence and all probabilities.

    [dim]zoo export 'resnet8-*' --data digits:test -o study.safetensors[/dim]

    [dim]zoo export @cifar10 -o study.parquet[/dim]
    """
    from zoo.outputs.bundle import export_outputs

    options.check_output(output, (BUNDLE, *TABLES))
    is_table = output.suffix.lower() in TABLES
    if is_table and embeddings:
        raise InputError("are written to .safetensors files only", argument="embeddings", found=str(output))
    runs = inputs.runs(models, embeddings=True if embeddings else None)
    if is_table:
        rows = write_rows(runs, output)
        if json:
            print_json({"models": runs.names, "rows": rows, "path": output})
        wrote(output, f"{count(rows, 'row')}, {count(len(runs), 'model')}, {size(output.stat().st_size)}")
        return
    chosen = runs.subset(embeddings).names if embeddings else []
    about = export_outputs(runs, output, chosen)
    if json:
        print_json(about)
    change = max(model["largest_change"] for model in about["models"])
    wrote(output, f"{count(len(runs), 'model')}, embeddings of {len(chosen)}, {size(output.stat().st_size)}")
    note("predictions are unchanged" + (f", probabilities moved by at most {change:.1g}" if change else ""))


def write_rows(runs: "Runs", path: Path) -> int:
    """Write one row per example and model as .csv or .parquet; return the number of rows."""
    from zoo.core import files
    from zoo.core.text import csv_bytes

    buffer, rows = io.BytesIO(), 0
    if path.suffix.lower() == ".csv":
        for number, frame in enumerate(_frames(runs)):
            header = b"" if number == 0 else csv_bytes(frame.head(0))
            buffer.write(csv_bytes(frame)[len(header) :])
            rows += len(frame)
    else:
        import pyarrow
        import pyarrow.parquet

        writer = None
        for frame in _frames(runs):
            table = pyarrow.Table.from_pandas(frame, preserve_index=False)
            writer = writer or pyarrow.parquet.ParquetWriter(buffer, table.schema)
            writer.write_table(table.cast(writer.schema))
            rows += len(frame)
        if writer is not None:
            writer.close()
    files.write(path, buffer.getvalue())
    return rows


def _frames(runs: "Runs") -> "Iterator[pd.DataFrame]":
    """Yield a table per model, all with the same columns. Probabilities are missing for models with predictions only."""
    import numpy as np
    import pandas as pd

    aligned = runs.aligned()
    has_probabilities = any(outputs.kind in ("logits", "probabilities") for outputs in aligned.values())
    for outputs in aligned.values():
        columns: dict[str, Any] = {"model": outputs.name, "id": outputs.ids.tolist()}
        columns["label"] = _names(outputs.labels, outputs.label_classes or outputs.classes, len(outputs))
        columns["prediction"] = _names(outputs.predictions, outputs.classes, len(outputs))
        if has_probabilities:
            known = outputs.kind in ("logits", "probabilities")
            values = (
                np.asarray(outputs.probabilities, np.float32)
                if known
                else np.full((len(outputs), len(outputs.classes)), np.nan)
            )
            columns["confidence"] = values.max(1)
            columns |= {f"probabilities.{name}": values[:, k] for k, name in enumerate(outputs.classes)}
        yield pd.DataFrame(columns)


def _names(indices: Any, classes: Sequence[str], rows: int) -> list[str | None]:
    if indices is None:
        return [None] * rows
    return [classes[k] if k >= 0 else None for k in indices.tolist()]
