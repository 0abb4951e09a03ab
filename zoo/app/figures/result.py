"""What a figure comes to: its numbers, its chart, what is to be said of it; and how these are written down."""

import math
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from probes import mean_and_error, not_worse_on_average, not_worse_than_best, spearman
from zoo.app.figures import shapes
from zoo.app.figures.papers import Number
from zoo.app.figures.study import Study

Value = tuple[str, str, float]  # model, column, number
Quotes = Mapping[str, Mapping[str, Number]]  # the paper's numbers, by row or objective and by column
AVERAGE = "average"
ORDERED = 4  # rows, at least, whose order can be compared with the paper's


@dataclass(frozen=True)
class Result:
    """Numbers as a tidy frame, a chart (Altair, the data inside), sentences, and the table as a reader sees it."""

    frame: pd.DataFrame
    chart: Any
    notes: tuple[str, ...] = ()
    shown: pd.DataFrame | None = None  # texts; without it the frame is shown as it is

    @property
    def table(self) -> pd.DataFrame:
        return self.frame.map(number) if self.shown is None else self.shown

    def markdown(self) -> str:
        """The table in Markdown, the best of a column in bold."""
        lines = [list(map(str, self.table.columns)), ["---"] * self.table.shape[1], *self.table.to_numpy(str).tolist()]
        return "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines) + "\n"


def by_row(
    study: Study,
    values: Iterable[Value],
    paper: Quotes | None = None,
    lower: Collection[str] = (),
    untested: Collection[str] = (),
    average: Collection[str] = (),
    notes: Iterable[str] = (),
    rows: Mapping[str, str] | None = None,
) -> Result:
    """A table of the papers' form: rows are objectives, cells the mean over seeds ± its standard error.

    In bold, as there, is what does not differ significantly from the best of its column (t-test, p < 0.05). The least is
    best in the columns of `lower`; there is none in those of `untested`, nor where a cell has one seed. The paper's number
    stands beside each: `paper` has them by row or by objective. `average` names columns whose mean is one more, tested by a
    two-way analysis of variance. `rows` says to which row each model belongs, where that is not the study's own.
    """
    row_of = study.rows if rows is None else rows
    place = {row: number for number, row in enumerate(dict.fromkeys(row_of.values()))}
    table = pd.DataFrame(list(values), columns=["model", "column", "value"])
    table["row"] = table["model"].map(row_of)
    table = table.sort_values("row", key=lambda column: column.map(place), kind="stable")
    theirs = {row: _quoted(paper or {}, row, study.objective(name)) for name, row in row_of.items()}
    columns = list(dict.fromkeys(table["column"]))
    cells = []
    for column in columns:
        groups = {
            row: part.to_numpy(float) for row, part in table[table["column"] == column].groupby("row", sort=False)["value"]
        }
        cells += _column(column, groups, None if column in untested else _best(groups, column in lower), theirs)
    averaged = [column for column in columns if column in average]
    if len(averaged) > 1:
        wide = _complete(table, averaged)
        best = not_worse_on_average(wide) if wide and min(x.shape[1] for x in wide.values()) > 1 else None
        cells += _column(AVERAGE, {row: x.mean(0) for row, x in wide.items()}, best, _averaged(theirs, averaged))
    frame = pd.DataFrame(cells)
    return Result(frame, shapes.dots(frame), (*notes, *_order_of_paper(frame)), _wide(frame))


def _order_of_paper(frame: pd.DataFrame) -> list[str]:
    """Whether the rows come in the paper's order, column by column, in one sentence."""
    found = []
    for column, cells in frame.dropna(subset=["mean", "paper"]).groupby("column", sort=False):
        if min(cells["mean"].nunique(), cells["paper"].nunique()) >= ORDERED:
            rho, p = spearman(cells["mean"], cells["paper"])
            found.append(f"{column} {rho:.2f} (p = {p:.3f}, {len(cells)} rows)")
    return [f"rank correlation with the paper's: {'; '.join(found)}"] if found else []


def _quoted(paper: Quotes, row: str, objective: str) -> Mapping[str, Number]:
    return paper.get(row) or paper.get(objective) or {}


def _column(
    column: str, groups: Mapping[Any, np.ndarray], best: Collection[str] | None, paper: Quotes
) -> list[dict[str, Any]]:
    found = []
    for row, values in groups.items():
        mean, error = mean_and_error(values)
        theirs, spread = paper.get(row, {}).get(column, (math.nan, None))
        found.append(
            {
                "row": row, "column": column, "mean": mean, "error": error, "seeds": len(values),
                "best": None if best is None else row in best,
                "paper": theirs, "paper_error": math.nan if spread is None else spread,
            }
        )  # fmt: skip
    return found


def _best(groups: Mapping[Any, np.ndarray], lower: bool) -> list[str] | None:
    testable = len(groups) > 1 and all(len(values) > 1 for values in groups.values())
    return not_worse_than_best(groups, lower_is_better=lower) if testable else None


def _complete(table: pd.DataFrame, columns: list[str]) -> dict[str, np.ndarray]:
    """[columns, seeds] of the rows that have every column, as many seeds of each as the least of them has."""
    found = {}
    for row, part in table.groupby("row", sort=False):
        seeds = part.pivot(index="column", columns="model", values="value").reindex(columns).dropna(axis=1)
        if seeds.shape[1]:
            found[str(row)] = seeds.to_numpy(float)
    fewest = min((x.shape[1] for x in found.values()), default=0)
    return {row: x[:, :fewest] for row, x in found.items()}


def _averaged(paper: Quotes, columns: list[str]) -> Quotes:
    """The paper's mean over the same columns, where it has all of them."""
    known = {row: [numbers[c][0] for c in columns if c in numbers] for row, numbers in paper.items()}
    return {row: {AVERAGE: (float(np.mean(found)), None)} for row, found in known.items() if len(found) == len(columns)}


def _wide(frame: pd.DataFrame) -> pd.DataFrame:
    """One line per row, one column per quantity and, where the paper has it, the paper's beside it."""
    table: dict[str, dict[str, str]] = {row: {"": row} for row in dict.fromkeys(frame["row"])}
    for column, cells in frame.groupby("column", sort=False):
        quoted = cells["paper"].notna().any()
        for cell in cells.to_dict("records"):
            text = with_error(cell["mean"], cell["error"])
            table[cell["row"]][str(column)] = f"**{text}**" if cell["best"] else text
            if quoted:
                table[cell["row"]][f"{column}, paper"] = with_error(cell["paper"], cell["paper_error"])
    return pd.DataFrame(list(table.values())).fillna("–")


def with_error(mean: float, error: float) -> str:
    """A mean and its standard error, to the digit that the error leaves a meaning.

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
    """A value as a table shows it: four significant digits, a dash for nothing."""
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return "–"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
