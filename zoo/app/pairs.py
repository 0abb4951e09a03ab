"""`zoo pairs` and `zoo shift`: tables over many models, to read here or to take elsewhere."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zoo.app.bare_files import takes_bare_files
from zoo.app.charting import ChartOption, check_chart, save_chart
from zoo.app.comparing import PANEL
from zoo.app.finding import DataOption, find_runs
from zoo.app.printing import JsonOption, note, print_json, print_table
from zoo.core.text import as_text, csv_bytes
from zoo.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

OutOption = Annotated[Path | None, typer.Option("--out", "-o", help="Write it as a .csv file.")]
Names = Annotated[list[str], typer.Argument(help="Models, by name or pattern.", metavar="NAMES")]


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
    app.command("pairs", rich_help_panel=PANEL)(takes_bare_files(pairs))
    app.command("shift", rich_help_panel=PANEL)(takes_bare_files(shift))


def pairs(
    names: Names,
    data: DataOption = None,
    measure: Annotated[str, typer.Option(help="kappa, inconsistency, agreement, q, double_fault, ...")] = "kappa",
    long: Annotated[bool, typer.Option("--long", help="One row per pair instead of a matrix.")] = False,
    tree: Annotated[bool, typer.Option("--tree", help="Group the models by it: a dendrogram.")] = False,
    out: OutOption = None,
    chart: ChartOption = None,
    json: JsonOption = False,
) -> None:
    """A measure of every pair of models, as a matrix or one row per pair; with --tree, who is like whom.

    Two models are 1 - kappa apart, or 1 - agreement, or as far as inconsistency says; groups, their average distance.

    [dim]zoo pairs 'resnet8-*' --data digits:test --measure kappa -o kappa.csv[/dim]

    [dim]zoo pairs 'resnet8-*' --data digits:test --measure agreement --tree --chart agreement.svg[/dim]
    """
    from diversity import pairwise

    _check_out(out)
    check_chart(chart)
    table = pairwise(find_runs(names, data))
    if len(table.names) < 2:
        raise InputError(f"expected at least two models, found {table.names[0]} alone")
    matrix = table.matrix(measure)  # first: a measure that does not exist is said before anything is printed
    grouped = table.tree(measure) if tree else None
    frame = table.to_frame()[["first", "second", measure]] if long else matrix.rename_axis("model").reset_index()
    value: Any = frame.to_dict("records") if json else None
    if json and grouped is not None:
        value = {"measure": measure, "pairs": value, "leaves": grouped.leaves, "linkage": grouped.linkage}
    _give(frame, out, value, None if long or _fits(matrix) else _extremes(matrix))
    if grouped is not None and not json:
        print("\n" + "\n".join(map(as_text, grouped.to_text(_room()).splitlines())))
    if chart is not None:
        from diversity.charts import matrix_chart
        from diversity.measures import title

        save_chart(matrix_chart(matrix, title(measure), grouped), chart)


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


def _give(frame: "pd.DataFrame", out: Path | None, value: Any, shown: "pd.DataFrame | None" = None) -> None:
    """A table: written if `out` says where, else printed, or `shown` of it; as JSON if there is a `value`.

    A file that cannot be written does not take the table with it.
    """
    from zoo.core import files

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
            rows: list[dict[str, Any]] = (frame if shown is None else shown).to_dict("records")  # type: ignore[assignment]
            print_table(rows)
            if shown is not None:
                note(f"{len(frame)} models are too many for this terminal; --long, --out, --chart or --json give all pairs")


def _room() -> int:
    return shutil.get_terminal_size((80, 24)).columns


def _fits(matrix: "pd.DataFrame") -> bool:
    """Whether the whole matrix fits the terminal."""
    names = [as_text(name) for name in matrix.index]
    return max(map(len, names)) + sum(max(len(name), 6) + 3 for name in names) <= _room()


def _extremes(matrix: "pd.DataFrame") -> "pd.DataFrame":
    """For each model the others of which the measure is highest and lowest."""
    import numpy as np
    import pandas as pd

    values = matrix.to_numpy(float).copy()
    np.fill_diagonal(values, np.nan)
    others = pd.DataFrame(values, index=matrix.index, columns=matrix.columns)
    return pd.DataFrame(
        {
            "model": others.index,
            "highest with": [None if row.isna().all() else row.idxmax() for _, row in others.iterrows()],
            "": others.max(axis=1).to_numpy(),
            "lowest with": [None if row.isna().all() else row.idxmin() for _, row in others.iterrows()],
            " ": others.min(axis=1).to_numpy(),
        }
    )
