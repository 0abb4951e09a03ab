"""The section on groups of examples: accuracy, calibration, inconsistency and the ensemble's gain in each group."""

from typing import Any

import diversity
from zoo.app.report.analysis import Analysis
from zoo.app.report.document import Finding, Part, Section, Table
from zoo.core.units import percent

# Columns of the two tables, and the measures of `diversity.groups` that they show.
TABLES = {
    "mean over the models": {"accuracy": "accuracy", "gap": "gap", "overconfidence": "overconfidence"},
    "the models together": {
        "inconsistency": "inconsistency",
        "ensemble accuracy": "ensemble_accuracy",
        "ensemble gain": "gain_over_mean",
    },
}
SHOWN = 20  # groups; the page shows the first rows of longer tables
POINTS = ("gap", "overconfidence", "ensemble gain")


def groups(analysis: Analysis) -> Part | None:
    """Return the measures of each group, and name the one with the lowest accuracy; None without groups."""
    if analysis.inputs.groups is None:
        return None
    found = diversity.groups(analysis.runs, analysis.inputs.groups(analysis.runs), seed=analysis.seed)
    records = found.frame.sort_values("accuracy", kind="stable").to_dict(orient="records")
    lead = (
        "The gap is a group's accuracy minus that of all other examples. Overconfidence is the mean confidence minus the "
        "accuracy. The ensemble has all models with equal weights; its gain is over the mean of the models. Of many groups, "
        "the one with the lowest accuracy is partly the unluckiest."
    )
    tables = [_table(records, title, number) for number, title in enumerate(TABLES)]
    finding = Finding("Worst group", percent(records[0]["accuracy"]), found.finding)
    numbers = {"groups": {"worst": found.worst, "groups": records}}
    return Part(Section("groups", "Groups of examples", lead, analysis.population, tables=tables), [finding], numbers)


def _table(records: list[dict[Any, Any]], title: str, number: int) -> Table:
    """Return one row per group: its measures with their intervals, without those that are unknown."""
    rows = []
    for record in records:
        row = {"group": record["group"], "examples": record["examples"]}
        for column, key in TABLES[title].items():
            values = record[key], record[f"{key}_low"], record[f"{key}_high"]
            value, *ends = (None if one != one else one for one in values)
            row |= {column: value, f"{column} 95% CI": None if None in ends else tuple(ends)}
        rows.append(row)
    columns = {name for column in TABLES[title] for name in (column, f"{column} 95% CI")}
    points = {name for name in columns if name.removesuffix(" 95% CI") in POINTS}
    return Table(
        f"groups-{number}",
        title.capitalize(),
        rows,
        frozenset(columns - points),
        frozenset(points),
        filterable=len(rows) > SHOWN,
    )
