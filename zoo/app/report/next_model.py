"""The part on what to add: candidates that nobody has run yet, by what their cards say."""

from dataclasses import replace
from typing import Any

import altair as alt
import pandas as pd

import ensembles
from diversity.charts import inline
from zoo.app.report.document import Figure, Finding, Part, Section, Table
from zoo.app.report.evidence import Evidence
from zoo.errors import InputError

FIRST = 20  # rows of the table
TIE = 1e-9  # cards that say the same may differ by rounding
KEPT = 100  # of the numbers


def next_model(known: Evidence) -> Part | None:
    """The gain to expect of each candidate beside the best model; the reason where none can be given."""
    cards = known.material.candidates
    if not cards:
        return None
    lead = (
        f"What each candidate would add to {known.best}, the best model, before it is run or even downloaded: predicted "
        "from how its training differs, and how accurate its card says it is. Cards alone leave wide intervals; a few "
        "hundred examples narrow them (zoo recommend)."
    )
    section = Section("candidates", "Which model to add", lead, known.chosen("the best model"))
    try:
        found = ensembles.recommend(known.test, cards, known.best, seed=known.seed)
    except InputError as error:
        reason = str(error).rstrip(".")
        sentence = f"on which of {len(cards)} candidates to add to {known.best}, on {known.tested}: {reason}."
        return Part(section, [Finding("no answer", sentence, warning=True)], {"candidates": {"refusal": reason}})
    first = found.table.head(FIRST)
    more = len(found.table) > len(first)
    title = f"The first {len(first)} of {len(found.table):,} candidates" if more else ""
    figure = Figure(
        "gains",
        "Gains to expect",
        f"Accuracy beside {known.best}, with {found.settings['level']:.0%} intervals, predicted from "
        f"{' or '.join(found.table['by'].unique())}. Where intervals overlap, the order is open.",
        _chart(first),
        wide=True,
    )
    rows = [_row(row) for row in first.to_dict(orient="records")]
    table = Table("expected", title, rows, frozenset({"gain", "low", "high", "accuracy by its card"}))
    kept = found.table.head(KEPT).to_dict(orient="records")
    numbers = found.to_dict() | {"candidates": kept, "count": len(found.table)}
    return Part(replace(section, figures=[figure], tables=[table]), [_finding(found, known)], {"candidates": numbers})


def _row(row: dict[Any, Any]) -> dict[str, Any]:
    accuracy = float(row["accuracy"])
    return {
        "candidate": str(row["model"]),
        "gain": float(row["gain"]),
        "low": float(row["low"]),
        "high": float(row["high"]),
        "category": row["category"],
        "accuracy by its card": None if accuracy != accuracy else accuracy,
    }


def _finding(found: ensembles.Recommendation, known: Evidence) -> Finding:
    first, level = found.table.iloc[0], found.settings["level"]
    gain, low, high = (f"{100 * first[name]:+z.1f}" for name in ("gain", "low", "high"))
    within = bool(first["low"] <= 0)
    equal = int((found.table["gain"] >= first["gain"] - TIE).sum()) - 1
    others = f", as would {equal} other{'s' * (equal > 1)}" if equal else ""
    sentence = (
        f"on {known.tested} is what {found.best} would add to {known.best} by its card{others}, the most of "
        f"{len(found.table):,} candidates ({level:.0%} interval {low} to {high})."
    )
    if within:
        sentence += " That is within noise: run it on some examples first."
    return Finding(f"{gain} points", sentence, within)


def _chart(frame: pd.DataFrame) -> alt.LayerChart:
    data = frame[["model", "gain", "low", "high", "category"]].rename(columns={"model": "candidate"})
    base = alt.Chart(inline(data)).encode(y=alt.Y("candidate:N", sort=list(data["candidate"]), title=None))
    across = alt.X("low:Q", title="gain in accuracy", axis=alt.Axis(format="+.1%"))
    told = [alt.Tooltip(f"{name}:Q", format="+.2%") for name in ("gain", "low", "high")]
    bars = base.mark_rule().encode(x=across, x2="high:Q")
    dots = base.mark_point(filled=True, size=70, opacity=1).encode(
        x="gain:Q", color=alt.Color("category:N"), tooltip=["candidate:N", "category:N", *told]
    )
    return (bars + dots).properties(width=600, height=max(120, 22 * len(data)))
