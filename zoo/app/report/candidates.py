"""The section on candidates: the gain to expect from models that have not been run, predicted from their cards."""

from dataclasses import replace
from typing import Any

import altair as alt
import pandas as pd

import ensembles
from diversity.categories import category_title
from diversity.charts import category_colour, inline
from ensembles.recommendation import Recommendation
from zoo.app.report.analysis import Analysis
from zoo.app.report.document import Figure, Finding, Part, Section, Table
from zoo.core.units import interval, points
from zoo.errors import InputError

SHOWN = 20  # rows of the table
MAX_NUMBERS = 100  # candidates in the numbers
TIE = 1e-9  # predictions from equal cards may differ by rounding


def candidates(analysis: Analysis) -> Part | None:
    """Return the predicted gain of each candidate with the best model, or the reason why there is no prediction."""
    cards, best = analysis.inputs.candidates, analysis.short(analysis.best)
    if not cards:
        return None
    lead = (
        f"The gain that each candidate would add to {best}, the best model, before it is run or downloaded. It is predicted "
        "from the difference in training and from the accuracy on its card, so intervals are wide. Outputs on a few hundred "
        "examples narrow them (zoo recommend)."
    )
    section = Section("candidates", "Which model to add", lead, analysis.chosen("the best model was"))
    title = "Model to add"
    try:
        found = ensembles.recommend(analysis.test, cards, analysis.best, seed=analysis.seed)
    except InputError as error:
        reason = str(error).rstrip(".")
        text = f"No prediction of what {len(cards)} candidates would add to {best} on {analysis.tested}: {reason}."
        return Part(section, [Finding(title, "no prediction", text, warning=True)], {"candidates": {"refusal": reason}})
    first = found.table.head(SHOWN)
    more = len(found.table) > len(first)
    figure = Figure(
        "gains",
        "Predicted gains",
        f"Gain in accuracy over {best} alone, with {found.settings['level']:.0%} prediction intervals, predicted from "
        f"{' or '.join(found.table['by'].unique())}. Where intervals overlap, the order is uncertain.",
        _chart(first),
        wide=True,
    )
    rows = [_row(row) for row in first.to_dict(orient="records")]
    table = Table(
        "expected",
        f"The first {len(first)} of {len(found.table):,} candidates" if more else "",
        rows,
        frozenset({"accuracy by its card"}),
        frozenset({"gain, points", "interval"}),
    )
    stored = found.table.head(MAX_NUMBERS).to_dict(orient="records")
    numbers = found.to_dict() | {"candidates": stored, "count": len(found.table)}
    finding = _finding(found, analysis, title)
    return Part(replace(section, figures=[figure], tables=[table]), [finding], {"candidates": numbers})


def _row(row: dict[Any, Any]) -> dict[str, Any]:
    accuracy = float(row["accuracy"])
    return {
        "candidate": str(row["model"]),
        "gain, points": float(row["gain"]),
        "interval": (float(row["low"]), float(row["high"])),
        "differs in": category_title(row["category"]),
        "accuracy by its card": None if accuracy != accuracy else accuracy,
    }


def _finding(found: Recommendation, analysis: Analysis, title: str) -> Finding:
    first, level = found.table.iloc[0], found.settings["level"]
    gain, ends = points(first["gain"]), interval((first["low"], first["high"]), None)
    within_noise = bool(first["low"] <= 0)
    equal = int((found.table["gain"] >= first["gain"] - TIE).sum()) - 1
    others = f" (as would {equal} other{'s' * (equal > 1)})" if equal else ""
    text = (
        f"By its card, {found.best} would add {gain} points to {analysis.short(analysis.best)}{others}, the most of "
        f"{len(found.table):,} candidates ({level:.0%} prediction interval {ends}, on {analysis.tested})."
    )
    if within_noise:
        text += " That is within noise: run it on some examples first."
    return Finding(title, f"{gain} points", text, within_noise)


def _chart(frame: pd.DataFrame) -> alt.LayerChart:
    data = frame[["model", "gain", "low", "high", "category"]].rename(columns={"model": "candidate"})
    data["category"] = data["category"].map(category_title).fillna("unknown")
    base = alt.Chart(inline(data)).encode(y=alt.Y("candidate:N", sort=list(data["candidate"]), title=None))
    x = alt.X("low:Q", title="gain in accuracy", axis=alt.Axis(format="+.1%"))
    ends = [alt.Tooltip(f"{name}:Q", format="+.2%") for name in ("gain", "low", "high")]
    bars = base.mark_rule().encode(x=x, x2="high:Q")
    dots = base.mark_point(filled=True, size=70, opacity=1).encode(
        x="gain:Q", color=category_colour(data, "differs in"), tooltip=["candidate:N", "category:N", *ends]
    )
    return (bars + dots).properties(width=600, height=max(120, 22 * len(data)))
