"""Views of a comparison: text of 80 columns for a terminal, HTML tables for a notebook."""

import html
import math
from typing import TYPE_CHECKING

from diversity.categories import category_title
from diversity.measures import MEASURES
from zoo.core import notebook
from zoo.core.text import wrap

if TYPE_CHECKING:
    from diversity.comparison import Comparison

WIDTH = 80
SHOWN_CLASSES = 3  # classes named for each model
MIN_DISAGREEMENTS = 20  # below this, no prevalence band is printed


def as_text(comparison: "Comparison") -> str:
    """Return the comparison as text of at most 80 columns."""
    lines = [*_wrap(_heading(comparison)), "", *_table(comparison)]
    for section, rows in _sections(comparison):
        lines += ["", section]
        for title, value, ends in rows:
            interval = f"({100 * comparison.level:g}% CI {ends})" if ends else ""
            lines.append(f"  {title:<36}{value:>13}  {interval}".rstrip())
    lines += ["", *(line for note in _notes(comparison) for line in _wrap(note))]
    return "\n".join(lines).rstrip()


def as_html(comparison: "Comparison") -> str:
    """Return the comparison as HTML tables."""
    body = []
    for section, rows in _sections(comparison):
        body.append(f"<tr><th colspan=3 style='text-align:left'>{section}</th></tr>")
        body += [
            f"<tr><td style='text-align:left'>{html.escape(title)}</td><td>{value}</td><td>{ends}</td></tr>"
            for title, value, ends in rows
        ]
    notes = "".join(f"<p>{html.escape(note)}</p>" for note in _notes(comparison))
    head = f"<tr><th></th><th>value</th><th>{100 * comparison.level:g}% CI</th></tr>"
    first, second = comparison.names
    counts = {
        "both correct": comparison.both_right, f"only {first} correct": comparison.only_first,
        f"only {second} correct": comparison.only_second, "both wrong": comparison.both_wrong,
    }  # fmt: skip
    bar = notebook.parts({name: int(count) for name, count in counts.items()})
    return f"<p>{html.escape(_heading(comparison))}</p>{bar}<table>{head}{''.join(body)}</table>{notes}"


def _heading(comparison: "Comparison") -> str:
    first, second = comparison.names
    dataset = f" of {comparison.dataset}" if comparison.dataset else ""
    title = category_title(comparison.category)
    differs = f" Difference in training: {title}." if title else ""
    one, two = comparison.temperatures
    calibrated = f", calibrated at T = {one:.2f} and {two:.2f}" if one and two else ""
    return f"First: {first}. Second: {second}. {int(comparison.examples):,} examples{dataset}{calibrated}.{differs}"


def _table(comparison: "Comparison") -> list[str]:
    names = ("both_right", "only_first", "only_second", "both_wrong")
    both_right, only_first, only_second, both_wrong = (int(getattr(comparison, name)) for name in names)
    return [
        f"{'number of examples':<20}{'second correct':>16}{'second wrong':>14}",
        f"{'first correct':<20}{both_right:>16,}{only_first:>14,}",
        f"{'first wrong':<20}{only_second:>16,}{both_wrong:>14,}",
        f"Exactly one model classifies {int(comparison.inconsistent):,} examples correctly.",
    ]


def _sections(comparison: "Comparison") -> list[tuple[str, list[tuple[str, str, str]]]]:
    """Return the sections of the printed comparison: a title, and (measure, value, interval) for each line."""
    sections: dict[str, list[tuple[str, str, str]]] = {}
    for name, (value, low, high) in comparison.measured().items():
        measure = MEASURES[name]
        if measure.printed:
            start, end = (measure.text(number, value).strip("+%") for number in (low, high))
            ends = "" if math.isnan(low) else f"{start} to {end}"
            unit = " points" if measure.difference and not math.isnan(value) else ""
            sections.setdefault(measure.section, []).append((measure.title, measure.text(value) + unit, ends))
    return list(sections.items())


def _notes(comparison: "Comparison") -> list[str]:
    notes = []
    if any(comparison.unanswered):
        first, second = comparison.unanswered
        notes.append(f"Examples without a prediction, counted as wrong: first {first:,}, second {second:,}.")
    notes += _band_notes(comparison)
    classes = comparison.by_class()
    for side, ranked in (("first", classes), ("second", classes[::-1])):
        owned = ranked[ranked["owner"] == side]
        if len(owned):
            most = owned.head(SHOWN_CLASSES)
            points = zip(most["class"], most["advantage"], strict=True)
            named = ", ".join(f"{name} (by {100 * abs(advantage):.1f} points)" for name, advantage in points)
            more = f" and {len(owned) - len(most)} more" if len(owned) > len(most) else ""
            notes.append(f"The {side} is significantly more accurate (McNemar, Holm) on {named}{more}.")
    if len(classes) > 1 and (classes["owner"] == "either").all():
        notes.append(f"The accuracies differ significantly (McNemar, Holm) on none of the {len(classes)} classes.")
    if comparison.rows.theta is None:
        notes.append("Only predictions were compared: no ensemble, no specialization.")
    elif None in comparison.temperatures:
        notes.append("Not calibrated: confidences are at T = 1. Call zoo.calibrate first to compare angles and ensembles.")
    return notes


def _band_notes(comparison: "Comparison") -> list[str]:
    rows, band = comparison.rows, comparison.band
    disagree = rows.first != rows.second
    if band is None or rows.theta is None or disagree.sum() < MIN_DISAGREEMENTS:
        return []
    theta = rows.theta[disagree]
    sides = (("first", band.upper, theta.min(), "above"), ("second", band.lower, theta.max(), "below"))
    notes = []
    for side, edge, furthest, beyond in sides:
        if edge is not None:
            everywhere = edge < furthest if beyond == "above" else edge > furthest
            angles = "At any angle" if everywhere else f"At angles {beyond} {edge:z.3f}"
            notes.append(f"{angles}, the ensemble predicts the {side}'s class in {band.level:.0%} or more of disagreements.")
    return ["The angle compares the two confidences; it is positive where the first is higher.", *notes] if notes else []


def _wrap(text: str) -> list[str]:
    return wrap(text, WIDTH, break_words=True) or [""]
