"""The section on two models side by side: who is sure of what, which classes each owns, and images to look at."""

from collections.abc import Mapping
from typing import Any

import diversity
from diversity import charts
from zoo.app.report.document import Figure, Section, Table, Thumbnail
from zoo.app.report.thumbnails import data_uri
from zoo.datasets import Dataset
from zoo.labels import describe
from zoo.outputs import Runs

IMAGES = 6  # of each model's
CLASSES = 10  # at each end of the ranking


def specialists(runs: Runs, pair: tuple[str, str], images: Dataset | None) -> tuple[Section, dict[str, Any]]:
    """The two models of `pair` compared, and the comparison's numbers."""
    comparison = diversity.compare(runs[pair[0]], runs[pair[1]])
    ranked = comparison.by_class().to_dict(orient="records")
    owned = ranked if len(ranked) <= 2 * CLASSES else ranked[:CLASSES] + ranked[-CLASSES:]
    figures = [
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
    section = Section(
        "pair",
        f"Side by side: {pair[0]} and {pair[1]}",
        "The two models that do best together. The angle θ compares their confidences on one example: to the right the "
        "first is surer, to the left the second. A specialist is surer where it alone is right. The images are those that "
        "only one of them gets right, and is surest of.",
        figures,
        [
            Table(
                "owned",
                "Which classes each owns: better with p < 0.05, by McNemar's test and Holm's correction for all classes",
                [_class_row(row, pair) for row in owned],
                frozenset({*pair, "advantage"}),
            )
        ],
        _strip(comparison, images),
    )
    return section, {"comparison": comparison.to_dict()}


def _class_row(row: Mapping[Any, Any], pair: tuple[str, str]) -> dict[str, Any]:
    return {
        "class": describe(str(row["class"])),
        "examples": int(row["count"]),
        pair[0]: float(row["accuracy_first"]),
        pair[1]: float(row["accuracy_second"]),
        "advantage": float(row["advantage"]),
        "p (McNemar, Holm)": float(row["p_holm"]),
        "owner": {"first": pair[0], "second": pair[1]}.get(row["owner"], ""),
    }


def _strip(comparison: Any, images: Dataset | None) -> list[Thumbnail]:
    """The examples that exactly one of the two gets right, and is surest of."""
    if images is None:
        return []
    row_of = {row_id: row for row, row_id in enumerate(images.ids)}
    strip = []
    for row in comparison.extremes(IMAGES).drop_duplicates("id").to_dict(orient="records"):
        if row["id"] in row_of:
            said = [f"{name}: {describe(row[side])} ({row[f'confidence_{side}']:.0%})" for name, side in _sides(comparison)]
            truth = f"truth: {describe(row['label'])}"
            strip.append(Thumbnail(data_uri(images[row_of[row["id"]]]), [truth, *said], str(row["id"])))
    return strip


def _sides(comparison: Any) -> list[tuple[str, str]]:
    return list(zip(comparison.names, ("first", "second"), strict=True))
