"""`Result`: the numbers, chart and notes of a figure, and its table as text, Markdown and LaTeX."""

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from probes import holm, indistinguishable_from_best, indistinguishable_on_average, mean_and_error, spearman
from probes.statistics import MIN_TESTED, leave_one_out
from zoo.app.figures import shapes
from zoo.app.figures.papers import PaperNumbers
from zoo.app.figures.study import RECIPE, Study

Value = tuple[str, str, float]  # model, column, number
AVERAGE = "average"
MIN_ROWS = 4  # rows whose order is compared with the paper's
_LATEX = {
    "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}", "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}", "\\": r"\textbackslash{}", "±": r"$\pm$", "–": "--", "²": "$^2$", "θ": r"$\theta$",
}  # fmt: skip


@dataclass(frozen=True)
class Result:
    """A finished figure.

    Args:
        frame: the numbers, tidy.
        chart: Altair chart with its data embedded.
        notes: sentences to print below the table.
        shown: the table as readers see it, as text, with the best values of a column between `**`; default: the frame.
    """

    frame: pd.DataFrame
    chart: Any
    notes: tuple[str, ...] = ()
    shown: pd.DataFrame | None = None

    @property
    def table(self) -> pd.DataFrame:
        """The table as text."""
        return self.frame.map(number) if self.shown is None else self.shown

    def means(self, rows: Sequence[str]) -> pd.DataFrame:
        """Return the means of a table of `by_row`: one line per row, in this order, and one column per quantity."""
        return self.frame.pivot(index="row", columns="column", values="mean").reindex(list(rows))

    def markdown(self) -> str:
        """Return the table in Markdown."""
        lines = [list(map(str, self.table.columns)), ["---"] * self.table.shape[1], *self.table.to_numpy(str).tolist()]
        return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines) + "\n"

    def latex(self) -> str:
        """Return the table as a LaTeX `tabular`, which needs the package booktabs."""
        table = self.table.map(lambda cell: _latex(str(cell))).rename(columns=lambda name: _latex(str(name)))
        return table.to_latex(index=False, escape=False, column_format="l" + "r" * (table.shape[1] - 1))


def by_row(
    study: Study,
    values: Iterable[Value],
    paper: PaperNumbers | None = None,
    lower: Collection[str] = (),
    untested: Collection[str] = (),
    average: Collection[str] = (),
    notes: Iterable[str] = (),
    rows: Mapping[str, str] | None = None,
) -> Result:
    """Return a table in the form of Kornblith et al.: rows are objectives, cells are means over seeds ± standard error.

    Bold are the values that do not differ significantly from the best of their column (Welch's t-test, p < 0.05), if every
    cell of the column has at least three seeds.

    Args:
        study: the models.
        values: one value per model and column.
        paper: the paper's numbers, shown next to ours.
        lower: columns in which the lowest value is best.
        untested: columns without a best value.
        average: columns whose mean is added as a further column, tested by a two-way analysis of variance.
        notes: of the result.
        rows: the row of each model; default: `study.rows`.
    """
    row_of = study.rows if rows is None else rows
    rank = {row: number for number, row in enumerate(dict.fromkeys(row_of.values()))}
    table = pd.DataFrame(list(values), columns=["model", "column", "value"])
    table["row"] = table["model"].map(row_of)
    table = table.sort_values("row", key=lambda column: column.map(rank), kind="stable")
    paper = paper or {}
    # Only networks trained by a recipe are compared with the paper's of their objective; linear heads and others are not.
    trained = {name: study.objective(name) for name in row_of if study.setting(name, "source") == RECIPE}
    quoted = {row: paper.get(row) or paper.get(trained.get(name, "")) or {} for name, row in row_of.items()}
    columns = list(dict.fromkeys(table["column"]))
    cells = []
    for column in columns:
        groups = {
            str(row): part.to_numpy(float)
            for row, part in table[table["column"] == column].groupby("row", sort=False)["value"]
        }
        tested = column not in untested and len(groups) > 1
        best = indistinguishable_from_best(groups, lower_is_better=column in lower) if tested else None
        cells += _cells(column, groups, best, quoted)
    averaged = [column for column in columns if column in average]
    if len(averaged) > 1:
        complete = _complete(table, averaged)
        enough = complete and min(x.shape[1] for x in complete.values()) >= MIN_TESTED
        best = indistinguishable_on_average(complete) if enough else None
        cells += _cells(AVERAGE, {row: x.mean(0) for row, x in complete.items()}, best, _averaged(quoted, averaged))
    frame = pd.DataFrame(cells)
    return Result(frame, shapes.dots(frame), (*notes, *_order_of_paper(frame)), _wide(frame))


def rank_correlations(samples: Mapping[str, pd.DataFrame], unit: str = "row") -> dict[str, str]:
    """Return Spearman's correlation of the columns `x` and `y` of each sample, as text with its p-value.

    P-values are exact up to ten points, and adjusted by Holm's method for the number of samples. Up to ten points, the
    lowest and the highest correlation without one of the points follow; for a single sample, with their p-values.

    Args:
        samples: frames with columns `x`, `y` and `label`, by name.
        unit: what a point is, in the singular.
    """
    usable = {name: s for name, s in samples.items() if len(s) > 2 and min(s["x"].nunique(), s["y"].nunique()) > 1}
    if not usable:
        return {}
    results = {name: spearman(s["x"], s["y"]) for name, s in usable.items()}
    adjusted = holm([p for _, p in results.values()])
    texts = {}
    for (name, (rho, _)), p in zip(results.items(), adjusted, strict=True):
        sample = usable[name]
        parts = [f"p = {p:.3f}", f"{len(sample)} {unit}s"]
        if MIN_ROWS <= len(sample) <= 10:
            parts += filter(None, [_without_one(sample, tested=len(usable) == 1)])
        texts[name] = f"{rho:.2f} ({', '.join(parts)})"
    return texts


def _without_one(sample: pd.DataFrame, tested: bool) -> str:
    """Return the lowest and the highest correlation without one of the points as text; `tested`: with their p-values."""
    rows = leave_one_out(sample["x"], sample["y"], list(sample["label"])).dropna()
    rows = rows.sort_values("correlation", kind="stable", key=lambda values: values.round(9))  # equal up to rounding
    ends = rows.iloc[[0, -1]].to_dict("records") if len(rows) else []
    return " to ".join(
        f"{end['correlation']:.2f} without {end['without']}" + (f" [p = {end['p']:.3f}]" if tested else "") for end in ends
    )


def _order_of_paper(frame: pd.DataFrame) -> list[str]:
    """Return a note on whether the rows have the paper's order, column by column."""
    samples = {}
    for column, cells in frame.dropna(subset=["mean", "paper"]).groupby("column", sort=False):
        if min(cells["mean"].nunique(), cells["paper"].nunique()) >= MIN_ROWS:
            samples[str(column)] = cells.rename(columns={"mean": "x", "paper": "y", "row": "label"})
    texts = rank_correlations(samples)
    corrected = f"; p-values by Holm's method for {len(texts)} columns" if len(texts) > 1 else ""
    joined = "; ".join(f"{column} {text}" for column, text in texts.items())
    return [f"rank correlation with the paper's values{corrected}: {joined}"] if texts else []


def _cells(
    column: str, groups: Mapping[str, np.ndarray], best: Sequence[str] | None, paper: PaperNumbers
) -> list[dict[str, Any]]:
    cells = []
    for row, values in groups.items():
        mean, error = mean_and_error(values)
        quoted, quoted_error = paper.get(row, {}).get(column, (math.nan, None))
        cells.append(
            {
                "row": row, "column": column, "mean": mean, "error": error, "seeds": len(values),
                "best": None if best is None else row in best,
                "paper": quoted, "paper_error": math.nan if quoted_error is None else quoted_error,
            }
        )  # fmt: skip
    return cells


def _complete(table: pd.DataFrame, columns: list[str]) -> dict[str, np.ndarray]:
    """Return [columns, seeds] of the rows that have every column, with the same number of seeds for all rows."""
    complete = {}
    for row, part in table.groupby("row", sort=False):
        seeds = part.pivot(index="column", columns="model", values="value").reindex(columns).dropna(axis=1)
        if seeds.shape[1]:
            complete[str(row)] = seeds.to_numpy(float)
    seed_count = min((x.shape[1] for x in complete.values()), default=0)
    return {row: x[:, :seed_count] for row, x in complete.items()}


def _averaged(paper: PaperNumbers, columns: list[str]) -> PaperNumbers:
    """Return the paper's mean over the columns, for the rows in which the paper has a number in every column."""
    known = {row: [numbers[c][0] for c in columns if c in numbers] for row, numbers in paper.items()}
    return {row: {AVERAGE: (float(np.mean(values)), None)} for row, values in known.items() if len(values) == len(columns)}


def _wide(frame: pd.DataFrame) -> pd.DataFrame:
    """Return one line per row, with a column per quantity and one for the paper's value if the paper has it."""
    table: dict[str, dict[str, str]] = {row: {"": row} for row in dict.fromkeys(frame["row"])}
    for column, cells in frame.groupby("column", sort=False):
        quoted = cells["paper"].notna().any()
        for cell in cells.to_dict("records"):
            text = with_error(cell["mean"], cell["error"])
            table[cell["row"]][str(column)] = f"**{text}**" if cell["best"] else text
            if quoted:
                table[cell["row"]][f"{column}, paper"] = with_error(cell["paper"], cell["paper_error"])
    return pd.DataFrame(list(table.values())).fillna("–")


def _latex(text: str) -> str:
    bold = re.fullmatch(r"\*\*(.*)\*\*", text)
    escaped = "".join(_LATEX.get(character, character) for character in (bold[1] if bold else text))
    return rf"\textbf{{{escaped}}}" if bold else escaped


def with_error(mean: float, error: float) -> str:
    """Return a mean and its standard error as text, with as many digits as the error justifies.

    >>> with_error(77.0312, 0.0612), with_error(0.6412, 0.0003), with_error(93.4, float("nan")), with_error(5.0, 0.0)
    ('77.03 ± 0.06', '0.6412 ± 0.0003', '93.4', '5.00 ± 0.00')
    """
    if not math.isfinite(mean):
        return "–"
    digits = 1 if abs(mean) >= 10 else 2 if abs(mean) >= 1 else 3
    if not math.isfinite(error):
        return f"{mean:.{digits}f}"
    if error > 0:
        digits = max(digits, min(4, -math.floor(math.log10(error))))
    return f"{mean:.{digits}f} ± {error:.{digits}f}"


def number(value: Any) -> str:
    """Return a value as tables show it: four significant digits, a dash for a missing value."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
