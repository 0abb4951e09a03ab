"""The section on training: accuracy by epoch, from the logs of models that were trained on this machine."""

from typing import Any

from diversity.training_curves import read_log
from zoo.app.report.analysis import Analysis, limited
from zoo.app.report.document import Figure, Part, Section
from zoo.errors import ZooError

# The fields of a log that are drawn. Training accuracy is that of the augmented batches.
CURVES = {"accuracy": "training", "holdout_accuracy": "held-out", "test_accuracy": "test"}


def training(analysis: Analysis) -> Part | None:
    """Return accuracy by epoch of the models that have a training log; None if no model has one."""
    rows = [row for name in analysis.runs for row in _rows(analysis, name)]
    if not rows:
        return None
    for row, objective in zip(rows, limited([row["objective"] for row in rows]), strict=True):
        row["objective"] = objective
    models = len({row["model"] for row in rows})
    spec = {
        "data": {"values": rows},
        "height": 300,
        "mark": {"type": "line", "opacity": 0.7},
        "encoding": {
            "x": {"field": "epoch", "type": "quantitative", "title": "epoch", "axis": {"tickMinStep": 1}},
            "y": {"field": "accuracy", "type": "quantitative", "axis": {"format": "%"}, "scale": {"zero": False}},
            "color": {"field": "objective", "type": "nominal"},
            "strokeDash": {"field": "examples", "type": "nominal", "sort": list(CURVES.values())},
            "detail": {"field": "model"},
            "tooltip": [
                {"field": "model"},
                {"field": "examples"},
                {"field": "epoch"},
                {"field": "accuracy", "format": ".1%"},
            ],
        },
    }
    caption = "Accuracy after each epoch; that of training examples is measured on the augmented batches."
    figure = Figure("training-curves", "Accuracy during training", caption, spec, wide=True)
    lead = f"The training logs of {models} of {len(analysis.runs)} models, which were trained on this machine."
    return Part(Section("training", "How training went", lead, figures=[figure]), numbers={"training": rows})


def _rows(analysis: Analysis, name: str) -> list[dict[str, Any]]:
    card = analysis.runs[name].card
    if card is None:
        return []
    try:
        log = read_log(name)
    except ZooError:  # a damaged log, or a name that cannot be a folder
        return []
    return [
        {"model": name, "objective": card.objective, "examples": title, "epoch": entry["epoch"], "accuracy": entry[field]}
        for field, title in CURVES.items()
        for entry in log
        if isinstance(entry.get("epoch"), int) and isinstance(entry.get(field), float)
    ]
