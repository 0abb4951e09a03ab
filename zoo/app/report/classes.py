"""The section on classes: the accuracy of every model on every class."""

import numpy as np

from zoo.app.report.analysis import Analysis
from zoo.app.report.document import Figure, Part, Section
from zoo.cards.labels import describe

MAX_CLASSES = 24  # with more, those on which the models differ most are drawn
MAX_MODELS = 60


def classes(analysis: Analysis) -> Part | None:
    """Return the heatmap of accuracy by class and model; None for a single class."""
    labels = analysis.runs.labels
    first = next(iter(analysis.runs.values()))
    counts = np.bincount(labels, minlength=len(first.classes))
    present = np.flatnonzero(counts)
    if len(present) < 2:
        return None
    runs = sorted(analysis.runs.values(), key=lambda outputs: -outputs.accuracy)[:MAX_MODELS]
    correct = [np.bincount(labels, outputs.predictions == labels, minlength=len(counts))[present] for outputs in runs]
    accuracy = np.stack(correct) / counts[present]
    spread = accuracy.max(0) - accuracy.min(0)
    drawn = np.sort(np.argsort(-spread, kind="stable")[:MAX_CLASSES])
    rows = [
        {"model": outputs.name, "class": describe(str(first.classes[present[k]])), "accuracy": round(float(value[k]), 4),
         "examples": int(counts[present[k]]), "label": int(present[k])}
        for outputs, value in zip(runs, accuracy, strict=True)
        for k in drawn
    ]  # fmt: skip
    low, high = np.quantile(accuracy[:, drawn], [0.02, 1])
    order = [outputs.name for outputs in runs]
    ending = len(analysis.shared_ending)
    axis = {"labelFontSize": 9, "labelLimit": 220} | ({"labelExpr": f"slice(datum.label, 0, -{ending})"} if ending else {})
    spec = {
        "data": {"values": rows},
        "height": max(120, 13 * len(runs)),
        "mark": {"type": "rect", "cursor": "pointer"},
        "encoding": {
            "x": {"field": "class", "type": "nominal", "sort": None, "title": "class", "axis": {"labelAngle": -40}},
            "y": {"field": "model", "type": "nominal", "sort": order, "title": None, "axis": axis},
            "color": {
                "field": "accuracy", "type": "quantitative", "title": "accuracy", "legend": {"format": "%"},
                "scale": {"scheme": "viridis", "domain": [float(low), float(high)], "clamp": True},
            },
            "tooltip": [
                {"field": "model"}, {"field": "class"}, {"field": "accuracy", "format": ".1%"}, {"field": "examples"},
            ],
        },
    }  # fmt: skip
    caption = "The most accurate models are at the top."
    if len(drawn) < len(present):
        caption += f" Of {len(present):,} classes, those {len(drawn)} on which the models differ most are drawn."
    if len(runs) < len(analysis.runs):
        caption += f" Of {len(analysis.runs)} models, the {len(runs)} most accurate are drawn."
    figure = Figure("class-accuracy", "Accuracy by class and model", caption, spec, wide=True)
    lead = "Models of equal accuracy can be good at different classes."
    return Part(Section("classes-section", "Which classes are hard for which models", lead, analysis.population, [figure]))
