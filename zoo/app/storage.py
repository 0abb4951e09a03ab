"""`zoo outputs`, `zoo rm` and `zoo verify`: list, remove and check what is stored."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from zoo.app.options import STORAGE, Json, OnlyData, OptionalModels, command
from zoo.app.terminal import note, print_json, print_table, print_text, size
from zoo.core.units import count
from zoo.errors import InputError

if TYPE_CHECKING:
    from zoo.outputs.housekeeping import Kept


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("outputs", rich_help_panel=STORAGE)(command(outputs))
    app.command("rm", rich_help_panel=STORAGE)(command(remove))
    app.command("verify", rich_help_panel=STORAGE)(command(verify))


def outputs(*, models: OptionalModels = None, data: OnlyData = None, json: Json = False) -> None:
    """List stored outputs: model, dataset, kind, size and date. Without MODELS and --data: all.

    [dim]zoo outputs 'resnet8-*' --data digits:test[/dim]
    """
    from zoo.outputs.housekeeping import outputs as list_outputs

    _print(list_outputs(models or (), data), json, "stored")


def remove(
    *,
    models: OptionalModels = None,
    data: OnlyData = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: Json = False,
) -> None:
    """Remove stored outputs of models, on one dataset or on all. Models, weights and your own files stay.

    [dim]zoo rm 'old-*' --data cifar10.1-v6 --yes[/dim]
    """
    from zoo.outputs import housekeeping

    if not models and data is None:
        raise InputError(
            "name models or a dataset", hint="'*' stands for all models, {data=SPEC} for all outputs on a dataset"
        )
    found = housekeeping.outputs(models or (), data)
    if found and not yes:
        if json or not sys.stdin.isatty():
            raise InputError(f"{count(len(found), 'stored output')} would be removed", hint="Confirm with {yes}")
        _print(found, False, "to be removed")
        if not typer.confirm("Remove them?", err=True):
            raise typer.Exit(1)
    _print(housekeeping.remove(models or (), data), json, "removed")


def _print(found: "list[Kept]", json: bool, state: str) -> None:
    if json:
        print_json(found)
        return
    if found:
        columns = ["model", "dataset", "kind", "examples", "size", "date"]
        print_table([vars(one) | {"size": size(one.bytes), "date": one.when.partition(" ")[0]} for one in found], columns)
    note(f"{len(found)} {state}, {size(sum(one.bytes for one in found))}")


def verify(
    *,
    set_aside: Annotated[
        bool, typer.Option("--set-aside", help="Rename damaged files, so that they are made again.")
    ] = False,
    json: Json = False,
) -> None:
    """Check the checksums of stored outputs and trained weights; exit code 1 if a file is damaged.

    [dim]zoo verify --set-aside[/dim]
    """
    from zoo.outputs.store import verify as verify_store

    found = verify_store(set_aside=set_aside)
    if json:
        print_json({"clean": found.clean, "runs": found.runs, "set_aside": found.set_aside})
    else:
        rows = [{"model": run.model, "dataset": run.dataset, "files": run.files, "state": run.state} for run in found.runs]
        if rows:
            print_table(rows)
        for path, problem in found.problems.items():
            print_text(f"{path}: {problem}")
        for path, place in found.set_aside.items():
            note(f"{path} was renamed to {place.name}; run its model again to replace it")
        damaged = sum(run.state == "corrupt" for run in found.runs)
        note(f"{len(found.runs)} checked, {damaged} damaged" if found.runs else "nothing is stored")
    if not found.clean:
        raise typer.Exit(1)
