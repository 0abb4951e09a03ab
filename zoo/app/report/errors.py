"""The part on errors: which models make different mistakes, and what that is worth when two are put together."""

from typing import Any

import numpy as np
import pandas as pd

import diversity
from diversity import MEASURES, Line, charts
from zoo.app.report.document import Figure, Finding, Part, Section, Table
from zoo.app.report.evidence import Evidence


def errors(known: Evidence) -> Part:
    """The matrix of all pairs; their gains and categories where they have some."""
    matrix = known.pairwise.matrix("inconsistency")
    figures = [
        Figure(
            "inconsistency",
            "How often exactly one of two models is right",
            "Error inconsistency of every pair, models in the order of the tree: groups that err alike are dark squares.",
            charts.matrix_chart(matrix, tree=known.tree),
            wide=len(known.runs) > 12,
        )
    ]
    frame = known.all_pairs
    findings: list[Finding] = []
    tables: list[Table] = []
    numbers: dict[str, Any] = {"inconsistency": matrix.to_dict()}
    if "gain_over_mean" in frame and _varies(frame):
        line = diversity.regression(frame["inconsistency"], frame["gain_over_mean"])
        figures.append(
            Figure(
                "gain",
                "What different errors are worth",
                "Each dot is a pair; stars are means of a category of training difference.",
                charts.gain_chart(frame),
            )
        )
        findings.append(_line_finding(line, len(known.runs.labels)))
        correlation = None if np.isnan(line.correlation) else line.correlation
        numbers["line"] = {"slope": line.slope, "correlation": correlation, "pairs": line.points}
    summary = diversity.by_category(frame)
    if len(summary):
        figures.append(
            Figure(
                "categories",
                "Errors by how training differs",
                "Each dot is a pair, the bar the mean. What differs most decides: the seed alone (reinit), the "
                "objective or another hyper-parameter (hparam), the architecture, the framework, the dataset.",
                charts.category_chart(frame),
            )
        )
        tables.append(_category_table(summary))
        numbers["categories"] = summary.to_dict(orient="records")
    lead = (
        "Two models of the same accuracy can fail on the same examples or on different ones. Only where their errors differ "
        "can an ensemble win."
    )
    section = Section("errors", "Who makes different mistakes", lead, known.population, figures, tables)
    return Part(section, findings, numbers)


def _varies(frame: pd.DataFrame) -> bool:
    return len(frame) > 2 and frame["inconsistency"].round(9).nunique() > 1


def _line_finding(line: Line, examples: int) -> Finding:
    of = f"of error inconsistency and ensemble gain over {line.points} pairs, on all {examples:,} examples reported"
    if np.isnan(line.correlation):
        return Finding("no correlation", f"can be given {of}: {line}.")
    return Finding(
        str(line), f"is the correlation {of}: {'different errors pay' if line.correlation > 0.5 else 'no clear link here'}."
    )


def _category_table(summary: pd.DataFrame) -> Table:
    shown = [measure for measure in MEASURES.values() if measure.by_category and measure.name in summary]
    rows = [
        {"category": str(row["category"]), "pairs": int(row["pairs"])}
        | {measure.title: float(row[measure.name]) for measure in shown}
        for row in summary.to_dict(orient="records")
    ]
    percent = frozenset(measure.title for measure in shown if measure.unit == "share")
    return Table("by-category", "By what differs in training", rows, percent)
