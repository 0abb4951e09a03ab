"""The part on labels: which of them the models would not have given, with the examples to look at first."""

import warnings
from typing import Any

import numpy as np

import diversity
from zoo.app.report.document import Finding, Part, Section, Table, Thumbnail
from zoo.app.report.evidence import Evidence
from zoo.app.report.thumbnails import data_uris
from zoo.cards.labels import describe
from zoo.errors import InputError, ZooWarning
from zoo.outputs.outputs import Runs

FIRST = 20
IMAGES = 12
WORK = 2**26  # models x examples x classes that are looked at: some ten seconds

MEANINGS = {
    "mislabelled": "more likely wrong than right, and most kinds of models name the same other class",
    "ambiguous": "sure models name different classes",
    "unsure": "no class is likely: corrupt, or nothing that the models know",
    "fine": "the rest",
}


def labels(known: Evidence) -> Part | None:
    """The likeliest wrong labels; None without probabilities, or where models cannot judge these labels."""
    if not known.has_probabilities:
        return None
    runs, population = _looked_at(known)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", ZooWarning)  # what a model was trained on it cannot judge
            found = diversity.triage(runs)
    except (InputError, ZooWarning):
        return None
    first = found.of_kind("mislabelled").head(FIRST).to_dict(orient="records")
    rows = [
        {
            "example": str(row["id"]),
            "label": describe(str(row["label"])),
            "suggested": describe(str(row["suggested"])),
            "chance of a wrong label": float(row["wrong"]),
            "models against": round(float(row["against"]) * len(runs)),
            "for the suggested": round(float(row["for_suggested"]) * len(runs)),
        }
        for row in first
    ]
    counts = found.counts()
    kinds = [{"kind": kind, "examples": number, "meaning": MEANINGS[kind]} for kind, number in counts.items()]
    lead = (
        f"The labels, held against what {len(runs)} models say; models trained alike count as one opinion, which makes "
        f"{len(found.groups)}. The chance of a wrong label takes into account how sure each is, and which classes are mixed "
        "up. All of it supposes that the models learnt from other examples: what one knows by heart it does not doubt."
    )
    tables = [Table("kinds", "What the models make of the examples", kinds)]
    if rows:
        more = counts["mislabelled"] > len(rows)
        title = "Likely mislabelled" + (f": the first {len(rows)} of {counts['mislabelled']:,}" if more else "")
        tables.append(Table("doubted", title, rows, frozenset({"chance of a wrong label"})))
    section = Section(
        "labels", "Which labels to doubt", lead, population, tables=tables, images=_strip(rows[:IMAGES], known)
    )
    return Part(section, [_finding(found)], {"labels": _numbers(found, first)})


def _looked_at(known: Evidence) -> tuple[Runs, str]:
    """The models on the examples reported, or where these are very many on evenly spaced ones; and which these are."""
    one = next(iter(known.runs.values()))
    most = max(1, WORK // (len(known.runs) * len(one.classes)))
    if len(one) <= most:
        return known.runs, known.population
    rows = np.unique(np.linspace(0, len(one) - 1, most).astype(int))
    return known.runs.select(rows), f"{len(rows):,} examples, evenly spaced among those reported ({known.population})"


def _finding(found: diversity.Triage) -> Finding:
    count, low, high = found.expected_wrong
    out = found.counts()["mislabelled"]
    sentence = (
        f"of {len(found.frame):,} may be expected to be wrong (95% interval {low:.0f} to {high:.0f}); "
        f"{f'against {out:,} most kinds of models name the same other class' if out else 'none of them stands out'}."
    )
    return Finding(f"{count:.0f} {'label' if round(count) == 1 else 'labels'}", sentence)


def _numbers(found: diversity.Triage, first: list[Any]) -> dict[str, Any]:
    count, low, high = found.expected_wrong
    return {
        "examples": len(found.frame), "kinds": found.counts(), "expected_wrong": count,
        "expected_wrong_interval": [low, high], "groups": found.groups, "weights": found.weights, "first": first,
    }  # fmt: skip


def _strip(rows: list[dict[str, Any]], known: Evidence) -> list[Thumbnail]:
    uris = data_uris(known.material.images, [row["example"] for row in rows])
    return [
        Thumbnail(uris[row["example"]], [f"label: {row['label']}", f"suggested: {row['suggested']}"], row["example"])
        for row in rows
        if row["example"] in uris
    ]
