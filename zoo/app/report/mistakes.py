"""The section on errors: which models make different mistakes, and what that is worth when two are put together."""

from typing import Any

import numpy as np
import pandas as pd

import diversity
from diversity import charts
from diversity.measures import title
from zoo.app.report.document import Figure, Finding, Section, Table
from zoo.outputs import Runs

ALL_PAIRS = 32  # models; with more, pairs are those with the best model, as in the paper, or the page would drown in dots
BY_CATEGORY = ("inconsistency", "gain_over_mean", "gain_over_best", "conversion_rate")


def mistakes(runs: Runs) -> tuple[Section, list[Finding], dict[str, Any]]:
    """The section, its findings and its numbers, among them `pair`: the two models the report looks at more closely."""
    table = diversity.pairwise(runs)
    matrix = table.matrix("inconsistency")
    tree = diversity.cluster(1 - np.asarray(table.inconsistency), table.names)
    figures = [
        Figure(
            "inconsistency",
            "How often exactly one of two models is right",
            "Error inconsistency of every pair, models in the order of the tree: groups that err alike are dark squares.",
            charts.matrix_chart(matrix, tree=tree),
            wide=len(runs) > 12,
        )
    ]
    frame = _pairs(runs)
    pair = _most_different(frame)
    tables: list[Table] = []
    numbers: dict[str, Any] = {"inconsistency": matrix.to_dict(), "pair": pair}
    findings = [_pair_finding(frame, pair)]
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
        findings.append(_line_finding(line))
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
        percent = frozenset(map(title, BY_CATEGORY))
        tables.append(Table("by-category", "By what differs in training", _category_rows(summary), percent))
        numbers["categories"] = summary.to_dict(orient="records")
    lead = (
        "Two models of the same accuracy can fail on the same examples or on different ones. Only where their errors differ "
        "can an ensemble win."
    )
    return Section("errors", "Who makes different mistakes", lead, figures, tables), findings, numbers


def _pairs(runs: Runs) -> pd.DataFrame:
    """One row per pair, with the ensemble's gains where there are probabilities to average."""
    best = max(runs.values(), key=lambda outputs: outputs.accuracy).name
    return diversity.pair_frame(runs, None if len(runs) <= ALL_PAIRS else best)


def _most_different(frame: pd.DataFrame) -> tuple[str, str]:
    """The pair to look at: the best together, or the most inconsistent where only predictions are known."""
    key = "ensemble_accuracy" if "ensemble_accuracy" in frame else "inconsistency"
    best = frame.sort_values([key, "inconsistency"], ascending=False, kind="stable").iloc[0]
    return str(best["first"]), str(best["second"])


def _varies(frame: pd.DataFrame) -> bool:
    return len(frame) > 2 and frame["inconsistency"].round(9).nunique() > 1


def _pair_finding(frame: pd.DataFrame, pair: tuple[str, str]) -> Finding:
    row = frame[(frame["first"] == pair[0]) & (frame["second"] == pair[1])].iloc[0]
    sentence = f"of the examples are right with exactly one of {pair[0]} and {pair[1]}"
    if "gain_over_best" in row:
        gain = 100 * row["gain_over_best"]
        sentence += f"; together they reach {row['ensemble_accuracy']:.1%}, {gain:+.1f} points over the better one"
    return Finding(f"{row['inconsistency']:.1%}", sentence + ".")


def _line_finding(line: Any) -> Finding:
    of = f"the correlation of error inconsistency and ensemble gain over {line.points} pairs"
    if np.isnan(line.correlation):
        return Finding("no correlation", f"can be given of error inconsistency and ensemble gain: {line}.")
    return Finding(str(line), f"is {of}: {'different errors pay' if line.correlation > 0.5 else 'no clear link here'}.")


def _category_rows(summary: pd.DataFrame) -> list[dict[str, Any]]:
    return [
        {"category": str(row["category"]), "pairs": int(row["pairs"])}
        | {title(name): float(row[name]) for name in BY_CATEGORY if name in row}
        for row in summary.to_dict(orient="records")
    ]
