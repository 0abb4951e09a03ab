"""Commands that make models: `zoo train`, and `zoo ship` for those that come with the package."""

import contextlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zoo.app.printing import JsonOption, note, print_json, print_table
from zoo.errors import InputError, ZooError

if TYPE_CHECKING:
    from zoo.training import Trained

PANEL = "Find models"


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
    app.command("train", rich_help_panel=PANEL)(train)
    app.command("ship", rich_help_panel=PANEL)(ship)


def train(
    names: Annotated[
        list[str] | None, typer.Argument(help="ARCHITECTURE-OBJECTIVE, or a pattern of such.", metavar="NAMES")
    ] = None,
    data: Annotated[str | None, typer.Option(help="Dataset: digits, cifar10, in1k, folder:PATH, ...")] = None,
    seeds: Annotated[int | None, typer.Option(help="Train so many of each: seeds 0, 1, ...", min=1)] = None,
    settings: Annotated[list[str] | None, typer.Option("--set", help="A setting, e.g. tau=0.07; may be repeated.")] = None,
    epochs: Annotated[int | None, typer.Option(help="Instead of the recipe's own number.", min=1)] = None,
    save_as: Annotated[str | None, typer.Option("--as", help="Another name for the result.")] = None,
    jobs: Annotated[int, typer.Option(help="Train so many at once, with a share of the cores each.", min=1)] = 1,
    measure_every: Annotated[int, typer.Option(help="Epochs between two points of the curves in the log.", min=0)] = 0,
    snapshots_every: Annotated[int, typer.Option(help="Epochs between snapshots NAME@epochN.", min=0)] = 0,
    restart: Annotated[bool, typer.Option("--restart", help="Begin anew, replacing what is there.")] = False,
    plan: Annotated[Path | None, typer.Option(help="File that names the models, instead of NAMES.")] = None,
    status: Annotated[bool, typer.Option("--status", help="Say how far the plan has come, and train nothing.")] = False,
    search: Annotated[
        list[str] | None,
        typer.Option(help="Tune on a holdout: one grid, e.g. 'learning_rate=0.1,0.2,0.4 tau=0.1,0.2'; may be repeated."),
    ] = None,
    json: JsonOption = False,
) -> None:
    """Train models by their recipes; the result is found by name at once.

    Settings are the papers' own for the dataset; with others the model needs a name of its own (--as). A finished model
    is left alone; one that was stopped goes on where it left off. Several devices or machines: start it with torchrun or
    accelerate launch.

    [dim]zoo train 'resnet8-*' --data digits --seeds 2[/dim]

    [dim]zoo train resnet50-cosine.in1k --set tau=0.07 --as r50-cos07[/dim]

    [dim]zoo train --plan model_cards/cifar10.plan.yaml --jobs 2[/dim]

    With --search nothing is trained for keeps. Every point of each grid is trained on all but a holdout of the training
    images; a grid whose best point lies on an edge is extended; points half a step from the best one follow. Several
    grids are searched in order. The best settings are printed as a command.

    [dim]zoo train resnet7-cosine.cifar10 --search 'learning_rate=0.1,0.2,0.4 tau=0.05,0.1,0.2' --epochs 3 --jobs 2[/dim]
    """
    from zoo import training

    if jobs > 1 and "RANK" in os.environ:
        raise InputError(f"--jobs {jobs}: the processes of torchrun already share one model; leave it out")
    if plan is not None:
        if names or data or seeds or settings or epochs or save_as or restart or measure_every or snapshots_every:
            raise InputError(f"--plan {plan}: the plan says all of it; give only --jobs, --status and --json beside it")
        _follow(plan, jobs, status, json)
        return
    if not names:
        raise InputError("expected NAMES, such as resnet8-cosine, or --plan FILE")
    changes = dict(_setting(text) for text in settings or [])
    epochs = changes.pop("epochs", epochs)
    if search:
        if save_as or restart or measure_every or snapshots_every:
            raise InputError("--search keeps no model: leave out --as, --restart, --measure-every and --snapshots-every")
        _search(training.expand(names), [_grid(text) for text in search], data, epochs, seeds or 1, jobs, changes, json)
        return
    wanted = [(name, seed) for name in training.expand(names) for seed in (range(seeds) if seeds else [None])]
    if save_as is not None and len(wanted) > 1:
        raise InputError(f"--as {save_as}: one name for {len(wanted)} models; train one at a time to name them")
    # A mistake in the last name is found before the first is trained.
    order = [training.plan(name, data, seed, epochs, save_as, **changes).name for name, seed in wanted]
    watched = {"measure_every": measure_every, "snapshots_every": snapshots_every}
    shared = {"data": data, "epochs": epochs, "restart": restart, "save_as": save_as, **watched, **changes}
    made = _train([{"name": name, "seed": seed, **shared} for name, seed in wanted], jobs)
    if _speaks():
        _print(sorted(made, key=lambda model: order.index(model.name)), json)


def _search(
    names: list[str],
    grids: list[dict[str, list[float]]],
    data: str | None,
    epochs: int | None,
    seeds: int,
    jobs: int,
    changes: dict[str, Any],
    json: bool,
) -> None:
    """Tune each recipe on a holdout; print all trials and the command that trains with the best settings."""
    from zoo.training.tuning import search as tune

    found = [tune(name, grids, data, epochs, seeds, jobs=jobs, progress=note, **changes) for name in names]
    if json:
        print_json([{"name": r.name, "best": r.settings, "holdout": r.holdout, "trials": r.trials} for r in found])
        return
    for result in found:
        rows = result.to_frame().to_dict("records")
        print_table(
            [{str(key): value for key, value in row.items()} for row in rows],
            title=f"{result.name}: {result.epochs} epochs, {result.holdout:,} held-out training images",
        )
        chosen = " ".join(f"--set {key}={value:g}" for key, value in result.settings.items())
        print(f"best: zoo train {result.name} {chosen} --as NAME")


def _grid(text: str) -> dict[str, list[float]]:
    """Parse `learning_rate=0.1,0.2 tau=0.05,0.1` into values by setting."""
    grid: dict[str, list[float]] = {}
    for axis in text.split():
        key, _, values = axis.partition("=")
        try:
            grid[key] = [float(value) for value in values.split(",")]
        except ValueError:
            grid = {}
            break
    if not grid or "" in grid:
        raise InputError(f"--search {text!r}: expected NAME=NUMBER,NUMBER,... one or more times, separated by spaces")
    return grid


def ship(
    names: Annotated[list[str], typer.Argument(help="Models made here, by name or pattern.", metavar="NAMES")],
    folder: Annotated[Path, typer.Option("--into", help="Folder of cards, such as model_cards in a checkout.")],
    data: Annotated[str | None, typer.Option(help="Images they are scored on; the dataset's own test images.")] = None,
    json: JsonOption = False,
) -> None:
    """Put models trained here into a folder of cards: weights in float16, and what they score.

    [dim]zoo ship '*.cifar10' --into model_cards[/dim]
    """
    from zoo.training.ship import ship as ship_model

    rows = []
    for name in _chosen(names):
        card = ship_model(name, folder, data)
        rows.append({"model": card.name} | card.details["results"])
    if json:
        print_json(rows)
    else:
        short = {"test_accuracy": "test", "train_accuracy": "train", "train_class_separation": "separation"}
        print_table([{short.get(key, key): value for key, value in row.items()} for row in rows])


def _chosen(models: list[str]) -> list[str]:
    """The selected models; of those that a pattern selects, only the ones that were trained here and are not shipped."""
    from zoo.cards.selection import is_pattern, select
    from zoo.models import registry
    from zoo.training.ship import made_here

    local = {name: card for name, card in registry.matching("*").items() if made_here(card)}
    return [
        name
        for entry in models
        for name in (select(entry, local, what="model trained here") if is_pattern(entry) else [entry])
    ]


def _follow(file: Path, jobs: int, status: bool, json: bool) -> None:
    """Train what is left of a plan, and say how far it has come; a model that cannot be trained does not stop the others."""
    from zoo.training import campaign

    entries = campaign.read(file)
    left = [entry for entry in entries if entry.state in ("begun", "left")]
    failed: list[str] = []

    def tell(call: Mapping[str, Any], error: ZooError) -> None:
        failed.append(next(entry.name for entry in left if entry.call == call))
        if _speaks():
            note(f"{failed[-1]}: {error}")

    if left and not status:
        if _speaks():
            note(f"{len(left)} of {len(entries)} models are left; the same command goes on where it was stopped")
        _train([entry.call for entry in left], jobs, tell)
    if _speaks():
        rows = [{"model": entry.name, "state": entry.state} for entry in entries]
        if json:
            print_json(rows)
        else:
            print_table(rows)
    if failed:
        raise ZooError(f"{len(failed)} of {len(left)} models could not be trained: {', '.join(failed)}")


def _train(
    calls: list[dict[str, Any]], jobs: int, failed: Callable[[Mapping[str, Any], ZooError], None] | None = None
) -> "list[Trained]":
    from zoo import training

    made = []
    for result in training.train_each(calls, jobs, failed):
        made.append(result)
        if _speaks():
            note(f"{result.name}: {'trained' if result.fresh else 'is there already, left alone'} ({result.folder})")
    return made


def _print(made: "list[Trained]", json: bool) -> None:
    if json:
        print_json([{"name": m.name, "trained": m.fresh, "folder": m.folder, "results": m.results} for m in made])
        return
    columns = {
        "test acc.": "test_accuracy",
        "test NLL": "test_nll",
        "train acc.": "train_accuracy",
        "separation": "train_class_separation",
    }
    print_table({"model": m.name} | {title: m.results.get(key) for title, key in columns.items()} for m in made)


def _setting(text: str) -> tuple[str, Any]:
    """`tau=0.07` as a name and a value: a number, yes or no, or a word."""
    name, equals, value = (part.strip() for part in text.partition("="))
    if not (name and equals and value):
        raise InputError(f"--set {text!r}: expected NAME=VALUE, e.g. tau=0.07")
    if name in _ELSEWHERE:
        raise InputError(f"--set {text!r}: is no setting of the recipe; give {_ELSEWHERE[name]}")
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return name, kind(value)
    return name, {"yes": True, "true": True, "no": False, "false": False}.get(value.lower(), value)


# What the caller decides beside the recipe, and where it is said.
_ELSEWHERE = {
    "name": "NAMES",
    "data": "--data SPEC",
    "seed": "it in the name, such as resnet8-cosine-s2, or --seeds N",
    "save_as": "--as NAME",
    "restart": "--restart",
    "measure_every": "--measure-every N",
    "snapshots_every": "--snapshots-every N",
}


def _speaks() -> bool:
    """Of several processes that train together only the first prints."""
    return os.environ.get("RANK", "0") == "0"
