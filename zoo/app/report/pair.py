"""The section on two models side by side: their confidence, the classes that each handles better, and images."""

import itertools
from collections import Counter
from collections.abc import Mapping
from typing import Any

import diversity
from diversity import charts
from zoo.app.report.analysis import Analysis
from zoo.app.report.document import Figure, Part, Section, Table, Thumbnail
from zoo.app.report.findings import best_pair
from zoo.app.report.thumbnails import data_uris
from zoo.cards.labels import describe
from zoo.core.text import as_text
from zoo.datasets import Dataset

IMAGES = 6  # per model
CLASSES = 10  # at each end of the ranking
MAX_CLASSES = 24  # of the chart of different predictions
OWNED_TITLE = "Accuracy by class, and the better model where p < 0.05 (McNemar's test with Holm's correction)"
ANGLE = (
    "The angle θ compares their confidences on one example: to the right the first model is more confident, to the left the "
    "second. A specialist is more confident where it alone is correct."
)


def pair(analysis: Analysis) -> Part:
    """Return the comparison on the test split of the pair that was chosen on the selection split."""
    first, second = (analysis.short(name) for name in analysis.pair)
    comparison = diversity.compare(analysis.test[analysis.pair[0]], analysis.test[analysis.pair[1]])
    has_angle = comparison.theta is not None
    ranked = comparison.by_class().to_dict(orient="records")
    rows = ranked if len(ranked) <= 2 * CLASSES else ranked[:CLASSES] + ranked[-CLASSES:]
    images = _images(comparison, analysis.inputs.images) if has_angle else []
    lead = f"The pair {'with the most accurate ensemble' if has_angle else 'that differs most'} on the selection examples."
    if has_angle:
        lead += f" {ANGLE}"
    if images:
        lead += (
            " The images are those that exactly one of them classifies correctly, with the largest difference in confidence."
        )
    table = Table(
        "owned",
        OWNED_TITLE,
        [_class_row(row, (first, second)) for row in rows],
        frozenset({_accuracy(first), _accuracy(second)}),
        frozenset({"advantage, points"}),
    )
    section = Section(
        "pair",
        f"Side by side: {first} and {second}",
        lead,
        analysis.chosen("the pair was"),
        [*_confusion(comparison, (first, second)), *(_figures(comparison) if has_angle else [])],
        [table],
        images,
    )
    numbers = {"pair": analysis.pair, "comparison": comparison.to_dict()}
    return Part(section, [best_pair(analysis, comparison)], numbers)


def _figures(comparison: diversity.Comparison) -> list[Figure]:
    return [
        Figure(
            "theta",
            "Difference in confidence by outcome",
            "Examples by the angle θ. Between the dotted lines neither model's prediction reliably decides the ensemble's.",
            charts.theta_chart(comparison),
        ),
        Figure(
            "classes",
            "Difference in confidence by class",
            "Examples that exactly one of the two classifies correctly, by class and angle θ.",
            charts.class_chart(comparison),
        ),
    ]


def _confusion(comparison: diversity.Comparison, names: tuple[str, str]) -> list[Figure]:
    """Return the chart of both models' predictions where they differ; none if there are many classes."""
    classes = [as_text(describe(name)) for name in comparison.classes]
    if len(classes) > MAX_CLASSES:
        return []
    counts = Counter(zip(comparison.rows.first.tolist(), comparison.rows.second.tolist(), strict=True))
    rows = [
        {"a": classes[k], "b": classes[m], "count": counts[k, m]} for k, m in itertools.permutations(range(len(classes)), 2)
    ]
    axis = {"type": "nominal", "sort": classes, "scale": {"domain": classes}}
    spec = {
        "data": {"values": rows},
        "height": max(200, 22 * len(classes)),
        "mark": {"type": "rect", "cursor": "pointer"},
        "encoding": {
            "x": {"field": "b", "title": f"{names[1]} predicts", "axis": {"labelAngle": -40}, **axis},
            "y": {"field": "a", "title": f"{names[0]} predicts", **axis},
            "color": {"field": "count", "type": "quantitative", "title": "examples", "scale": {"scheme": "viridis"}},
            "tooltip": [
                {"field": "a", "title": "first"}, {"field": "b", "title": "second"}, {"field": "count", "title": "examples"},
            ],
        },
    }  # fmt: skip
    return [Figure("flips-chart", "Different predictions", "Number of examples by the classes that the two predict.", spec)]


def _accuracy(name: str) -> str:
    return f"accuracy of {name}"  # a model may have the name of another column


def _class_row(row: Mapping[Any, Any], names: tuple[str, str]) -> dict[str, Any]:
    return {
        "class": describe(str(row["class"])),
        "examples": int(row["count"]),
        _accuracy(names[0]): float(row["accuracy_first"]),
        _accuracy(names[1]): float(row["accuracy_second"]),
        "advantage, points": float(row["advantage"]),
        "p (McNemar, Holm)": float(row["p_holm"]),
        "better model": {"first": names[0], "second": names[1]}.get(row["owner"], ""),
    }


def _images(comparison: diversity.Comparison, images: Dataset | None) -> list[Thumbnail]:
    """Return the examples that exactly one model classifies correctly, with the largest differences in confidence."""
    rows = comparison.extremes(IMAGES).drop_duplicates("id").to_dict(orient="records")
    uris = data_uris(images, [row["id"] for row in rows])
    found = []
    for row in rows:
        if row["id"] not in uris:
            continue
        sides = zip(comparison.names, ("first", "second"), strict=True)
        predictions = [f"{name}: {describe(row[side])} ({row[f'confidence_{side}']:.0%})" for name, side in sides]
        found.append(Thumbnail(uris[row["id"]], [f"label: {describe(row['label'])}", *predictions], str(row["id"])))
    return found
