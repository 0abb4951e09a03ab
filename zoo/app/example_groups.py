"""`--groups`: the group of each example, by class or from a table, for `zoo trust` and `zoo report`."""

import math
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from zoo.app.checks import read_by_id
from zoo.errors import InputError

if TYPE_CHECKING:
    from zoo.outputs.outputs import Runs

MAX_GROUPS = 20  # a column with more different numbers is divided into quarters

Groups = Annotated[
    str | None,
    typer.Option(
        metavar="class|FILE[:COLUMN]",
        help="Also by group of examples: by class, or by a column of a .csv file that has a column id.",
    ),
]


def read_groups(text: str) -> "Callable[[Runs], Mapping[str, str]]":
    """Return a function from aligned runs to the group of each example id. A file is read before the work begins."""
    if text != "class":
        table = _read_column(text)
        return lambda runs: table

    def by_class(runs: "Runs") -> Mapping[str, str]:
        first = next(iter(runs.values()))
        return dict(zip(first.ids, (first.classes[k] for k in runs.labels), strict=True))

    return by_class


def _read_column(text: str) -> dict[str, str]:
    """Return the group of each example id in FILE or FILE:COLUMN.

    Without a column it is `group`, or the only one beside `id`. A column of many different numbers, such as how difficult
    people find an example, is divided into quarters of about equal size.
    """
    import numpy as np
    import pandas as pd

    file, _, column = ("", "", "") if os.path.exists(text) or "://" in text else text.rpartition(":")
    path = Path(file or text)
    table = read_by_id(path, "groups")
    column = column or ("group" if "group" in table or len(table.columns) != 1 else str(table.columns[0]))
    if column not in table:
        wanted = "of groups beside the ids" if column == "id" else column
        raise InputError(
            where=path, argument="groups", expected=f"a .csv file with a column {wanted}",
            found=", ".join(["id", *map(str, table)]), hint=f"Name a column: {path.name}:COLUMN",
        )  # fmt: skip
    values = table[column].str.strip()
    different = values.nunique()
    numbers = pd.to_numeric(values, errors="coerce").where(lambda number: number.abs() < math.inf)
    if different > MAX_GROUPS and numbers.notna().all():
        quarters = pd.qcut(numbers, 4, labels=False, duplicates="drop")
        if quarters.nunique() == 1:  # most values are equal: groups below, at and above the median
            quarters = numbers.sub(numbers.median()).apply(np.sign).rank(method="dense").astype(int) - 1
        ends = numbers.groupby(quarters).agg(["min", "max"]).itertuples()
        values = quarters.map({quarter: f"{quarter + 1}: {low:.4g} to {high:.4g}" for quarter, low, high in ends})
    elif different > max(MAX_GROUPS, len(values) / 2):
        other = values[numbers.isna()].iloc[0]
        raise InputError(
            f"column {column} has {different:,} different values for {len(values):,} examples",
            where=path, argument="groups",
            hint=f"Choose a column whose values examples share, or numbers alone, which {other!r} is not",
        )  # fmt: skip
    return {str(row_id): str(value) for row_id, value in values.items()}
