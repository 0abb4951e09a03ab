"""The section on labels: which are probably wrong, with the examples to look at first."""

import warnings
from typing import Any

import numpy as np

import diversity
from zoo.app.report.analysis import Analysis
from zoo.app.report.document import Finding, Part, Section, Table, Thumbnail
from zoo.app.report.thumbnails import data_uris
from zoo.cards.labels import describe
from zoo.core.units import count
from zoo.errors import InputError, ZooWarning
from zoo.outputs.outputs import Runs

SHOWN = 20  # rows of the table
IMAGES = 12
MAX_WORK = 2**26  # models x examples x classes: about ten seconds

MEANINGS = {
    "mislabelled": "the label is more likely wrong than right, and most groups of models predict the same other class",
    "ambiguous": "confident models predict different classes",
    "unsure": "no class is likely: a corrupt example, or none of the classes",
    "fine": "all others",
}


def labels(analysis: Analysis) -> Part | None:
    """Return the labels that are most likely wrong; None without probabilities, or if models cannot judge these labels."""
    if not analysis.has_probabilities:
        return None
    runs, population = _examined(analysis)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", ZooWarning)  # a model cannot judge labels that it was trained on
            found = diversity.triage(runs)
    except (InputError, ZooWarning):
        return None
    first = found.of_kind("mislabelled").head(SHOWN).to_dict(orient="records")
    rows = [
        {
            "example": str(row["id"]),
            "label": describe(str(row["label"])),
            "suggested": describe(str(row["suggested"])),
            "probability that the label is wrong": float(row["wrong"]),
            "models that disagree": round(float(row["against"]) * len(runs)),
            "models for the suggestion": round(float(row["for_suggested"]) * len(runs)),
        }
        for row in first
    ]
    counts = found.counts()
    kinds = [{"kind": kind, "examples": number, "meaning": MEANINGS[kind]} for kind, number in counts.items()]
    lead = (
        f"The labels compared with the predictions of {len(runs)} models in {len(found.groups)} groups; models that were "
        "trained alike are one group and count as one opinion. The probability that a label is wrong takes into account the "
        "confidence of each group and which classes are often confused. The models must not have been trained on these "
        "examples: a model does not doubt a label that it has memorised."
    )
    tables = [Table("kinds", "What the predictions say about the labels", kinds)]
    if rows:
        more = counts["mislabelled"] > len(rows)
        title = "Likely mislabelled" + (f": the first {len(rows)} of {counts['mislabelled']:,}" if more else "")
        tables.append(Table("doubted", title, rows, frozenset({"probability that the label is wrong"})))
    section = Section(
        "labels", "Which labels are probably wrong", lead, population, tables=tables, images=_images(rows[:IMAGES], analysis)
    )
    return Part(section, [_finding(found)], {"labels": _numbers(found, first)})


def _examined(analysis: Analysis) -> tuple[Runs, str]:
    """Return the outputs on all examples, or on evenly spaced ones if there are very many, and a phrase on which."""
    one = next(iter(analysis.runs.values()))
    most = max(1, MAX_WORK // (len(analysis.runs) * len(one.classes)))
    if len(one) <= most:
        return analysis.runs, analysis.population
    rows = np.unique(np.linspace(0, len(one) - 1, most).astype(int))
    return analysis.runs.select(rows), f"{len(rows):,} examples, evenly spaced among {analysis.population}"


def _finding(found: diversity.Triage) -> Finding:
    number = found.counts()["mislabelled"]
    labels = count(number, "label")
    sentence = (
        f"{labels} of {len(found.frame):,} {'is' if number == 1 else 'are'} probably wrong: most groups of models predict "
        "the same other class. There may be more; checking a random sample gives their number (zoo triage --sample)."
    )
    return Finding("Probably wrong labels", labels, sentence)


def _numbers(found: diversity.Triage, first: list[Any]) -> dict[str, Any]:
    return {
        "examples": len(found.frame), "kinds": found.counts(), "groups": found.groups, "weights": found.weights,
        "first": first,
    }  # fmt: skip


def _images(rows: list[dict[str, Any]], analysis: Analysis) -> list[Thumbnail]:
    uris = data_uris(analysis.inputs.images, [row["example"] for row in rows])
    return [
        Thumbnail(uris[row["example"]], [f"label: {row['label']}", f"suggested: {row['suggested']}"], row["example"])
        for row in rows
        if row["example"] in uris
    ]
