"""Commands that make, bring in and send off outputs: `zoo run`, `zoo import`, `zoo export`, `zoo verify`."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zoo.app.bare_files import takes_bare_files
from zoo.app.printing import JsonOption, note, print_json, print_table, size

if TYPE_CHECKING:
    from zoo.outputs.outputs import Outputs, Runs

PANEL = "Make outputs"
FEW = 3  # models that are said one by one
ResizeModeOption = Annotated[
    str | None,
    typer.Option(help="evaluation: as a model's card says; transfer: shortest side to its input; default: the dataset's."),
]


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
    app.command("run", rich_help_panel=PANEL)(takes_bare_files(run))
    app.command("import", rich_help_panel=PANEL)(import_)
    app.command("export", rich_help_panel=PANEL)(takes_bare_files(export))
    app.command("verify", rich_help_panel=PANEL)(verify)


def run(
    names: Annotated[list[str], typer.Argument(help="Models, by name or pattern.", metavar="NAMES")],
    data: Annotated[str | None, typer.Option(help="Dataset: digits:test, cifar10, folder:PATH, ...")] = None,
    random: Annotated[bool, typer.Option("--random", help="Random weights; nothing is downloaded.")] = False,
    batch_size: Annotated[int, typer.Option(help="Images in one forward pass.")] = 64,
    precision: Annotated[str, typer.Option(help="float32, bfloat16 or float16.")] = "float32",
    embeddings: Annotated[bool, typer.Option(help="Keep embeddings too.")] = True,
    resize_mode: ResizeModeOption = None,
    engine: Annotated[str, typer.Option(help="local or ray.")] = "local",
    device: Annotated[list[str] | None, typer.Option(help="cpu, cuda:0, ...; every accelerator by default.")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes that decode images.")] = None,
    json: JsonOption = False,
) -> None:
    """Compute and store what models say about a dataset.

    What is stored already is not computed again; a run that was stopped goes on where it left off.

    [dim]zoo run efficientnet-lite0 'resnet50-*' --data folder:photos[/dim]

    [dim]zoo run file:mine.pth --arch resnet18 --classes classes.txt --data folder:photos[/dim]
    """
    from zoo.runs.runner import run as run_models

    runs = run_models(
        names,
        data=data,
        pretrained=not random,
        batch_size=batch_size,
        precision=precision,  # type: ignore[arg-type]  # checked there
        embeddings=embeddings,
        resize_mode=resize_mode,  # type: ignore[arg-type]
        engine=engine,  # type: ignore[arg-type]
        device=device or None,
        workers=workers,
    )
    _print_runs(runs, json)


def import_(
    files: Annotated[
        list[Path], typer.Argument(help="csv, tsv, json, jsonl, parquet, feather, npz, npy, safetensors; or a folder.")
    ],
    kind: Annotated[str | None, typer.Option(help="logits, probabilities, predictions or embeddings.")] = None,
    name: Annotated[str | None, typer.Option(help="The model's name; by default the file's.")] = None,
    data: Annotated[str | None, typer.Option(help="The dataset these are outputs on: known, or a name of your own.")] = None,
    labels: Annotated[Path | None, typer.Option(help="Labels: .npy, or .txt with one per line.")] = None,
    classes: Annotated[Path | None, typer.Option(help="Class names: .txt with one per line.")] = None,
    ids: Annotated[Path | None, typer.Option(help="Ids of the examples: .txt with one per line.")] = None,
    link: Annotated[str, typer.Option(help="softmax or sigmoid: from logits to probabilities.")] = "softmax",
    column: Annotated[
        list[str] | None, typer.Option(metavar="MEANING=NAME", help="Columns by unusual names: labels=answer, ids=key, ...")
    ] = None,
    meta: Annotated[Path | None, typer.Option(help="A table about the models: model, family, params, ...")] = None,
    replace: Annotated[bool, typer.Option("--replace", help="Put outputs of the same name aside.")] = False,
    json: JsonOption = False,
) -> None:
    """Bring in outputs made elsewhere, so that the other commands find them by name.

    [dim]zoo import mine.npz --kind logits --data cifar10:test[/dim]

    [dim]zoo import predictions/ --data cifar10.1-v6 --meta models.csv[/dim]
    """
    from zoo.cards.names import near
    from zoo.datasets import is_user_dataset, user_datasets
    from zoo.datasets.listing import list_datasets
    from zoo.errors import InputError
    from zoo.outputs.importing.importer import import_outputs
    from zoo.outputs.outputs import Runs
    from zoo.outputs.store import save

    pairs = [text.partition("=")[::2] for text in column or ()]
    if not all(name for _, name in pairs):
        raise InputError("--column: expected MEANING=NAME, e.g. labels=answer")
    found = import_outputs(
        list(files) if len(files) > 1 else files[0],
        name=name,
        kind=kind,  # type: ignore[arg-type]  # checked there
        labels=labels,
        classes=classes,
        ids=ids,
        link=link,  # type: ignore[arg-type]
        data=data,
        columns=dict(pairs),
        meta=meta,
    )
    is_new = data is not None and is_user_dataset(data) and not user_datasets.exists(data)
    _print_runs(Runs(save(outputs, replace=replace) for outputs in found.values()), json)
    if is_new:
        known = [listed.name for listed in list_datasets() if listed.name != data]
        note(f"{data} is a new dataset of your own, known by these outputs{near(str(data), known)}")


def export(
    names: Annotated[list[str], typer.Argument(help="Models, by name or pattern.", metavar="NAMES")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write; it ends in .safetensors.")],
    data: Annotated[str | None, typer.Option(help="Dataset: digits:test, cifar10, folder:PATH, ...")] = None,
    embeddings: Annotated[
        list[str] | None, typer.Option(help="Models whose embeddings go along, by name or pattern; may be repeated.")
    ] = None,
    json: JsonOption = False,
) -> None:
    """Write the outputs of many models on one dataset as one file, which `zoo import` and NumPy read.

    Logits are kept as float16: every prediction stays, and the file says how far any probability moved.

    [dim]zoo export 'resnet8-*' --data digits:test -o study.safetensors[/dim]
    """
    from zoo.errors import InputError
    from zoo.outputs.bundle import export_outputs
    from zoo.runs.runner import run as run_models

    if output.suffix != ".safetensors":
        raise InputError(f"--output {output}: expected a file that ends in .safetensors")
    runs = run_models(names, data=data, embeddings=bool(embeddings))
    kept = runs.subset(embeddings).names if embeddings else []
    about = export_outputs(runs, output, kept)
    if json:
        print_json(about)
        return
    moved = max(model["largest_change"] for model in about["models"])
    note(
        f"wrote {output}: {len(runs)} models, embeddings of {len(kept)}, {size(output.stat().st_size)}; predictions are "
        f"unchanged" + (f", probabilities moved by at most {moved:.1g}" if moved else "")
    )


def verify(
    set_aside: Annotated[bool, typer.Option("--set-aside", help="Rename damaged files out of the way.")] = False,
    json: JsonOption = False,
) -> None:
    """Re-check every checksum, of stored outputs and trained weights; exit code 1 if any is wrong.

    [dim]zoo verify --set-aside[/dim]
    """
    from zoo.outputs.store import verify as verify_store

    found = verify_store(set_aside=set_aside)
    if json:
        print_json({"clean": found.clean, "runs": found.runs, "set_aside": found.set_aside})
    else:
        rows = [{"model": r.model, "dataset": r.dataset or "-", "files": r.files, "state": r.state} for r in found.runs]
        if rows:
            print_table(rows)
        for path, problem in found.problems.items():
            print(f"{path}: {problem}")
        for path, place in found.set_aside.items():
            note(f"{path} is now {place.name}; run its model again to replace it")
        bad = sum(run.state == "corrupt" for run in found.runs)
        note(f"{len(found.runs)} checked, {bad} damaged" if found.runs else "nothing is stored")
    if not found.clean:
        raise typer.Exit(1)


def _print_runs(runs: "Runs", json: bool) -> None:
    rows = [_row(outputs) for outputs in runs.values()]
    if json:
        print_json(rows)
        return
    about = ["dataset", "examples", "classes"]
    scores = [key for key in ("accuracy", "top-5") if any(row[key] is not None for row in rows)]
    first = rows[0]
    if len(rows) > 1 and scores and all(row[key] == first[key] for row in rows for key in about):
        print_table(rows, ["model", *scores])  # names need the room
        note(f"of {first['examples']:,} examples of {first['dataset']}, {first['classes']:,} classes")
    else:
        print_table(rows, ["model", *about, *scores])
    for outputs in runs.values():
        if outputs.label_classes is not None:
            note(f"{outputs.name} predicts other classes than {outputs.dataset} has: probe its features")
    places = [outputs.path for outputs in runs.values() if outputs.path is not None]
    if len(places) > FEW:
        note(f"stored in {len(places)} folders of {' and '.join(sorted({str(place.parent) for place in places}))}")
    for place in places if len(places) <= FEW else ():
        note(f"stored in {place}")


def _row(outputs: "Outputs") -> dict[str, Any]:
    scored = outputs.kind != "embeddings" and outputs.labels is not None and outputs.label_classes is None
    return {
        "model": outputs.name,
        "dataset": outputs.dataset,
        "kind": outputs.kind,
        "examples": len(outputs),
        "classes": len(outputs.classes),
        "dimensions": None if outputs.embeddings is None else outputs.embeddings.shape[1],
        "accuracy": outputs.accuracy if scored else None,
        "top-5": outputs.top5 if scored else None,
        "undecodable": outputs.details.get("undecodable", []),
        "path": outputs.path,
    }
