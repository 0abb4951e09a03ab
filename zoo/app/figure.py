"""`zoo figure`: the tables and figures of the two papers, made from any models."""

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zoo.app.completion import complete_figures
from zoo.app.options import (
    CHARTS,
    NUMBERS,
    REPORT,
    TABLE,
    Base,
    Data,
    Fresh,
    Json,
    OptionalModels,
    Seed,
    TemperaturesFrom,
    check_output,
    command,
    ending,
    spec_option,
    split_or_fraction,
    write_result,
)
from zoo.app.terminal import note, print_json, print_table, wrote
from zoo.cards.names import default_dataset
from zoo.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from zoo.app.figures import Figure, Result, Study

MARKDOWN, LATEX = ".md", ".tex"
MAX_ROWS = 60  # of a printed table


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("figure", rich_help_panel=REPORT)(command(figure))


def figure(
    *,
    key: Annotated[
        str | None,
        typer.Argument(
            metavar="[KEY]",
            help="loss/5a, loss/table-1, representation/2, ...",
            show_default=False,
            autocompletion=complete_figures,
        ),
    ] = None,
    models: OptionalModels = None,
    data: Data = None,
    transfer: Annotated[list[str] | None, spec_option("--transfer", "Dataset to transfer to. May be repeated.")] = None,
    base: Base = None,
    option: Annotated[
        list[str] | None,
        typer.Option("--option", "-O", metavar="NAME=VALUE", help="A setting of the figure. May be repeated."),
    ] = None,
    list_all: Annotated[
        bool, typer.Option("--list", help="List all figures, what they need, and what is missing here.")
    ] = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="With --list: print the README's table.")] = False,
    seed: Seed = 0,
    fresh: Fresh = False,
    temperatures_from: TemperaturesFrom = None,
    output: Annotated[
        list[Path] | None,
        typer.Option(
            "--output",
            "-o",
            metavar="FILE",
            help="Write a file: .csv, .json, .md or .tex (numbers), .html, .svg, .png or .pdf (chart). May be repeated.",
        ),
    ] = None,
    width: Annotated[
        str | None, typer.Option(metavar="LENGTH", help="Width of the chart, such as 3.3in for a column of a paper.")
    ] = None,
    font_size: Annotated[float | None, typer.Option(metavar="POINTS", help="Size of all text in the chart.")] = None,
    json: Json = False,
) -> None:
    """Make a table or figure of the two papers from these models, next to the paper's numbers.

    Rows are training objectives; cells are means over seeds ± standard error. An asterisk marks what does not differ
    significantly from the best. Without MODELS: all models of the dataset that are on this machine.

    [dim]zoo figure loss/5a 'resnet8-*.digits' --transfer digits-rotated -o 5a.svg -o 5a.md[/dim]

    [dim]zoo figure representation/2 @cifar10 --width 3.3in --font-size 8 -o fig2.pdf -o fig2.tex[/dim]

    [dim]zoo figure --list[/dim]
    """
    from zoo.app.figures import find

    if markdown:
        print(in_markdown(), end="")
        return
    chosen = [*(models or ())] if not list_all or key is None else [key, *(models or ())]
    study = _study(chosen, data, transfer or [], base, temperatures_from, seed, fresh)
    if list_all or key is None:
        _list(study, json)
        return
    wanted, settings = find(key), dict(_setting(text) for text in option or [])
    for path in output or []:
        check_output(path, (TABLE, NUMBERS, MARKDOWN, LATEX, *CHARTS))
    result = wanted.of(study, settings)
    value = _value(wanted, study, result)
    if json:
        print_json(value)
    else:
        _print(wanted, result, study.data)
    for path in output or []:
        _write(wanted, value, result, path, width, font_size)


def _study(
    models: list[str],
    data: str | None,
    transfer: list[str],
    base: str | None,
    temperatures_from: str | None,
    seed: int,
    fresh: bool,
) -> "Study":
    from zoo import datasets
    from zoo.app.figures import Study, at_hand
    from zoo.runs.resolver import infer_dataset, runnable
    from zoo.runs.runner import run

    inferred = infer_dataset(models, None) if models and data is None else None
    spec = datasets.canonical(data or inferred or default_dataset())
    selected = [*(models or at_hand(spec)), *([base] if base else [])]
    names = runnable(selected, spec) if selected else []
    tasks = [datasets.canonical(task) for task in transfer]
    outputs = functools.partial(run, fresh=True) if fresh else run
    return Study(names, spec, tasks, base, split_or_fraction(temperatures_from), seed, outputs)


def _list(study: "Study", json: bool) -> None:
    """Print every figure, what it needs, and why it cannot be made from these models."""
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
            "title (needs)": f"{row['title']} ({', '.join(row['needs']) or 'nothing'})",
            "possible": row["missing"] or "yes",
        }
        for row in rows
    )


def in_markdown() -> str:
    """Return the README's table of figures: the arguments each was run with, and those for ImageNet."""
    from zoo.app.figures import FIGURES, PAPERS

    lines = []
    for paper, title in PAPERS.items():
        lines += ["", f"| {title} | `zoo figure` | run here with | with ImageNet |", "| --- | --- | --- | --- |"]
        for one in sorted((one for one in FIGURES.values() if one.key.startswith(paper)), key=lambda one: one.order):
            here = f"not run: {one.why_not}" if one.example is None else _code(one.example)
            lines.append(f"| {one.place}: {one.title} | `{one.key}` | {here} | {_code(one.imagenet)} |")
    return "\n".join(lines[1:]) + "\n"


def _code(text: str) -> str:
    """Return arguments as Markdown code, with the command that must be run before, if there is one."""
    arguments, _, before = text.partition(" after ")
    return (f"`{arguments}`" if text else "no arguments") + (f" after `{before}`" if before else "")


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not (name and equals and value):
        raise InputError(argument="option", expected="NAME=VALUE, such as steps=100", found=text)
    return name.strip(), value.strip()


def _write(
    wanted: "Figure", value: dict[str, Any], result: "Result", path: Path, width: str | None, font_size: float | None
) -> None:
    from zoo.app.figures import sized
    from zoo.core import files
    from zoo.core.text import as_text

    title = f"{wanted.key}: {wanted.title}"
    if ending(path, (MARKDOWN, LATEX)) is None:
        write_result(path, value, result.frame, lambda: sized(result.chart.properties(title=title), width, font_size))
        return
    if ending(path, (LATEX,)):
        text = f"% {title}\n{result.latex()}"
    else:
        text = "\n".join([f"# {title}", "", result.markdown(), *(f"- {remark}" for remark in result.notes)])
    files.write(path, "\n".join(map(as_text, text.split("\n"))).encode("utf-8", "backslashreplace") + b"\n")
    wrote(path)


def _value(wanted: "Figure", study: "Study", result: "Result") -> dict[str, Any]:
    from zoo.app.figures import PAPERS

    return {
        "figure": wanted.key, "place": wanted.place, "paper": PAPERS[wanted.key.partition("/")[0]], "title": wanted.title,
        "models": list(study.names), "data": study.data, "transfer": list(study.transfer), "notes": result.notes,
        "rows": result.frame,
    }  # fmt: skip


def _print(wanted: "Figure", result: "Result", data: str) -> None:
    """Print the table of a figure, or one line per number if the table is too wide, and its notes."""
    from zoo.app.figures.result import with_error
    from zoo.app.terminal import width
    from zoo.cards.names import dataset_name

    table, frame = result.table, result.frame
    tested = "best" in frame
    if tested and _width(table) > width():
        ours = zip(frame["mean"], frame["error"], frame["best"], strict=True)
        theirs = zip(frame["paper"], frame["paper_error"], strict=True)
        prefixes = {f"{column.partition('-')[0]}-" for column in frame["column"]}  # one that all columns share is removed
        table = frame[["row", "column"]].assign(
            column=[c.removeprefix(min(prefixes)) if len(prefixes) == 1 else c for c in frame["column"]],
            ours=[f"**{with_error(mean, error)}**" if best else with_error(mean, error) for mean, error, best in ours],
            paper=[with_error(mean, error) for mean, error in theirs],
        )
    if tested and frame["best"].notna().any():
        table = table.map(lambda text: f"{text.strip('*')} *" if text.startswith("**") else text)
        note("* does not differ significantly from the best")
    table = table.head(MAX_ROWS).map(lambda text: _without_dataset(text, dataset_name(data)))
    title = f"{wanted.key}: {wanted.title}"
    if "first" in table and len(table) > 1 and table["first"].nunique() == 1:
        title += f", with {table['first'].iloc[0]}"
        table = table.drop(columns="first")
    print_table(table, title=title, rest="-o FILE.csv has everything")
    if len(result.table) > MAX_ROWS:
        note(f"not shown: {len(result.table) - MAX_ROWS:,} rows; -o FILE.csv has everything")
    for remark in result.notes:
        note(remark)


def _without_dataset(text: str, dataset: str) -> str:
    """Return model names without the dataset on which the figure is made."""
    from zoo.cards.names import bare

    return ", ".join(bare(name).removesuffix(f".{dataset}") for name in text.split(", ")) if "." in text else text


def _width(table: "pd.DataFrame") -> int:
    return sum(max([len(str(name)), *(len(str(cell)) for cell in table[name])]) + 2 for name in table.columns)
