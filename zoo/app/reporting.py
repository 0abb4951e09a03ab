"""`zoo report` and `zoo demo`: one page a person would rather read than tables."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast, get_args

import typer

from zoo.app.bare_files import takes_bare_files
from zoo.app.printing import note, print_json
from zoo.errors import InputError, ZooError

if TYPE_CHECKING:
    from zoo.app.report.document import Document

PANEL = "Reports"
Format = Literal["html", "md", "json"]
Kind = Literal["logits", "probabilities", "predictions"]
DataOption = Annotated[str, typer.Option("--data", "-d", help="Dataset the models are compared on.")]
BaseOption = Annotated[str | None, typer.Option(help="Model the ensemble search starts from; default: the best one.")]


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
    app.command("report", rich_help_panel=PANEL)(takes_bare_files(report))
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
    unlabelled: Annotated[
        list[str] | None, typer.Option(help="Data without labels to estimate accuracy on; may be given again.")
    ] = None,
    candidates: Annotated[
        list[str] | None, typer.Option(help="Models that might be added, judged by their cards: names or patterns.")
    ] = None,
    base: BaseOption = None,
    steps: Annotated[int, typer.Option(help="Members the ensemble search may add.")] = 10,
    seed: Annotated[int, typer.Option(help="Seed of every random split.")] = 0,
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write.")] = Path("report.html"),
    format: Annotated[Format | None, typer.Option(help="html, md or json; default: by the file's ending.")] = None,
    static: Annotated[bool, typer.Option("--static", help="The small page: one pair, one ensemble.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print every number as JSON instead of writing a page.")] = False,
) -> None:
    """Write a report on several models: mistakes, ensembles, what to serve, calibration, labels to doubt, features.

    [dim]zoo report 'resnet8-*' --data digits:test -o report.html[/dim]

    [dim]zoo report 'resnet8-*' --unlabelled digits:test~noise2 --candidates 'resnet20-*'[/dim]

    [dim]zoo report --from my_predictions/[/dim]
    """
    from zoo.app.report.compose import compose
    from zoo.app.report.material import of_files, of_models

    chosen = None if json else _format(output, format)
    if outputs is not None and (names or transfer or unlabelled or candidates):
        raise InputError(
            "--from: a report on your own files takes no model names and no --transfer, --unlabelled or --candidates"
        )
    if outputs is not None:
        material = of_files(outputs, kind, data)
    else:
        material = of_models(names, data, transfer, unlabelled or (), candidates or ())
    document = compose(material, base, steps, seed)
    if chosen is None:
        print_json(document.numbers)
    else:
        _write(document, output, chosen, static)


def demo(
    data: DataOption = "digits-holes",
    models: Annotated[str | None, typer.Option(help="Names or patterns with commas; default: 21 small recipes.")] = None,
    output: Annotated[Path, typer.Option("--output", "-o", help="Report to write.")] = Path("report.html"),
    json: Annotated[bool, typer.Option("--json", help="Print every number as JSON as well as writing the page.")] = False,
) -> None:
    """Report on the zoo in the box (study.html), then train small models with nine objectives, compare and combine them,
    and report on those. Takes minutes.

    [dim]zoo demo[/dim]

    [dim]zoo demo --data cifar10 --models 'resnet20-*,all-cnn-c-*'[/dim]
    """
    from zoo.app.demonstration import demonstrate, study

    chosen = _format(output)
    found = None if models else study()
    if found is not None:
        _write(found, output.with_name(f"study{output.suffix}"), chosen)
    document = demonstrate(data, models.split(",") if models else None)
    try:
        _write(document, output, chosen)
    finally:
        if json:
            print_json(document.numbers)


def _format(output: Path, format: Format | None = None) -> Format:
    """What to write, by the file's ending where it is not said; before the work rather than after it."""
    chosen = format or output.suffix.lstrip(".").lower()
    if chosen not in get_args(Format):
        raise InputError(f"--output {output}: expected a file that ends in .html, .md or .json, or --format")
    if not output.absolute().parent.is_dir():
        raise InputError(f"--output {output}: there is no folder {output.absolute().parent}")
    return cast(Format, chosen)


def _write(document: "Document", output: Path, format: Format, static: bool = False) -> None:
    """The report as a file; where that cannot be written, as text on standard output, for it took all the work."""
    import json

    from zoo.app.printing import plain
    from zoo.app.report.explorer import to_explorer
    from zoo.app.report.html import to_html
    from zoo.app.report.markdown import to_markdown
    from zoo.core import files

    if format == "json":
        text = json.dumps(plain(document.numbers), indent=2, ensure_ascii=False) + "\n"
    else:
        page = to_html if static else to_explorer
        text = page(document) if format == "html" else to_markdown(document)
    data = text.encode("utf-8", "backslashreplace")  # a name that is not UTF-8
    try:
        files.write(output, data)
    except (OSError, ZooError):
        print(to_markdown(document))
        raise
    note(f"wrote {output} ({len(data) / 2**20:.1f} MB)")
