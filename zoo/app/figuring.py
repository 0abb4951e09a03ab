"""`zoo figure`: any table or figure of the two papers, of one's own models."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zoo.app.finding import SplitOption
from zoo.app.printing import JsonOption, note, print_json, print_table
from zoo.cards.names import default_dataset
from zoo.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from zoo.app.figures import Figure, Result, Study

PANEL = "Reports"
TABLES, CHARTS = (".csv", ".json", ".md"), (".svg", ".png", ".html", ".pdf")
LONGEST = 60  # rows of a table that a terminal is given
TERMINAL = 80  # columns


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
    app.command("figure", rich_help_panel=PANEL)(figure)


def figure(
    key: Annotated[str | None, typer.Argument(help="Which one: loss/5a, loss/table-1, representation/2, ...")] = None,
    names: Annotated[
        list[str] | None, typer.Argument(help="Models by name or pattern; default: those of the dataset that are here.")
    ] = None,
    data: Annotated[str | None, typer.Option(help="Dataset the models are compared on.")] = None,
    transfer: Annotated[list[str] | None, typer.Option(help="Another task to transfer to; may be repeated.")] = None,
    base: Annotated[str | None, typer.Option(help="The model that others are compared with.")] = None,
    option: Annotated[
        list[str] | None, typer.Option("--option", "-O", help="A setting of the figure's own: steps=100; may be repeated.")
    ] = None,
    split: SplitOption = None,
    seed: Annotated[int, typer.Option(help="Of every random split.")] = 0,
    out: Annotated[
        list[Path] | None,
        typer.Option("--out", "-o", help=f"Write {', '.join(TABLES)} (table), {', '.join(CHARTS)} (chart); repeatable."),
    ] = None,
    list_all: Annotated[
        bool, typer.Option("--list", help="What there is, what it needs, and what is missing here.")
    ] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="With --list: the table of the README.")] = False,
    json: JsonOption = False,
) -> None:
    """A table or figure of the papers, of these models: the chart, the numbers, and the paper's numbers beside them.

    Rows are training objectives, cells means over seeds ± the standard error; in bold is what does not differ
    significantly from the best. What cannot be made says why.

    [dim]zoo figure loss/5a 'resnet8-*.digits' --transfer digits-rotated -o 5a.svg -o 5a.md[/dim]

    [dim]zoo figure --list[/dim]
    """
    from zoo.app.figures import find

    if markdown:
        print(in_markdown(), end="")
        return
    study = _study(names if not list_all or key is None else [key, *(names or [])], data, transfer, base, split, seed)
    if list_all or key is None:
        _list(study, json)
        return
    wanted, settings = find(key), dict(_setting(text) for text in option or [])
    _check(out or [])
    result = wanted.of(study, settings)
    try:
        for path in out or []:
            _write(wanted, study, result, path)
    finally:  # the numbers took all the work: they are printed whatever becomes of a file
        if json:
            print_json(_as_json(wanted, study, result))
        else:
            _print(wanted, result, study.data)


def _study(
    names: list[str] | None, data: str | None, transfer: list[str] | None, base: str | None, split: str | None, seed: int
) -> "Study":
    from zoo import datasets
    from zoo.app.figures import Study, at_hand
    from zoo.runs.resolver import runnable

    spec = datasets.canonical(data or default_dataset())
    asked = [*(names or at_hand(spec)), *([base] if base else [])]
    models = runnable(asked, spec) if asked else []
    share: Any = split
    if split is not None and split.replace(".", "", 1).isdigit():
        share = float(split)
    return Study(models, spec, [datasets.canonical(task) for task in transfer or []], base, share, seed)


def _list(study: "Study", json: bool) -> None:
    """Every figure: what it needs, and why it cannot be made of these models."""
    from zoo.app.figures import FIGURES

    rows: list[dict[str, Any]] = [
        {
            "figure": one.key, "title": one.title, "needs": [need.words for need in one.needs],
            "settings": one.options, "missing": one.missing(study),
        }
        for one in sorted(FIGURES.values(), key=lambda one: one.order)
    ]  # fmt: skip
    if json:
        print_json({"models": study.names, "data": study.data, "transfer": study.transfer, "figures": rows})
        return
    note(f"with {len(study.names)} models on {', '.join([study.data, *study.transfer])}")
    print_table(
        {
            "figure": row["figure"],
            "shows, and needs": f"{row['title']} ({', '.join(row['needs']) or 'nothing'})",
            "can be made": row["missing"] or "yes",
        }
        for row in rows
    )


def in_markdown() -> str:
    """The list of every figure that the README has: what it was run with here, and what one with ImageNet would run."""
    from zoo.app.figures import FIGURES, PAPERS

    lines = []
    for paper, title in PAPERS.items():
        lines += ["", f"| {title} | `zoo figure` | run here with | with ImageNet |", "| --- | --- | --- | --- |"]
        for one in sorted((one for one in FIGURES.values() if one.key.startswith(paper)), key=lambda one: one.order):
            here = f"not run: {one.why_not}" if one.example is None else _code(one.example)
            lines.append(f"| {one.place}: {one.title} | `{one.key}` | {here} | {_code(one.imagenet)} |")
    return "\n".join(lines[1:]) + "\n"


def _code(text: str) -> str:
    """Arguments as code, and the command to run before it, where there is one."""
    arguments, _, before = text.partition(" after ")
    return (f"`{arguments}`" if text else "no arguments") + (f" after `{before}`" if before else "")


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise InputError(f"--option {text}: expected NAME=VALUE, such as steps=100")
    return name.strip(), value.strip()


def _check(paths: list[Path]) -> None:
    """Before the work rather than after it."""
    for path in paths:
        if path.suffix.lower() not in (*TABLES, *CHARTS):
            raise InputError(f"--out {path}: expected a name that ends in {', '.join((*TABLES, *CHARTS))}")
        if not path.absolute().parent.is_dir():
            raise InputError(f"--out {path}: there is no folder {path.absolute().parent}")


def _write(wanted: "Figure", study: "Study", result: "Result", path: Path) -> None:
    import json

    from zoo.app.charting import save_chart
    from zoo.app.printing import plain
    from zoo.core import files
    from zoo.core.text import as_text, csv_bytes

    kind = path.suffix.lower()
    if kind in CHARTS:
        save_chart(result.chart.properties(title=f"{wanted.key}: {wanted.title}"), path)
        return
    if kind == ".csv":
        data = csv_bytes(result.frame)
    elif kind == ".md":
        text = "\n".join([f"# {wanted.key}: {wanted.title}", "", result.markdown(), *(f"- {said}" for said in result.notes)])
        data = "\n".join(map(as_text, text.split("\n"))).encode("utf-8", "backslashreplace") + b"\n"
    else:
        data = json.dumps(plain(_as_json(wanted, study, result)), indent=2, ensure_ascii=False).encode() + b"\n"
    files.write(path, data)
    note(f"wrote {path}")


def _as_json(wanted: "Figure", study: "Study", result: "Result") -> dict[str, Any]:
    from zoo.app.figures import PAPERS

    return {
        "figure": wanted.key, "place": wanted.place, "paper": PAPERS[wanted.key.partition("/")[0]], "title": wanted.title,
        "models": list(study.names), "data": study.data, "transfer": list(study.transfer), "notes": result.notes,
        "rows": result.frame,
    }  # fmt: skip


def _print(wanted: "Figure", result: "Result", data: str) -> None:
    """The table where it fits, else one line per number; what is more than a screen is left to a file."""
    from zoo.app.figures.result import with_error
    from zoo.cards.names import dataset_name

    table, frame = result.table, result.frame
    tested = "best" in frame
    if tested and _width(table) > TERMINAL:
        ours = zip(frame["mean"], frame["error"], frame["best"], strict=True)
        theirs = zip(frame["paper"], frame["paper_error"], strict=True)
        firsts = {f"{column.partition('-')[0]}-" for column in frame["column"]}  # `collapse-` of all: need not be said
        table = frame[["row", "column"]].assign(
            column=[c.removeprefix(min(firsts)) if len(firsts) == 1 else c for c in frame["column"]],
            ours=[f"**{with_error(mean, error)}**" if best else with_error(mean, error) for mean, error, best in ours],
            paper=[with_error(mean, error) for mean, error in theirs],
        )
    if tested and frame["best"].notna().any():
        table = table.map(lambda text: f"{text.strip('*')} *" if text.startswith("**") else text)
        note("* does not differ significantly from the best")
    table = table.head(LONGEST).map(lambda text: _short(text, dataset_name(data)))
    title = f"{wanted.key}: {wanted.title}"
    if "first" in table and len(table) > 1 and table["first"].nunique() == 1:  # said once: there is room for the numbers
        title += f", beside {table['first'].iloc[0]}"
        table = table.drop(columns="first")
    columns = _fitting(table)
    rows: list[dict[str, Any]] = table[columns].to_dict("records")  # type: ignore[assignment]
    print_table(rows, columns, title=title)
    left_out = [f"{len(result.table) - LONGEST:,} rows"] if len(result.table) > LONGEST else []
    left_out += [str(column) for column in table.columns if column not in columns]
    if left_out:
        note(f"not shown: {', '.join(left_out)}; -o FILE.csv has everything")
    for said in result.notes:
        note(said)


def _short(text: str, dataset: str) -> str:
    """Models' names without their dataset, which the command was given."""
    from zoo.cards.names import bare

    return ", ".join(bare(name).removesuffix(f".{dataset}") for name in text.split(", ")) if "." in text else text


def _fitting(table: "pd.DataFrame") -> list[str]:
    """The first columns, as many as the terminal has room for."""
    names = [str(name) for name in table.columns]
    return next((names[:count] for count in range(len(names), 1, -1) if _width(table[names[:count]]) <= TERMINAL), names[:2])


def _width(table: "pd.DataFrame") -> int:
    return sum(max([len(str(name)), *(len(str(cell)) for cell in table[name])]) + 3 for name in table.columns)
