"""`zoo train` and `zoo ship`: train models by their recipes, and add them to a folder of model cards."""

import contextlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zoo.app.options import TRAIN, Data, Json, Models, NewName, command, model_argument, spec_option
from zoo.app.terminal import note, print_json, print_table, print_text
from zoo.core.units import percent
from zoo.errors import InputError, ZooError

if TYPE_CHECKING:
    from zoo.training import Trained

_TITLES = {
    "test_accuracy": "test acc.", "test_nll": "test NLL", "train_accuracy": "train acc.",
    "train_class_separation": "separation",
}  # fmt: skip


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("train", rich_help_panel=TRAIN)(command(train))
    app.command("ship", rich_help_panel=TRAIN)(command(ship))


def train(
    *,
    models: Annotated[
        list[str] | None, model_argument("ARCHITECTURE-OBJECTIVE, or patterns of such names.", "MODELS")
    ] = None,
    data: Annotated[str | None, spec_option("--data", "Dataset to train on. Default: that of the name.")] = None,
    seeds: Annotated[int | None, typer.Option("--seeds", min=1, help="Train this many of each: seeds 0, 1, ...")] = None,
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="A setting, e.g. tau=0.07. May be repeated.")
    ] = None,
    epochs: Annotated[int | None, typer.Option("--epochs", min=1, help="Instead of the recipe's number of epochs.")] = None,
    save_as: NewName = None,
    jobs: Annotated[int, typer.Option("--jobs", min=1, help="Models to train at the same time.")] = 1,
    measure_every: Annotated[int, typer.Option("--measure-every", min=0, help="Epochs between entries of the log.")] = 0,
    snapshots_every: Annotated[
        int, typer.Option("--snapshots-every", min=0, help="Epochs between snapshots NAME@epochN.")
    ] = 0,
    restart: Annotated[bool, typer.Option("--restart", help="Train again from the start, and replace the model.")] = False,
    plan: Annotated[Path | None, typer.Option("--plan", help="File that lists the models, instead of MODELS.")] = None,
    status: Annotated[bool, typer.Option("--status", help="Show the progress of the plan, and train nothing.")] = False,
    search: Annotated[
        list[str] | None,
        typer.Option(
            "--search", metavar="GRID", help="Tune on held-out images: 'learning_rate=0.1,0.2 tau=0.1,0.2'. Repeatable."
        ),
    ] = None,
    fine: Annotated[
        bool, typer.Option("--fine/--no-fine", help="With --search: also try the points half a step from the best one.")
    ] = True,
    json: Json = False,
) -> None:
    """Train models by their recipes; all commands find them by name.

    The settings are the papers'. A model with other settings needs its own name (--name). Finished models are skipped, an
    interrupted training continues. For several devices or machines start it with torchrun or accelerate launch.

    [dim]zoo train 'resnet8-*' --data digits --seeds 2[/dim]

    [dim]zoo train resnet50-cosine.in1k --set tau=0.07 --name r50-cos07[/dim]

    [dim]zoo train --plan model_cards/cifar10.plan.yaml --jobs 2[/dim]

    With --search no model is kept. All points of a grid are trained on the training images without a held-out part; if the
    best point lies on the edge of the grid, the grid is extended; then points half a step away are tried (--no-fine leaves
    them out). The best settings are printed as a command.

    [dim]zoo train resnet7-cosine.cifar10 --search 'learning_rate=0.1,0.2,0.4 tau=0.05,0.1,0.2' --epochs 3 --jobs 2[/dim]
    """
    from zoo import training

    if jobs > 1 and "RANK" in os.environ:
        raise InputError("cannot be combined with torchrun, whose processes share one model", argument="jobs", found=jobs)
    if not fine and not search:
        raise InputError("leaves out the last stage of --search, which is not given", argument="fine")
    if plan is not None:
        others = {
            "models": models, "data": data, "seeds": seeds, "settings": settings, "epochs": epochs, "save_as": save_as,
            "restart": restart, "measure_every": measure_every, "snapshots_every": snapshots_every, "search": search,
        }  # fmt: skip
        _refuse(others, "cannot be combined with --plan, which says all of it")
        _follow(plan, jobs, status, json)
        return
    if not models:
        raise InputError(argument="models", expected="a recipe such as resnet8-cosine", hint="Or pass {plan=FILE}")
    changes = dict(_setting(text) for text in settings or [])
    epochs = changes.pop("epochs", epochs)
    if search:
        others = {
            "save_as": save_as, "restart": restart, "measure_every": measure_every, "snapshots_every": snapshots_every,
        }  # fmt: skip
        _refuse(others, "cannot be combined with --search, which keeps no model")
        grids = [_grid(text) for text in search]
        _search(training.expand(models), grids, data, epochs, seeds or 1, fine, jobs, changes, json)
        return
    wanted = [(name, seed) for name in training.expand(models) for seed in (range(seeds) if seeds else [None])]
    if save_as is not None and len(wanted) > 1:
        raise InputError(f"is one name for {len(wanted)} models", argument="save_as", hint="Train one at a time to name it")
    # Plan all models first, so that a mistake in the last name is found before the first model is trained.
    order = [training.plan(name, data, seed, epochs, save_as, **changes).name for name, seed in wanted]
    shared = {
        "data": data, "epochs": epochs, "restart": restart, "save_as": save_as, "measure_every": measure_every,
        "snapshots_every": snapshots_every, **changes,
    }  # fmt: skip
    trained = _train([{"name": name, "seed": seed, **shared} for name, seed in wanted], jobs)
    if _is_first_process():
        _print(sorted(trained, key=lambda model: order.index(model.name)), json)


def _refuse(arguments: Mapping[str, Any], problem: str) -> None:
    for argument, value in arguments.items():
        if value:
            raise InputError(problem, argument=argument)


def _search(
    names: list[str],
    grids: list[dict[str, list[float]]],
    data: str | None,
    epochs: int | None,
    seeds: int,
    fine: bool,
    jobs: int,
    changes: dict[str, Any],
    json: bool,
) -> None:
    """Tune each recipe on held-out images; print all trials and the command that trains with the best settings."""
    from zoo.training.tuning import search as tune

    found = [tune(name, grids, data, epochs, seeds, fine, jobs=jobs, progress=note, **changes) for name in names]
    if json:
        print_json([{"name": r.name, "best": r.settings, "holdout": r.holdout, "trials": r.trials} for r in found])
        return
    for result in found:
        title = f"{result.name}: {result.epochs} epochs, {result.holdout:,} held-out training images"
        print_table(result.to_frame(), title=title)
        chosen = " ".join(f"--set {key}={value:g}" for key, value in result.settings.items())
        print_text(f"best: zoo train {result.name} {chosen} --name NAME")


def _grid(text: str) -> dict[str, list[float]]:
    """Return the values of each setting of a grid such as `learning_rate=0.1,0.2 tau=0.05,0.1`."""
    grid: dict[str, list[float]] = {}
    for axis in text.split():
        key, _, values = axis.partition("=")
        try:
            grid[key] = [float(value) for value in values.split(",")]
        except ValueError:
            grid = {}
            break
    if not grid or "" in grid:
        expected = "NAME=NUMBER,NUMBER,... one or more times, separated by spaces"
        raise InputError(argument="search", expected=expected, found=text)
    return grid


def ship(
    *,
    models: Models,
    folder: Annotated[Path, typer.Option("--output", "-o", metavar="FOLDER", help="Folder of cards, such as model_cards.")],
    data: Data = None,
    json: Json = False,
) -> None:
    """Add models that were trained on this machine to a folder of cards: weights in float16, and results on the test images.

    [dim]zoo ship '*.cifar10' -o model_cards[/dim]
    """
    from zoo.training.ship import ship as ship_model

    rows = []
    for name in _local_models(models):
        card = ship_model(name, folder, data)
        rows.append({"model": card.name} | card.details["results"])
    if json:
        print_json(rows)
        return
    _print_results(rows)


def _local_models(models: list[str]) -> list[str]:
    """Return the selected models; patterns and sets select only local models, which are trained and not shipped."""
    from zoo.cards.selection import is_filter, is_pattern, select
    from zoo.models import registry
    from zoo.training.ship import made_here

    local = {name: card for name, card in registry.matching("*").items() if made_here(card)}
    filters = [selector for selector in models if is_filter(selector)]
    chosen: dict[str, None] = {}
    for selector in [one for one in models if not is_filter(one)] or ["*"]:
        if filters or is_pattern(selector):
            chosen |= dict.fromkeys(select([selector, *filters], local, what="local model"))
        else:
            chosen[selector] = None
    return list(chosen)


def _follow(file: Path, jobs: int, status: bool, json: bool) -> None:
    """Train the unfinished models of a plan, and print the state of all; a failed training does not stop the others."""
    from zoo.training import campaign

    entries = campaign.read(file)
    unfinished = [entry for entry in entries if entry.state in ("begun", "left")]
    failed: list[str] = []

    def report_failure(call: Mapping[str, Any], error: ZooError) -> None:
        failed.append(next(entry.name for entry in unfinished if entry.call == call))
        if _is_first_process():
            note(f"{failed[-1]}: {error}")

    if unfinished and not status:
        if _is_first_process():
            note(f"training {len(unfinished)} of {len(entries)} models; the same command continues if it is interrupted")
        _train([entry.call for entry in unfinished], jobs, report_failure)
    if _is_first_process():
        rows = [{"model": entry.name, "state": entry.state} for entry in entries]
        if json:
            print_json(rows)
        else:
            print_table(rows)
    if failed:
        raise ZooError(f"{len(failed)} of {len(unfinished)} models could not be trained: {', '.join(failed)}")


def _train(
    calls: list[dict[str, Any]], jobs: int, failed: Callable[[Mapping[str, Any], ZooError], None] | None = None
) -> "list[Trained]":
    from zoo import training

    trained = []
    for result in training.train_each(calls, jobs, failed):
        trained.append(result)
        if _is_first_process():
            note(f"{result.name}: {'trained' if result.fresh else 'skipped, exists already'} ({result.folder})")
    return trained


def _print(trained: "list[Trained]", json: bool) -> None:
    if json:
        print_json([{"name": m.name, "trained": m.fresh, "folder": m.folder, "results": m.results} for m in trained])
        return
    _print_results([{"model": m.name} | {key: m.results.get(key) for key in _TITLES} for m in trained])


def _print_results(rows: list[dict[str, Any]]) -> None:
    named = [{_TITLES.get(key, key): value for key, value in row.items()} for row in rows]
    print_table(named, formats={"test acc.": percent, "train acc.": percent})


def _setting(text: str) -> tuple[str, Any]:
    """Return the name and the value of a setting: a number, yes or no, or a word."""
    name, equals, value = (part.strip() for part in text.partition("="))
    if not (name and equals and value):
        raise InputError(argument="settings", expected="NAME=VALUE, such as tau=0.07", found=text)
    if name in _NOT_SETTINGS:
        raise InputError(f"{name} is not a setting of a recipe", argument="settings", hint=_NOT_SETTINGS[name])
    for kind in (int, float):
        with contextlib.suppress(ValueError):
            return name, kind(value)
    return name, {"yes": True, "true": True, "no": False, "false": False}.get(value.lower(), value)


# Arguments of `zoo.train` that are not settings of a recipe, and how to pass them.
_NOT_SETTINGS = {
    "name": "Pass the model as MODELS",
    "data": "Pass {data=SPEC}",
    "seed": "Put it into the name, such as resnet8-cosine-s2, or pass {seeds=N}",
    "save_as": "Pass {save_as=NAME}",
    "restart": "Pass {restart}",
    "measure_every": "Pass {measure_every=N}",
    "snapshots_every": "Pass {snapshots_every=N}",
}


def _is_first_process() -> bool:
    """Return whether this process prints: of several that train one model together, only the first does."""
    return os.environ.get("RANK", "0") == "0"
