"""The section on errors: which models make different mistakes, and what that is worth in an ensemble of two."""

from typing import Any

import numpy as np
import pandas as pd

import diversity
from diversity import MEASURES, charts
from diversity.categories import category_title
from zoo.app.report.analysis import ACCURACY_BAND, MAX_ALL_PAIRS, Analysis
from zoo.app.report.document import Figure, Finding, Part, Section, Table
from zoo.app.report.findings import diversity_of_errors

MAX_SQUARE = 12  # models up to which the matrix has a neighbour


def errors(analysis: Analysis) -> Part:
    """Return the matrix and map of all models, and the gains and categories of their pairs."""
    matrix = analysis.pairwise.matrix("inconsistency")
    figures = [
        Figure(
            "inconsistency",
            "Error inconsistency of every pair",
            "Fraction of examples that exactly one of two models classifies correctly. The tree above orders the models: "
            "models that make similar errors are side by side.",
            charts.matrix_chart(matrix, tree=analysis.tree),
            wide=len(analysis.runs) > MAX_SQUARE,
        )
    ]
    if len(analysis.runs) > 2:
        figures.append(_map(analysis, matrix))
    frame = analysis.all_pairs
    findings: list[Finding] = []
    tables: list[Table] = []
    numbers: dict[str, Any] = {"inconsistency": matrix.to_dict()}
    if "gain_over_mean" in frame and _varies(frame[frame["comparable"]]):
        over_mean, over_best = (
            diversity.regression(frame, y=gain, groups=analysis.recipes) for gain in ("gain_over_mean", "gain_over_best")
        )
        figures.append(
            Figure(
                "gain",
                "Error inconsistency against the ensemble's gain",
                f"Each dot is a pair; stars are means of a training category. The line is fitted to the pairs whose "
                f"accuracies differ by at most {ACCURACY_BAND:g} points. Other pairs are faint or outside the chart, "
                "because a gap in accuracy raises both axes.",
                charts.gain_chart(frame),
            )
        )
        findings.append(diversity_of_errors(analysis, over_mean, over_best))
        numbers["line"] = _numbers(over_mean)
        numbers["line_over_best"] = _numbers(over_best)
    summary = diversity.by_category(frame)
    if len(summary):
        figures.append(
            Figure(
                "categories",
                "Error inconsistency by what differs in training",
                "Each dot is a pair, the bar is the mean. A pair belongs to the category of its largest difference.",
                charts.category_chart(frame),
            )
        )
        tables.append(_category_table(summary))
        numbers["categories"] = summary.to_dict(orient="records")
    lead = (
        "Two models of the same accuracy can fail on the same examples or on different ones. An ensemble can only gain "
        "where their errors differ."
    )
    if len(analysis.runs) > MAX_ALL_PAIRS:
        best = analysis.short(analysis.best)
        lead += f" Gains and categories are those of the pairs of {best}, the best model, with each other model."
    section = Section("errors", "Which models make different errors", lead, analysis.population, figures, tables)
    return Part(section, findings, numbers)


def _varies(frame: pd.DataFrame) -> bool:
    return len(frame) > 2 and frame["inconsistency"].round(9).nunique() > 1


def _numbers(line: diversity.summary.Line) -> dict[str, Any]:
    known = not np.isnan(line.correlation)
    return {
        "slope": line.slope,
        "correlation": line.correlation if known else None,
        "interval": line.interval if known else None,
        "pairs": line.points,
        "accuracy_band": ACCURACY_BAND,
    }


def _category_table(summary: pd.DataFrame) -> Table:
    measures = [measure for measure in MEASURES.values() if measure.by_category and measure.name in summary]
    rows = []
    for row in summary.to_dict(orient="records"):
        cells: dict[str, Any] = {"what differs": category_title(row["category"])}
        cells |= {"pairs": int(row["pairs"]), "models": int(row["models"])}
        for measure in measures:
            cells[measure.title] = float(row[measure.name])
            if measure.name == "inconsistency":
                cells["standard error"] = float(row["inconsistency_se"])
        rows.append(cells)
    points = frozenset(measure.title for measure in measures if measure.difference)
    percent = frozenset(measure.title for measure in measures if measure.unit == "share") - points | {"standard error"}
    title = (
        "Means by what differs in training. Gains are in percentage points. The standard error is a jackknife over models, "
        "and undefined for two models."
    )
    return Table("by-category", title, rows, percent, points)


def _map(analysis: Analysis, matrix: pd.DataFrame) -> Figure:
    places, explained = scaled(matrix.to_numpy(float))
    rows = [
        {"name": outputs.name, "x": x, "y": y, "accuracy": outputs.accuracy, "group": family}
        for outputs, family, (x, y) in zip(analysis.runs.values(), analysis.families, places.round(5).tolist(), strict=True)
    ]
    axis = {"type": "quantitative", "axis": None, "scale": {"zero": False, "nice": False, "padding": 16}}
    spec = {
        "data": {"values": rows},
        "height": 350,
        "mark": {"type": "point", "filled": True, "opacity": 0.85},
        "encoding": {
            "x": {"field": "x", **axis},
            "y": {"field": "y", **axis},
            "color": {"field": "group", "type": "nominal", "title": "family"},
            "size": {"field": "accuracy", "type": "quantitative", "legend": {"format": "%", "tickCount": 3},
                     "scale": {"zero": False, "range": [25, 160]}},
            "tooltip": [{"field": "name", "title": "model"}, {"field": "accuracy", "format": ".1%"}, {"field": "group"}],
        },
    }  # fmt: skip
    caption = (
        "Models that make similar errors are close together (multidimensional scaling of error inconsistency; two "
        f"dimensions show {explained:.0%} of the variation)."
    )
    return Figure("map", "Map of the models by their errors", caption, spec)


def scaled(distances: np.ndarray) -> tuple[np.ndarray, float]:
    """Return places [M, 2] whose distances are close to [M, M], by classical scaling, and the fraction of variation shown.

    >>> places, explained = scaled(np.array([[0.0, 3, 5], [3, 0, 4], [5, 4, 0]]))
    >>> round(float(np.linalg.norm(places[0] - places[2])), 6), round(explained, 6)
    (5.0, 1.0)
    """
    centre = np.eye(len(distances)) - 1 / len(distances)
    values, vectors = np.linalg.eigh(-0.5 * centre @ distances**2 @ centre)
    largest = np.maximum(values[::-1], 0)
    places = vectors[:, ::-1][:, :2] * np.sqrt(largest[:2])
    places *= np.where(places[np.abs(places).argmax(0), [0, 1]] < 0, -1, 1)  # the sign of an eigenvector is arbitrary
    return places, float(largest[:2].sum() / max(largest.sum(), 1e-300))
