"""`zoo pairs` and `zoo shift`: tables over many models, to read here or to take elsewhere."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zoo._storage.text import as_text, csv_bytes
from zoo.app.comparing import PANEL
from zoo.app.finding import DataOption, find_runs
from zoo.app.printing import JsonOption, note, print_json, print_table
from zoo.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

OutOption = Annotated[Path | None, typer.Option("--out", "-o", help="Write it as a .csv file.")]
Names = Annotated[list[str], typer.Argument(help="Models, by name or pattern.", metavar="NAMES")]


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
    app.command("pairs", rich_help_panel=PANEL)(pairs)
    app.command("shift", rich_help_panel=PANEL)(shift)


def pairs(
    names: Names,
    data: DataOption = None,
    measure: Annotated[str, typer.Option(help="kappa, inconsistency, agreement, q, double_fault, ...")] = "kappa",
    long: Annotated[bool, typer.Option("--long", help="One row per pair instead of a matrix.")] = False,
    out: OutOption = None,
    json: JsonOption = False,
) -> None:
    """A measure of every pair of models, as a matrix or one row per pair.

    [dim]zoo pairs 'resnet8-*' --data digits:test --measure kappa -o kappa.csv[/dim]
    """
    from diversity import pairwise

    _check_out(out)
    table = pairwise(find_runs(names, data))
    matrix = table.matrix(measure)  # first: a measure that does not exist is said before anything is printed
    frame = table.to_frame()[["first", "second", measure]] if long else matrix.rename_axis("model").reset_index()
    _give(frame, out, frame.to_dict("records") if json else None)


def shift(
    names: Names,
    start: Annotated[str, typer.Option("--from", help="The dataset that models know.")],
    end: Annotated[str, typer.Option("--to", help="The dataset that is new to them.")],
    out: OutOption = None,
    json: JsonOption = False,
) -> None:
    """Accuracy on two datasets: the drop, the line that models lie on, and those that lie off it.

    [dim]zoo shift 'resnet8-*' --from digits:test --to digits-holes:test[/dim]
    """
    from probes.accuracy_line import LEVEL, accuracy_line

    _check_out(out)
    before, after = find_runs(names, start), find_runs(names, end)
    both = [name for name in before if name in after]
    if not both:
        raise InputError(f"no model has outputs on both {start} and {end}")
    counts = tuple({len(runs[name]) for name in both} for runs in (before, after))
    for spec, found in zip((start, end), counts, strict=True):
        if len(found) > 1:
            raise InputError(f"{spec}: models have outputs on different numbers of examples ({min(found)} to {max(found)})")
    (first,), (second,) = counts
    line = accuracy_line(
        both, [before[n].accuracy for n in both], [after[n].accuracy for n in both], (first, second)
    )  # fmt: skip
    about = {"from": start, "to": end, **{key: value for key, value in vars(line).items() if key != "frame"}}
    _give(line.frame, out, about | {"models": line.frame} if json else None)
    if line.slope != line.slope:
        note("no line: it takes at least three models of different accuracy")
        return
    low, high = line.slope_interval
    off = [as_text(name) for name in line.frame["model"][line.frame["off"]]]
    note(
        f"on the probit scale slope {line.slope:.3g} ({low:.3g} to {high:.3g}, {LEVEL:.0%}), correlation "
        f"{line.correlation:.3g}; off the line: {', '.join(off) or 'none'}"
    )


def _check_out(out: Path | None) -> None:
    if out is not None and out.suffix.lower() != ".csv":
        raise InputError(f"--out {out}: expected a name that ends in .csv")
    if out is not None and not out.absolute().parent.is_dir():
        raise InputError(f"--out {out}: there is no folder {out.absolute().parent}")


def _give(frame: "pd.DataFrame", out: Path | None, value: Any) -> None:
    """A table whose texts come from files: written if `out` says where, else printed; as JSON if there is a `value`.

    A file that cannot be written does not take the table with it.
    """
    from zoo._storage import files

    written = False
    try:
        if out is not None:
            files.write(out, csv_bytes(frame))
            note(f"wrote {out}")
            written = True
    finally:
        if value is not None:
            print_json(value)
        elif not written:
            _print(frame)


def _print(frame: "pd.DataFrame") -> None:
    rows: list[dict[str, Any]] = frame.to_dict("records")  # type: ignore[assignment]
    print_table({as_text(key): as_text(v) if isinstance(v, str) else v for key, v in row.items()} for row in rows)
