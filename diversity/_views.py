"""How a comparison looks: eighty columns of text for a terminal, tables for a notebook."""

import html
import math
import textwrap
from typing import TYPE_CHECKING

from diversity.measures import MEASURES, Measure

if TYPE_CHECKING:
    from diversity.comparison import Comparison

WIDTH = 80
OWNED = 3  # classes named for each model
FEWEST_APART = 20  # disagreements below which nothing is said of who prevails


def as_text(comparison: "Comparison") -> str:
    """The comparison in at most eighty columns."""
    lines = [*_wrapped(_heading(comparison)), ""]
    lines += _table(comparison)
    for section, shown in _sections(comparison):
        lines += ["", f"{section:<40}{'value':>10}   {f'{comparison.level:.0%} interval':>19}"]
        lines += [f"  {title:<38}{value:>10}   {ends:>19}".rstrip() for title, value, ends in shown]
    lines += ["", *(line for note in _notes(comparison) for line in _wrapped(note))]
    return "\n".join(lines).rstrip()


def as_html(comparison: "Comparison") -> str:
    """The comparison as HTML tables."""
    rows = []
    for section, shown in _sections(comparison):
        rows.append(f"<tr><th colspan=3 style='text-align:left'>{section}</th></tr>")
        rows += [
            f"<tr><td style='text-align:left'>{html.escape(title)}</td><td>{value}</td><td>{ends}</td></tr>"
            for title, value, ends in shown
        ]
    notes = "".join(f"<p>{html.escape(note)}</p>" for note in _notes(comparison))
    head = f"<tr><th></th><th>value</th><th>{comparison.level:.0%} interval</th></tr>"
    return f"<p>{html.escape(_heading(comparison))}</p><table>{head}{''.join(rows)}</table>{notes}"


def _heading(comparison: "Comparison") -> str:
    first, second = comparison.names
    where = f" on {comparison.dataset}" if comparison.dataset else ""
    kind = f", category {comparison.category}" if comparison.category else ""
    one, two = comparison.temperatures
    heat = f", calibrated at T = {one:.3g} and {two:.3g}" if one and two else ""
    return f"First: {first}. Second: {second}. {int(comparison.examples):,} examples{where}{kind}{heat}."


def _table(comparison: "Comparison") -> list[str]:
    counts = (int(x) for x in (comparison.both_right, comparison.only_first, comparison.only_second, comparison.both_wrong))
    right, only_first, only_second, wrong = counts
    return [
        f"{'':<20}{'second right':>14}{'second wrong':>14}",
        f"{'first right':<20}{right:>14,}{only_first:>14,}",
        f"{'first wrong':<20}{only_second:>14,}{wrong:>14,}",
    ]


def _sections(comparison: "Comparison") -> list[tuple[str, list[tuple[str, str, str]]]]:
    """Sections that have something to show, each with (title, value, interval) for its lines."""
    sections: dict[str, list[tuple[str, str, str]]] = {}
    for name, numbers in comparison.measured().items():
        measure = MEASURES[name]
        if measure.printed:
            value, low, high = (_number(number, measure) for number in numbers)
            ends = "" if math.isnan(numbers[1]) else f"{low} … {high}"
            sections.setdefault(measure.section, []).append((measure.title, value, ends))
    return list(sections.items())


def _number(value: float, measure: Measure) -> str:
    if math.isnan(value):
        return "–"
    if abs(value) < 1e-9 and measure.unit != "p-value":
        value = 0.0  # rounding, and perhaps with a sign
    return f"{value:.2g}" if 0 < abs(value) < 1e-3 else f"{value:.4f}"


def _notes(comparison: "Comparison") -> list[str]:
    notes = []
    if any(comparison.unanswered):
        first, second = comparison.unanswered
        notes.append(f"No answer, counted as wrong: the first to {first:,} examples, the second to {second:,}.")
    band = comparison.band
    apart = int((comparison.rows.first != comparison.rows.second).sum())
    if band is not None and apart >= FEWEST_APART:
        for side, edge, beyond in (("first", band.upper, "above"), ("second", band.lower, "below")):
            if edge is not None:
                notes.append(f"At angles {beyond} {edge:.3f} the {side}'s class prevails {band.level:.0%} of the time.")
    classes = comparison.by_class()
    for side, rows in (("first", classes), ("second", classes[::-1])):
        owned = rows[rows["owner"] == side]
        if len(owned):
            most = owned.head(OWNED)
            named = ", ".join(f"{name} ({abs(by):.0%})" for name, by in zip(most["class"], most["advantage"], strict=True))
            notes.append(f"Classes the {side} owns (McNemar, Holm's 5%): {len(owned)}, by most: {named}.")
    if len(classes) > 1 and (classes["owner"] == "either").all():
        notes.append(f"Neither owns a class: none of {len(classes)} differs beyond chance (McNemar, Holm's 5%).")
    if comparison.rows.theta is None:
        notes.append("Only predictions were compared: no ensemble, no specialization.")
    elif None in comparison.temperatures:
        notes.append("Not calibrated: angles and ensemble compare confidences at T = 1; zoo.calibrate first.")
    return notes


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH) or [""]
