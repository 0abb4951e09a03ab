"""`zoo report` and `zoo demo`: a page about several models."""

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast, get_args

import typer

from zoo.app.example_groups import Groups, read_groups
from zoo.app.ood import run_on
from zoo.app.options import (
    REPORT,
    Base,
    Candidates,
    Inputs,
    Json,
    OptionalModels,
    Seed,
    Steps,
    check_folder,
    command,
    spec_option,
)
from zoo.app.terminal import fill, note, print_json, print_text, size, wrote
from zoo.core.units import count
from zoo.errors import InputError, UnknownName, ZooError

if TYPE_CHECKING:
    from zoo.app.report.document import Document
    from zoo.app.report.inputs import ReportInputs
    from zoo.outputs.outputs import Runs

Format = Literal["html", "md", "json"]
Page = Annotated[Path, typer.Option("--output", "-o", metavar="FILE", help="Page to write: .html, .md or .json.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("report", rich_help_panel=REPORT)(command(report))
    app.command("demo", rich_help_panel=REPORT)(command(demo))


def report(
    *,
    models: OptionalModels = None,
    transfer: Annotated[str | None, spec_option("--transfer", "Dataset to probe embeddings on.")] = None,
    unlabelled: Annotated[
        list[str] | None,
        spec_option("--unlabelled", "Dataset without labels to estimate accuracy on. May be repeated."),
    ] = None,
    outside: Annotated[
        list[str] | None,
        spec_option("--out", "Out-of-distribution dataset to tell from the models' dataset. May be repeated."),
    ] = None,
    groups: Groups = None,
    candidates: Candidates = None,
    base: Base = None,
    steps: Steps = 10,
    seed: Seed = 0,
    output: Page = Path("report.html"),
    format: Annotated[Format | None, typer.Option("--format", help="Default: by the file's ending.")] = None,
    static: Annotated[bool, typer.Option("--static", help="A small page without the explorer.")] = False,
    inputs: Inputs,
    json: Json = False,
) -> None:
    """Write a report on several models: mistakes, ensembles, calibration, doubtful labels, embeddings, what to serve.

    Without MODELS: all models with stored outputs on the dataset. --candidates are judged by their cards.

    [dim]zoo report @cifar10 -o report.html[/dim]

    [dim]zoo report --from predictions/[/dim]

    [dim]zoo report 'resnet8-*' --data digits:test --out digits-holes:test --groups class[/dim]

    [dim]zoo report 'resnet8-*' --unlabelled digits:test~noise2 --candidates 'resnet20-*'[/dim]
    """
    from zoo.app.report.compose import compose

    chosen = None if json else _format(output, format)
    read = None if groups is None else read_groups(groups)
    material = replace(_material(models, inputs, transfer, unlabelled or [], outside or [], candidates), groups=read)
    first = next(iter(material.runs.values()))
    note(f"comparing {count(len(material.runs), 'model')} on {count(len(first), 'example')}")
    document = compose(material, base, steps, seed)
    if chosen is None:
        print_json(document.numbers)
    else:
        _write(document, output, chosen, static)
        _print_findings(document)


def _material(
    models: list[str] | None,
    inputs: Inputs,
    transfer: str | None,
    unlabelled: list[str],
    outside: list[str],
    candidates: list[str] | None,
) -> "ReportInputs":
    from zoo.app.candidates import candidate_cards
    from zoo.app.report.inputs import ReportInputs, available_images, transfer_embeddings

    runs = inputs.runs(models) if models or inputs.files else _stored(inputs)
    spec = next(iter(runs.values())).dataset
    if transfer is not None and (spec is None or not models):
        raise InputError("needs models by name, on a known dataset", argument="transfer")
    for argument, others in (("unlabelled", unlabelled), ("outside", outside)):
        if others and not models:
            raise InputError("needs models by name", argument=argument)
    alone = [name for name, outputs in runs.items() if outputs.kind == "predictions"]
    if outside and alone:
        raise InputError(f"needs probabilities; {alone[0]} has predictions only", argument="outside")
    cards = candidate_cards(candidates, runs, runs.names[0]) if candidates else []
    features = None if transfer is None or spec is None else transfer_embeddings(runs.names, spec, transfer)
    return ReportInputs(
        runs,
        images=available_images(spec),
        features=features,
        unlabelled=tuple(run_on(runs.names, other, "unlabelled", fresh=inputs.fresh) for other in unlabelled),
        outside=tuple(run_on(runs.names, other, "outside", fresh=inputs.fresh) for other in outside),
        candidates=tuple(cards),
        imported=", ".join(map(str, inputs.files)) if inputs.files else None,
    )


def _stored(inputs: Inputs) -> "Runs":
    from zoo.outputs.store import open_runs

    try:
        runs = open_runs("*", inputs.data)
    except UnknownName as error:
        hint = "Name models, such as @cifar10, or pass {files=PREDICTIONS}"
        raise InputError("no models are named, and no outputs are stored", argument="models", hint=hint) from error
    return runs.common() if inputs.common else runs


def demo(
    *,
    models: OptionalModels = None,
    data: Annotated[str, spec_option("--data", "Dataset to train and compare on.")] = "digits-holes",
    output: Page = Path("report.html"),
    images: Annotated[bool, typer.Option("--images", help="Download the CIFAR-10 images that study.html shows.")] = False,
    json: Json = False,
) -> None:
    """Report on the shipped models (study.html); then train small models, compare and combine them, and report on those.

    Takes minutes. Without MODELS: 21 small recipes.

    [dim]zoo demo[/dim]

    [dim]zoo demo --images[/dim]

    [dim]zoo demo 'resnet20-*' 'all-cnn-c-*' --data cifar10[/dim]
    """
    from zoo.app.demo import demonstrate, fetch_images, study

    chosen = _format(output)
    if images:
        if models:
            raise InputError("applies to the study page, which is written only if no models are named", argument="images")
        fetch_images()
    shipped = None if models else study()
    if shipped is not None:
        _write(shipped, output.with_name(f"study{output.suffix}"), chosen)
        if not json:
            _print_findings(shipped)
    document = demonstrate(data, models)
    try:
        _write(document, output, chosen)
    finally:
        if json:
            print_json(document.numbers)
        else:
            _print_findings(document)


def _print_findings(document: "Document") -> None:
    for finding in document.findings:
        print(fill(f"{finding.title}: {finding.sentence}", "- "))


def _format(output: Path, format: Format | None = None) -> Format:
    """Return the format of a page, by its file's ending if none is given; checked before the work begins."""
    chosen = format or output.suffix.lstrip(".").lower()
    if chosen not in get_args(Format):
        raise InputError(
            argument="output", expected="a file that ends in .html, .md or .json", found=str(output), hint="Or pass {format}"
        )
    check_folder(output)
    return cast(Format, chosen)


def _write(document: "Document", output: Path, format: Format, static: bool = False) -> None:
    """Write a report; print it if the file cannot be written, because it took all the work."""
    from zoo.app.report import rendered
    from zoo.app.report.markdown import to_markdown
    from zoo.core import files

    data = rendered(document, f".{format}", static)
    try:
        files.write(output, data)
    except (OSError, ZooError):
        print_text(to_markdown(document))
        raise
    wrote(output, size(len(data)))
