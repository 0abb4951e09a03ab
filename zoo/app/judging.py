"""`zoo accuracy` and `zoo triage`: what models say about data where nobody, or somebody wrong, has labelled it."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from zoo.app.bare_files import takes_bare_files
from zoo.app.comparing import PANEL
from zoo.app.finding import DataOption, find_runs
from zoo.app.printing import JsonOption, note, print_json, print_table
from zoo.core.text import csv_bytes
from zoo.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

Names = Annotated[list[str], typer.Argument(help="Models, by name or pattern.", metavar="NAMES")]
OutOption = Annotated[Path | None, typer.Option("--out", "-o", help="Write the whole table as a .csv file.")]
WIDTH = 24  # characters of an id that a terminal shows


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
    app.command("accuracy", rich_help_panel=PANEL)(takes_bare_files(accuracy))
    app.command("triage", rich_help_panel=PANEL)(takes_bare_files(triage))


def accuracy(
    names: Names,
    start: Annotated[str, typer.Option("--from", help="Labelled data of the kind that the models know.")],
    end: Annotated[str, typer.Option("--to", help="The data in question; their labels are not looked at.")],
    least_r2: Annotated[float, typer.Option(help="How well agreements must lie on a line for an answer.")] = 0.98,
    level: Annotated[float, typer.Option(help="Of the intervals.")] = 0.95,
    out: OutOption = None,
    json: JsonOption = False,
) -> None:
    """How accurate are models on data without labels? Estimated from how often they agree there.

    Where the agreement of pairs on both datasets does not lie on a line, no answer is given, and the reason is. Beside the
    estimate: the models' average confidence, and its threshold variant ATC.

    [dim]zoo accuracy 'resnet8-*' --from digits:test --to digits:test~noise3[/dim]
    """
    from diversity import accuracy_without_labels

    _check_out(out)
    found = accuracy_without_labels(find_runs(names, end), find_runs(names, start), level=level, least_r2=least_r2)
    _write(found.frame, out)
    if json:
        print_json({"from": start, "to": end, **found.to_dict()})
        return
    titles = {
        "model": "model", "accuracy": "accuracy", "low": "low", "high": "high", "source_accuracy": "labelled",
        "average_confidence": "confidence", "atc": "ATC",
    }  # fmt: skip
    shown = found.frame[list(titles)].rename(columns=titles).sort_values("accuracy", ascending=False, kind="stable")
    print_table(_records(shown))
    note(str(found))


def triage(
    names: Names,
    data: DataOption = None,
    kind: Annotated[
        Literal["mislabelled", "ambiguous", "unsure"] | None, typer.Option(help="Only these. Default: by wrong label.")
    ] = None,
    first: Annotated[int, typer.Option("--first", "-n", help="How many to show.")] = 20,
    out: OutOption = None,
    json: JsonOption = False,
) -> None:
    """Which labels of a dataset are likely wrong, which examples are ambiguous, which nothing that models know?

    The models must have been trained on other examples. --out takes the whole list; --json the first ones of it.

    [dim]zoo triage 'resnet8-*' --data digits-holes:test --first 10[/dim]

    [dim]zoo triage 'resnet8-*' --data digits-holes:test --kind ambiguous -o ambiguous.csv[/dim]
    """
    from diversity import triage as triage_runs

    _check_out(out)
    if first < 1:
        raise InputError(f"first: expected at least 1, found {first}")
    found = triage_runs(find_runs(names, data))
    chosen = found.frame if kind is None else found.of_kind(kind)
    _write(chosen, out)
    if json:
        count, low, high = found.expected_wrong
        about: dict[str, Any] = {"dataset": found.dataset, "examples": len(found.frame), "kinds": found.counts()}
        about |= {"expected_wrong": count, "expected_wrong_interval": [low, high]}
        print_json(about | {"groups": found.groups, "weights": found.weights, "rows": chosen.head(first)})
        return
    shown = chosen.head(first)[["id", "kind", "label", "suggested", "wrong", "against", "split", "unsure"]]
    shown = shown.assign(id=[text if len(text) <= WIDTH else f"…{text[1 - WIDTH :]}" for text in map(str, shown["id"])])
    print_table(_records(shown.round(3)))
    note(str(found))


def _records(frame: "pd.DataFrame") -> list[dict[str, Any]]:
    return frame.to_dict("records")  # type: ignore[return-value]


def _check_out(out: Path | None) -> None:
    if out is not None and (out.suffix.lower() != ".csv" or not out.absolute().parent.is_dir()):
        raise InputError(f"--out {out}: expected a name that ends in .csv, in a folder that exists")


def _write(frame: "pd.DataFrame", out: Path | None) -> None:
    from zoo.core import files

    if out is not None:
        files.write(out, csv_bytes(frame))
        note(f"wrote {out}")
