"""`zoo run` and `zoo predict`: models on a dataset, and on single images."""

import dataclasses
import datetime
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zoo.app.checks import check_files
from zoo.app.options import (
    NUMBERS,
    RUN,
    TABLE,
    BatchSize,
    Json,
    ModelFiles,
    ModelInputs,
    Models,
    Pretrained,
    ResizeMode,
    Results,
    command,
    model_argument,
)  # fmt: skip
from zoo.app.terminal import note, print_json, print_table, size
from zoo.core.units import MISSING, count, percent
from zoo.errors import InputError

if TYPE_CHECKING:
    from zoo.outputs.outputs import Outputs, Runs
    from zoo.runs.engines.stages import Stages
    from zoo.runs.plan import Plan

MAX_LISTED_PATHS = 3
_IMAGES_AT_ONCE = 512


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("run", rich_help_panel=RUN)(command(run))
    app.command("predict", rich_help_panel=RUN)(command(predict))


def run(
    models: Models,
    inputs: ModelInputs,
    pretrained: Pretrained = True,
    embeddings: Annotated[bool, typer.Option("--embeddings/--no-embeddings", help="Store embeddings too.")] = True,
    resize_mode: ResizeMode = None,
    precision: Annotated[str, typer.Option(help="float32, bfloat16 or float16.")] = "float32",
    batch_size: BatchSize = 64,
    engine: Annotated[str, typer.Option(help="local or ray.")] = "local",
    device: Annotated[list[str] | None, typer.Option(help="cpu, cuda:0, ... Default: every accelerator.")] = None,
    workers: Annotated[int | None, typer.Option(help="Processes that decode images. Default: as many as needed.")] = None,
    fold: Annotated[
        bool,
        typer.Option(
            "--fold", help="Fold batch normalisation into convolutions: slightly faster; outputs are stored separately."
        ),
    ] = False,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print what would be computed and how long it would take, from a sample.")
    ] = False,
    profile: Annotated[bool, typer.Option("--profile", help="Print how long each stage took.")] = False,
    json: Json = False,
) -> None:
    """Run models on a dataset and store their outputs.

    Outputs that exist are not computed again. An interrupted run continues where it stopped.

    [dim]zoo run efficientnet-lite0 'resnet50-*' --data folder:photos[/dim]

    [dim]zoo run file:mine.pth --arch resnet18 --classes classes.txt --data folder:photos[/dim]
    """
    from zoo.runs.engines.stages import Stages

    options: dict[str, Any] = {
        "pretrained": pretrained, "embeddings": embeddings, "resize_mode": resize_mode, "precision": precision,
        "batch_size": batch_size, "engine": engine, "device": device or None, "workers": workers,
        "fold": fold,
    }  # fmt: skip
    if dry_run:
        from zoo.runs.plan import plan

        _print_plan(plan(inputs.named(models), data=inputs.data, fresh=inputs.fresh, **options), json)
        return
    stages = Stages()
    print_runs(inputs.runs(models, stages=stages, **options), json)
    if profile:
        _print_profile(stages, json)


def _print_plan(plan: "Plan", json: bool) -> None:
    """Print what a run would do."""
    rows: list[dict[str, Any]] = [{"model": name, "state": "stored"} for name in plan.stored]
    rows += [{"model": name, "state": state} for name, state in plan.unavailable.items()]
    rows += [
        {"model": name, "state": "to run", "group": number, "images": group.images, "bytes": written}
        for number, group in enumerate(plan.groups, 1)
        for name, written in group.models.items()
    ]
    if json:
        groups = [dataclasses.asdict(group) | {"models": list(group.models)} for group in plan.groups]
        total = {"dataset": plan.dataset, "bytes": plan.bytes, "seconds": plan.seconds}
        print_json({**total, "models": rows, "groups": groups})
        return
    print_table(
        rows,
        ["model", "state", "group", "images", "bytes"],
        formats={"bytes": lambda written: MISSING if written is None else size(written)},
    )
    for number, group in enumerate(plan.groups, 1):
        about = f"{count(len(group.models), 'model')} x {count(group.images, 'image')}"
        note(f"group {number}: {about}, {_duration(group.seconds)}, slowest stage: {group.slowest} "
             f"(measured on {count(group.sample, 'image')})")  # fmt: skip
    note(f"{size(plan.bytes)} to write, {_duration(plan.seconds)}")


def _print_profile(stages: "Stages", json: bool) -> None:
    """Print the time of each stage; on standard error if standard output holds JSON."""
    total = sum(stages.seconds.values())
    if not total:
        note("nothing was computed")
        return
    if json:
        note(", ".join(f"{stage} {seconds:.2f} s" for stage, seconds in stages.seconds.items()))
    else:
        rows = [
            {"stage": stage, "seconds": seconds, "of the sum": seconds / total} for stage, seconds in stages.seconds.items()
        ]
        print_table(rows, ["stage", "seconds", "of the sum"], formats={"seconds": "{:.2f}".format, "of the sum": percent})
    note(f"slowest stage: {stages.slowest}, with {count(stages.workers, 'worker')} to read, decode and transform")


def _duration(seconds: float) -> str:
    return f"about {datetime.timedelta(seconds=math.ceil(seconds))}"


def print_runs(runs: "Runs", json: bool) -> None:
    """Print what outputs there are, the accuracy of each, and where they are stored."""
    from zoo.core.prediction_sets import read_rule

    rows = [_row(outputs) for outputs in runs.values()]
    if json:
        print_json(rows)
        return
    about = ["dataset", "examples", "classes"]
    scores = {key: percent for key in ("accuracy", "top-5") if any(row[key] is not None for row in rows)}
    first = rows[0]
    if len(rows) > 1 and scores and all(row[key] == first[key] for row in rows for key in about):
        print_table(rows, ["model", *scores], formats=scores)
        note(f"{first['examples']:,} examples of {first['dataset']}, {first['classes']:,} classes")
    else:
        print_table(rows, ["model", *about, *scores], formats=scores)
    for outputs in runs.values():
        if outputs.label_classes is not None:
            note(f"{outputs.name} predicts other classes than {outputs.dataset} has; its embeddings can be probed")
        if outputs.card is not None and (rule := read_rule(outputs.card.details, outputs.name)):
            note(f"{outputs.name} has prediction sets: {rule}")
    paths = [outputs.path for outputs in runs.values() if outputs.path is not None]
    if len(paths) > MAX_LISTED_PATHS:
        note(f"stored in {len(paths)} folders of {' and '.join(sorted({str(path.parent) for path in paths}))}")
    else:
        for path in paths:
            note(f"stored in {path}")


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


def predict(
    model: Annotated[str, model_argument("One model.")],
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATHS...", help="Images, or folders of images.", show_default=False)
    ],
    model_files: ModelFiles,
    results: Results,
    top: Annotated[int, typer.Option("--top", min=1, help="How many classes to show for each image.")] = 1,
    pretrained: Pretrained = True,
    batch_size: BatchSize = 64,
    device: Annotated[str | None, typer.Option("--device", help="cpu, cuda:0, ... Default: the fastest one.")] = None,
) -> None:
    """Classify images: print the most probable classes with their (uncalibrated) confidences.

    [dim]zoo predict efficientnet-lite0 cat.jpg photos/ --top 3[/dim]

    [dim]zoo predict resnet7-softmax.cifar10 photos/ -o predictions.csv[/dim]
    """
    import pandas as pd

    from zoo.core.progress import Bar
    from zoo.models import registry

    results.check(TABLE, NUMBERS)
    check_files(paths, "paths")
    images = list(image_paths(paths))
    (name,) = model_files.named([model])
    loaded = registry.load(name, pretrained=pretrained, device=device)
    rows: list[dict[str, Any]] = []
    with Bar(loaded.name, len(images)) as bar:
        for start in range(0, len(images), _IMAGES_AT_ONCE):
            part = _decoded(images[start : start + _IMAGES_AT_ONCE])
            classified = loaded.classify(list(part.values()), top=top, batch_size=batch_size) if part else []
            for path, classes in zip(part, classified, strict=True):
                rows += [
                    {"image": str(path), "rank": rank, "class": label, "confidence": confidence}
                    for rank, (label, confidence) in enumerate(classes, 1)
                ]
            bar.advance(min(_IMAGES_AT_ONCE, len(images) - start))
    if not rows:
        raise InputError("none of the images can be decoded", argument="paths")
    columns = ["image", *(["rank"] if top > 1 else []), "class", "confidence"]
    results.deliver(rows, lambda: print_table(rows, columns, formats={"confidence": percent}), table=pd.DataFrame(rows))


def image_paths(paths: Sequence[Path]) -> Iterator[Path]:
    """Yield image files: those that are named, and those in the folders that are named, sorted."""
    from zoo.datasets.image_files import EXTENSIONS

    for path in paths:
        if path.is_dir():
            inside = sorted(one for one in path.rglob("*") if one.suffix.lower() in EXTENSIONS and one.is_file())
            if not inside:
                raise InputError("no images in this folder", where=path, argument="paths")
            yield from inside
        else:
            yield path


def _decoded(paths: Sequence[Path]) -> dict[Path, Any]:
    """Return images by path; a note names each that cannot be decoded."""
    from zoo.datasets.image_files import Undecodable, read

    images = {}
    for path in paths:
        try:
            images[path] = read(path)
        except Undecodable as error:
            note(f"skipped: {error}")
    return images
