"""How a comparison looks: eighty columns of text for a terminal, tables for a notebook."""

import html
import math
import textwrap
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from diversity.comparison import Comparison

WIDTH = 80
OWNED = 3  # classes named for each model
FEWEST_APART = 20  # disagreements below which nothing is said of who prevails
SECTIONS = {
    "Errors": {
        "accuracy_first": "accuracy, first",
        "accuracy_second": "accuracy, second",
        "mcnemar": "McNemar p-value",
        "inconsistency": "error inconsistency",
        "kappa": "error consistency (kappa)",
        "correlation": "correlation of errors",
        "q": "Q statistic",
        "dominance": "P(second right | first wrong)",
        "dominated": "P(first right | second wrong)",
    },
    "Agreement": {
        "agreement": "same top-1 class",
        "error_agreement": "both right or both wrong",
        "wrong_agreement": "same class where both wrong",
        "capa": "chance-adjusted (CAPA)",
        "cka": "embeddings (linear CKA)",
    },
    "Ensemble": {
        "ensemble_accuracy": "accuracy",
        "gain_over_mean": "gain over the mean member",
        "gain_over_best": "gain over the best member",
        "conversion_rate": "conversion rate",
        "both_right_lost": "lost where both right",
        "both_wrong_gained": "gained where both wrong",
    },
    "Specialization": {"mean_theta": "mean angle (first surer: > 0)"},
}


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


def _sections(comparison: "Comparison") -> Iterator[tuple[str, list[tuple[str, str, str]]]]:
    """Sections that have something to show, each with (title, value, interval) for its lines."""
    measured = comparison.measured()
    for section, titles in SECTIONS.items():
        shown = []
        for name, title in titles.items():
            if name in measured:
                value, low, high = (_number(number) for number in measured[name])
                shown.append((title, value, "" if math.isnan(measured[name][1]) else f"{low} … {high}"))
        if shown:
            yield section, shown


def _number(value: float) -> str:
    if math.isnan(value):
        return "–"
    return f"{value:.2g}" if 1e-9 < abs(value) < 1e-3 else f"{abs(value) if abs(value) < 1e-9 else value:.4f}"


def _notes(comparison: "Comparison") -> list[str]:
    if comparison.rows.theta is None:
        return ["Only predictions were compared: no ensemble, no specialization."]
    notes = []
    band = comparison.band
    apart = int((comparison.rows.first != comparison.rows.second).sum())
    if band is not None and apart >= FEWEST_APART:
        for side, edge, beyond in (("first", band.upper, "above"), ("second", band.lower, "below")):
            if edge is not None:
                notes.append(f"At angles {beyond} {edge:.3f} the {side}'s class prevails {band.level:.0%} of the time.")
    owned = comparison.by_class()
    for side, rows in (("first", owned[owned["owner"] == "first"]), ("second", owned[owned["owner"] == "second"][::-1])):
        if len(rows):
            named = ", ".join(f"{row[0]} ({abs(row[5]):.0%})" for row in rows.head(OWNED).itertuples(index=False))
            notes.append(f"Classes the {side} owns: {len(rows)}, by most: {named}.")
    if None in comparison.temperatures:
        notes.append("Not calibrated: angles and ensemble compare confidences at T = 1; zoo.calibrate first.")
    return notes


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, WIDTH) or [""]
