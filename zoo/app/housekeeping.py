"""Commands about what is here: `zoo datasets`, `zoo outputs`, `zoo rm`."""

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from zoo.app.printing import JsonOption, note, print_json, print_table, size
from zoo.core.text import as_text

if TYPE_CHECKING:
    from zoo.outputs.housekeeping import Kept

PANEL = "Keep house"


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
    app.command("datasets", rich_help_panel=PANEL)(datasets)
    app.command("outputs", rich_help_panel=PANEL)(outputs)
    app.command("rm", rich_help_panel=PANEL)(remove)


def datasets(
    name: Annotated[str | None, typer.Argument(help="One of them: digits:test, folder:PATH, a name of your own.")] = None,
    ids: Annotated[bool, typer.Option("--ids", help="Print its ids, one per line.")] = False,
    json: JsonOption = False,
) -> None:
    """List datasets: known ones, where they were found, and those that only outputs are stored of.

    [dim]zoo datasets digits:test --ids[/dim]
    """
    from zoo.datasets import load
    from zoo.datasets.listing import list_datasets
    from zoo.errors import InputError

    if name is None:
        if ids:
            raise InputError("--ids: name the dataset whose ids to print, e.g. `zoo datasets digits:test --ids`")
        listed = list_datasets()
        if json:
            print_json(listed)
        else:
            print_table(
                {"name": one.name, "state": one.state, "splits": " ".join(one.splits), "place": as_text(one.place)}
                for one in listed
            )
        return
    dataset = load(name)
    about = {"dataset": dataset.spec, "examples": len(dataset), "classes": list(dataset.classes), "metric": dataset.metric}
    if json:
        print_json(about | ({"ids": list(dataset.ids)} if ids else {}))
    elif ids:
        for row_id in dataset.ids:
            print(as_text(row_id))
    else:
        few = [as_text(one) for one in dataset.classes[:10]]
        told = ", ".join(few) + (f" and {len(dataset.classes) - len(few)} more" if len(dataset.classes) > len(few) else "")
        print(f"{as_text(dataset.spec)}: {len(dataset)} examples, {len(dataset.classes)} classes: {told or 'no labels'}")
        note("--ids prints the ids of its examples")


def outputs(
    names: Annotated[list[str] | None, typer.Argument(help="Models, by name or pattern; all by default.")] = None,
    data: Annotated[str | None, typer.Option(help="Only those on this dataset.")] = None,
    json: JsonOption = False,
) -> None:
    """List stored outputs: of which model, on which dataset, how large, since when.

    [dim]zoo outputs 'resnet8-*' --data digits:test[/dim]
    """
    from zoo.outputs.housekeeping import outputs as list_outputs

    _print(list_outputs(names or (), data), json, "stored")


def remove(
    names: Annotated[list[str] | None, typer.Argument(help="Models, by name or pattern.")] = None,
    data: Annotated[str | None, typer.Option(help="Only their outputs on this dataset; alone: all outputs on it.")] = None,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    json: JsonOption = False,
) -> None:
    """Remove stored outputs. Models, their weights and your own files stay.

    [dim]zoo rm 'old-*' --data cifar10.1-v6 --yes[/dim]
    """
    from zoo.errors import InputError
    from zoo.outputs import housekeeping

    if not names and data is None:
        raise InputError("name the models whose outputs to remove, or a dataset with --data; '*' is all of them")
    found = housekeeping.outputs(names or (), data)
    if found and not yes:
        if json or not sys.stdin.isatty():
            raise InputError(f"{len(found)} stored outputs would be removed; say --yes")
        _print(found, False, "to be removed")
        if not typer.confirm("Remove them?", err=True):
            raise typer.Exit(1)
    _print(housekeeping.remove(names or (), data), json, "removed")


def _print(found: "list[Kept]", json: bool, what: str) -> None:
    if json:
        print_json(found)
        return
    columns = ("model", "dataset", "kind", "examples", "size", "when")
    rows = [vars(kept) | {"size": size(kept.bytes)} for kept in found]
    if rows:
        print_table([{key: as_text(row[key]) if row[key] is not None else None for key in columns} for row in rows])
    note(f"{len(found)} {what}, {size(sum(kept.bytes for kept in found))}")
