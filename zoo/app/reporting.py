"""`zoo report` and `zoo demo`: one page a person would rather read than tables."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from zoo.app.printing import note, print_json
from zoo.errors import InputError

if TYPE_CHECKING:
    from zoo.app.report.document import Document

PANEL = "Reports"
Format = Literal["html", "md", "json"]
Kind = Literal["logits", "probabilities", "predictions"]
DataOption = Annotated[str, typer.Option("--data", "-d", help="Dataset the models are compared on.")]
BaseOption = Annotated[str | None, typer.Option(help="Model the ensemble search starts from; default: the best one.")]


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
    app.command("report", rich_help_panel=PANEL)(report)
    app.command("demo", rich_help_panel=PANEL)(demo)


def report(
    names: Annotated[
        list[str] | None, typer.Argument(help="Models by name or pattern; default: all stored outputs.")
    ] = None,
    data: Annotated[str | None, typer.Option("--data", "-d", help="Dataset the models are compared on.")] = None,
    outputs: Annotated[
        Path | None, typer.Option("--from", help="Your own predictions: a folder of npz files, or one parquet or csv file.")
    ] = None,
    kind: Annotated[Kind | None, typer.Option(help="What those files hold: logits, probabilities or predictions.")] = None,
    transfer: Annotated[
        str | None, typer.Option(help="Dataset with train and test splits that features are probed on.")
    ] = None,
    base: BaseOption = None,
    steps: Annotated[int, typer.Option(help="Members the ensemble search may add.")] = 10,
    seed: Annotated[int, typer.Option(help="Seed of every random split.")] = 0,
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write.")] = Path("report.html"),
    format: Annotated[Format | None, typer.Option(help="html, md or json; default: by the file's ending.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print every number as JSON instead of writing a page.")] = False,
) -> None:
    """Write a report on several models: mistakes, ensembles, calibration, features.

    [dim]zoo report 'resnet8-*' --data digits:test -o report.html[/dim]

    [dim]zoo report --from my_predictions/[/dim]
    """
    from zoo.app.report.building import build
    from zoo.app.report.gathering import gather, imported

    if outputs is not None and (names or transfer):
        raise InputError("--from: a report on your own files takes no model names and no --transfer")
    material = imported(outputs, kind, data) if outputs is not None else gather(names, data, transfer)
    document = build(material, base, steps, seed)
    if json:
        print_json(document.numbers)
    else:
        _write(document, output, format)


def demo(
    data: DataOption = "digits-holes",
    models: Annotated[str | None, typer.Option(help="Names or patterns with commas; default: 21 small recipes.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Report to write.")] = Path("report.html"),
    json: Annotated[bool, typer.Option("--json", help="Print every number as JSON as well as writing the page.")] = False,
) -> None:
    """Train small models with nine objectives, compare and combine them, and write a report. Takes minutes.

    [dim]zoo demo[/dim]

    [dim]zoo demo --data cifar10 --models 'resnet20-*,all-cnn-c-*'[/dim]
    """
    from zoo.app.demonstration import demonstrate

    document = demonstrate(data, models.split(",") if models else None)
    _write(document, output, None)
    if json:
        print_json(document.numbers)


def _write(document: "Document", output: Path, format: Format | None) -> None:
    from zoo._storage import files
    from zoo.app.printing import plain
    from zoo.app.report.html import to_html
    from zoo.app.report.markdown import to_markdown

    chosen = format or output.suffix.lstrip(".")
    if chosen == "html":
        text = to_html(document)
    elif chosen == "md":
        text = to_markdown(document)
    elif chosen == "json":
        import json

        text = json.dumps(plain(document.numbers), indent=2, ensure_ascii=False) + "\n"
    else:
        raise InputError(f"{output}: expected a file that ends in .html, .md or .json, or --format")
    files.write(output, text.encode())
    note(f"wrote {output} ({len(text) / 2**20:.1f} MB)")
