"""`zoo triage`: labels that are likely wrong, ambiguous examples, and examples unlike the training data."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from zoo.app import options
from zoo.app.checks import read_by_id
from zoo.app.options import COMPARE, NUMBERS, TABLE, Inputs, OptionalModels, Results, command
from zoo.app.terminal import note, print_table
from zoo.core.units import percent
from zoo.errors import InputError

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
    sample: Annotated[int | None, typer.Option(min=1, metavar="N", help="Draw N random examples to check by hand.")] = None,
    checked: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A .csv of checked examples: columns id and correct (a class, or yes/no)."),
    ] = None,
    seed: options.Seed = 0,
) -> None:
    """Find wrong labels: rank the examples of a dataset by how likely their label is wrong.

    The models must have been trained on other examples. A .csv file gets the whole list, --json the first ones. Models alone
    cannot tell how many labels are wrong: check a random sample by hand (--sample 400), fill in its column correct, and pass
    the file with --checked.

    [dim]zoo triage 'resnet8-*' --data digits-holes:test --first 10[/dim]

    [dim]zoo triage @cifar10 --sample 400 -o to_check.csv[/dim]

    [dim]zoo triage @cifar10 --checked to_check.csv[/dim]
    """
    from diversity import triage as triage_runs

    results.check(TABLE, NUMBERS)
    if sample is not None and checked is not None:
        raise InputError("draws examples that are still to be checked; pass either --sample or --checked", argument="sample")
    if sample is not None and only is not None:
        raise InputError("does not apply to --sample, which draws from all examples", argument="only")
    entries = None if checked is None else _read_checked(checked)
    runs = inputs.runs(models)
    if len(runs) < 2:
        raise InputError(argument="models", expected="at least two models", found=", ".join(runs))
    found = triage_runs(runs, checked=entries)
    if sample is not None:
        if sample > len(found.frame):
            expected = f"at most the number of examples, {len(found.frame)}"
            raise InputError(argument="sample", expected=expected, found=sample)
        drawn = found.sample(sample, seed).assign(correct="")

        def show_sample() -> None:
            shown = drawn.head(first) if results.output else drawn
            print_table(shown[["id", "label"]])
            note("fill in the column correct (yes, no, or the correct class) and pass the file with --checked")

        results.deliver(drawn, show_sample, table=drawn)
        return
    chosen = found.frame if only is None else found.of_kind(only)
    value = {
        "dataset": found.dataset, "examples": len(found.frame), "kinds": found.counts(), "wrong_labels": found.wrong_labels,
        "groups": found.groups, "weights": found.weights, "rows": chosen.head(first),
    }  # fmt: skip

    def show() -> None:
        columns = ["id", "kind", "label", "suggested", "wrong", "against", "split", "unsure"]
        shown = chosen.head(first)[columns].assign(id=[_end(str(row_id)) for row_id in chosen.head(first)["id"]])
        print_table(shown, formats=dict.fromkeys(("wrong", "against", "split", "unsure"), percent))
        note(str(found))

    results.deliver(value, show, table=chosen)


def _read_checked(path: Path) -> dict[str, object]:
    """Return the entry of each example in the column correct; it is empty for an example that was not checked."""
    table = read_by_id(path, "checked")
    if "correct" not in table:
        raise InputError(
            where=path, argument="checked", expected="a .csv file with a column correct", found=", ".join(map(str, table))
        )
    return {str(row_id): text.strip() for row_id, text in table["correct"].items()}


def _end(row_id: str) -> str:
    """Return the end of a long id: beginnings are often the same."""
    return row_id if len(row_id) <= _MAX_ID else f"…{row_id[1 - _MAX_ID :]}"
