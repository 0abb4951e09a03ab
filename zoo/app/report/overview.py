"""The chart at the top: accuracy against cost, of every model and of the ensembles that the report singles out."""

from typing import Any

from diversity.intervals import wilson
from zoo.app.report.analysis import Analysis
from zoo.app.report.document import Figure, Part, Section
from zoo.app.report.findings import best_model

ENSEMBLE = "ensemble"


def overview(analysis: Analysis) -> Part:
    """Return the section with the overview chart, and the headline on the best model."""
    rows = _rows(analysis)
    unit = analysis.priced[0] if analysis.priced else None
    if not unit:
        ranked = sorted(rows, key=lambda row: -row["accuracy"])
        for rank, row in enumerate(ranked, 1):
            row["cost"] = rank
    caption = (
        "Each dot is a model with its 95% confidence interval. Diamonds are ensembles, with the number of their members, at "
        "the sum of the members' costs. "
    )
    if unit:
        caption += "Dashed: the Pareto front, on which nothing cheaper is as accurate."
    else:
        caption += (
            "Models are in the order of their accuracy, because neither FLOPs nor parameters are known for all of them."
        )
    figure = Figure("overview-chart", "Accuracy of models and ensembles", caption, _chart(rows, unit), wide=True)
    section = Section("overview", "Overview", "", analysis.chosen("ensembles were"), [figure])
    best = analysis.test[analysis.best]
    return Part(section, [best_model(analysis)], {"best": {"model": best.name, "test": best.accuracy}, "overview": rows})


def _rows(analysis: Analysis) -> list[dict[str, Any]]:
    """Return one row per model and ensemble, on the test split."""
    examples = len(analysis.test.labels)
    costs = analysis.priced[1] if analysis.priced else None

    def row(title: str, accuracy: float, members: list[str], group: str) -> dict[str, Any]:
        low, high = wilson(accuracy, examples)
        return {
            "title": title, "members": members, "group": group, "accuracy": float(accuracy), "low": float(low),
            "high": float(high), "cost": sum(costs[name] for name in members) if costs else None,
        }  # fmt: skip

    rows = [
        row(analysis.short(outputs.name), outputs.accuracy, [outputs.name], family)
        for outputs, family in zip(analysis.test.values(), analysis.families, strict=True)
    ]
    path = analysis.path
    if path.test_score is None:
        return rows
    sizes = dict.fromkeys(size for size in (path.smallest_sufficient(), path.best) if size and size > 1)
    for size in sizes:
        members = list(dict.fromkeys(str(name) for name in path.members[:size]))
        rows.append(row(f"ensemble of {size}", path.test_score[size - 1], members, ENSEMBLE))
    return rows


def _chart(rows: list[dict[str, Any]], unit: str | None) -> dict[str, Any]:
    values = [{**row, "name": ", ".join(row["members"])} for row in rows]
    scale = {"type": "log", "nice": False, "padding": 20} if unit else {"nice": False, "padding": 20}
    title = {"FLOPs": "FLOPs per image", None: "rank by accuracy"}.get(unit, unit)
    x = {
        "field": "cost",
        "type": "quantitative",
        "scale": scale,
        "title": title,
        "axis": {"format": "~s", "grid": False, "tickMinStep": 1, "labelSeparation": 6, "labelOverlap": True},
    }
    percent = {"format": "%"}
    y = {"field": "accuracy", "type": "quantitative", "scale": {"zero": False}, "title": "accuracy", "axis": percent}
    tooltip = [
        {"field": "name", "title": "members"}, {"field": "accuracy", "format": ".1%"}, {"field": "low", "format": ".1%"},
        {"field": "high", "format": ".1%"}, {"field": "cost", "title": title, "format": ".3s"},
    ]  # fmt: skip
    colour = {"field": "group", "type": "nominal", "title": "family"}
    is_ensemble = f"datum.group === '{ENSEMBLE}'"
    rising = [
        {"sort": [{"field": "cost"}, {"field": "accuracy", "order": "descending"}], "frame": [None, 0],
         "window": [{"op": "max", "field": "accuracy", "as": "best"}]},
        {"filter": "datum.accuracy >= datum.best"},
    ]  # fmt: skip
    front = {
        "transform": rising,
        "mark": {"type": "line", "interpolate": "step-after", "strokeDash": [4, 4], "color": "grey"},
        "encoding": {"x": x, "y": y},
    }
    layers = [
        *([front] if unit else []),
        {
            "mark": {"type": "rule", "opacity": 0.35},
            "encoding": {"x": x, "y": {**y, "field": "low"}, "y2": {"field": "high"}},
        },
        {
            "transform": [{"filter": f"!({is_ensemble})"}],
            "mark": {"type": "point", "filled": True, "size": 55, "opacity": 0.9},
            "encoding": {"x": x, "y": y, "color": colour, "tooltip": tooltip},
        },
        {
            "transform": [{"filter": is_ensemble}],
            "mark": {"type": "point", "shape": "diamond", "filled": True, "size": 160, "color": "#808080"},
            "encoding": {"x": x, "y": y, "tooltip": tooltip},
        },
        {
            "transform": [{"filter": is_ensemble}, {"calculate": "datum.members.length", "as": "size"}],
            "mark": {"type": "text", "dy": -15, "fontWeight": "bold"},
            "encoding": {"x": x, "y": y, "text": {"field": "size"}},
        },
    ]
    return {"data": {"values": values}, "height": 340, "layer": layers}
