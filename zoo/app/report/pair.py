"""The part on two models side by side: who is sure of what, which classes each owns, and images to look at."""

from collections.abc import Mapping
from typing import Any

import diversity
from diversity import charts
from zoo.app.report.document import Figure, Finding, Part, Section, Table, Thumbnail
from zoo.app.report.evidence import Evidence
from zoo.app.report.thumbnails import data_uris
from zoo.cards.labels import describe
from zoo.datasets import Dataset

IMAGES = 6  # of each model's
CLASSES = 10  # at each end of the ranking


def pair(known: Evidence) -> Part:
    """The pair that was chosen on the selection half, compared on the test half."""
    first, second = known.pair
    comparison = diversity.compare(known.test[first], known.test[second])
    sure = comparison.theta is not None
    ranked = comparison.by_class().to_dict(orient="records")
    owned = ranked if len(ranked) <= 2 * CLASSES else ranked[:CLASSES] + ranked[-CLASSES:]
    images = _strip(comparison, known.material.images) if sure else []
    lead = f"The two models that {'do best together' if sure else 'differ most'} on the examples that chose them."
    if sure:
        lead += (
            " The angle θ compares their confidences on one example: to the right the first is surer, to the left the "
            "second. A specialist is surer where it alone is right."
        )
    if images:
        lead += " The images are those that only one of them gets right, and is surest of."
    table = Table(
        "owned",
        "Which classes each owns: better with p < 0.05, by McNemar's test and Holm's correction for all classes",
        [_class_row(row, known.pair) for row in owned],
        frozenset({*map(_accuracy, known.pair), "advantage"}),
    )
    population = known.chosen("the pair")
    section = Section(
        "pair",
        f"Side by side: {first} and {second}",
        lead,
        population,
        _figures(comparison) if sure else [],
        [table],
        images,
    )
    return Part(section, [_finding(comparison, known)], {"pair": known.pair, "comparison": comparison.to_dict()})


def _finding(comparison: diversity.Comparison, known: Evidence) -> Finding:
    first, second = known.pair
    sentence = f"of {known.tested} are right with exactly one of {first} and {second}, "
    if comparison.theta is None:
        sentence += f"the pair that differs most on {known.others}."
    else:
        gain, low, high = (100 * x for x in (comparison.gain_over_best, *comparison.interval("gain_over_best")))
        sentence += (
            f"the best pair on {known.others}; together they reach {comparison.ensemble_accuracy:.1%}, {gain:+.1f} points "
            f"against the better one (95% interval {low:+.1f} to {high:+.1f})."
        )
    return Finding(f"{comparison.inconsistency:.1%}", sentence)


def _figures(comparison: diversity.Comparison) -> list[Figure]:
    return [
        Figure(
            "theta",
            "Who is surer, by who is right",
            "Examples by the angle θ. Between the dotted lines neither prediction reliably prevails in the ensemble.",
            charts.theta_chart(comparison),
        ),
        Figure(
            "classes",
            "Where in the classes they differ",
            "Examples that exactly one of the two gets right: their class, and who is surer.",
            charts.class_chart(comparison),
        ),
    ]


def _accuracy(name: str) -> str:
    return f"accuracy of {name}"  # a model may be called like another column


def _class_row(row: Mapping[Any, Any], names: tuple[str, str]) -> dict[str, Any]:
    return {
        "class": describe(str(row["class"])),
        "examples": int(row["count"]),
        _accuracy(names[0]): float(row["accuracy_first"]),
        _accuracy(names[1]): float(row["accuracy_second"]),
        "advantage": float(row["advantage"]),
        "p (McNemar, Holm)": float(row["p_holm"]),
        "owner": {"first": names[0], "second": names[1]}.get(row["owner"], ""),
    }


def _strip(comparison: diversity.Comparison, images: Dataset | None) -> list[Thumbnail]:
    """The examples that exactly one of the two gets right, and is surest of."""
    chosen = comparison.extremes(IMAGES).drop_duplicates("id").to_dict(orient="records")
    uris = data_uris(images, [row["id"] for row in chosen])
    strip = []
    for row in chosen:
        if row["id"] not in uris:
            continue
        sides = zip(comparison.names, ("first", "second"), strict=True)
        said = [f"{name}: {describe(row[side])} ({row[f'confidence_{side}']:.0%})" for name, side in sides]
        strip.append(Thumbnail(uris[row["id"]], [f"truth: {describe(row['label'])}", *said], str(row["id"])))
    return strip
