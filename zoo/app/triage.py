"""`zoo triage`: labels that are likely wrong, ambiguous examples, and examples unlike the training data."""

from typing import Annotated, Literal

import typer

from zoo.app.options import COMPARE, NUMBERS, TABLE, Inputs, OptionalModels, Results, command
from zoo.app.terminal import note, percent, print_table

_MAX_ID = 24  # characters of an id that the table shows


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("triage", rich_help_panel=COMPARE)(command(triage))


def triage(
    *,
    models: OptionalModels = None,
    inputs: Inputs,
    results: Results,
    only: Annotated[
        Literal["mislabelled", "ambiguous", "unsure"] | None,
        typer.Option("--only", help="Only examples of this kind. Default: all, the likeliest wrong label first."),
    ] = None,
    first: Annotated[int, typer.Option("--first", "-n", min=1, help="How many examples to show.")] = 20,
) -> None:
    """Find wrong labels: rank the examples of a dataset by how likely their label is wrong.

    The models must have been trained on other examples. A .csv file gets the whole list, --json the first ones.

    [dim]zoo triage 'resnet8-*' --data digits-holes:test --first 10[/dim]

    [dim]zoo triage @cifar10 --only ambiguous -o ambiguous.csv[/dim]
    """
    from diversity import triage as triage_runs

    results.check(TABLE, NUMBERS)
    found = triage_runs(inputs.runs(models))
    chosen = found.frame if only is None else found.of_kind(only)
    expected, low, high = found.expected_wrong
    value = {
        "dataset": found.dataset, "examples": len(found.frame), "kinds": found.counts(), "expected_wrong": expected,
        "expected_wrong_interval": [low, high], "groups": found.groups, "weights": found.weights,
        "rows": chosen.head(first),
    }  # fmt: skip

    def show() -> None:
        columns = ["id", "kind", "label", "suggested", "wrong", "against", "split", "unsure"]
        shown = chosen.head(first)[columns].assign(id=[_end(str(row_id)) for row_id in chosen.head(first)["id"]])
        print_table(shown, formats=dict.fromkeys(("wrong", "against", "split", "unsure"), percent))
        note(str(found))

    results.deliver(value, show, table=chosen)


def _end(row_id: str) -> str:
    """Return the end of a long id: beginnings are often the same."""
    return row_id if len(row_id) <= _MAX_ID else f"…{row_id[1 - _MAX_ID :]}"
