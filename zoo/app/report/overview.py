"""The first section: who the models are, how good, and how far their confidence can be trusted."""

from typing import Any

import altair as alt
import pandas as pd

from diversity.charts import reliability_chart
from zoo import calibration
from zoo.app.report.document import Figure, Section, Table
from zoo.outputs import Outputs, Runs

FEWEST = 5  # examples in a bin that is drawn; the accuracy of fewer says nothing
RELIABILITY_MODELS = 12  # diagrams beyond these say nothing new and crowd the page


def overview(runs: Runs) -> tuple[list[Section], list[dict[str, Any]]]:
    """Sections on the models and on calibration, and the models' rows as data."""
    rows = [_row(outputs) for outputs in runs.values()]
    rows.sort(key=lambda row: -row["accuracy"])
    percent = frozenset({"accuracy", "top-5", "ECE before", "ECE after"})
    sections = [
        Section(
            "models",
            "The models",
            "Accuracies are on the examples this report is about; a temperature below 1 means the model was too timid, "
            "above 1 too sure. ECE is the expected calibration error in 15 bins, before and after that temperature.",
            tables=[Table("models", "", rows, percent, filterable=True)],
        )
    ]
    scored = [outputs for outputs in runs.values() if outputs.kind != "predictions"]
    if scored:
        shown = sorted(scored, key=lambda outputs: -outputs.accuracy)[:RELIABILITY_MODELS]
        note = f" The {len(shown)} most accurate models are drawn." if len(shown) < len(scored) else ""
        sections.append(
            Section(
                "calibration",
                "Can their confidence be trusted?",
                "Averaging confidences only works when they mean the same for every member, so each model is given "
                "one temperature, fitted on examples that are not in this report." + note,
                figures=[
                    Figure(
                        "reliability",
                        "Accuracy against confidence",
                        "On the diagonal a model is right as often as it says. Grey: as it came; blue: at its temperature. "
                        f"Bins of fewer than {FEWEST} examples are left out.",
                        _reliability(shown),
                        wide=True,
                    )
                ],
            )
        )
    return sections, rows


def _row(outputs: Outputs) -> dict[str, Any]:
    card = outputs.card
    row: dict[str, Any] = {
        "model": outputs.name,
        "accuracy": outputs.accuracy,
        "top-5": outputs.top5,
        "family": card.family if card else None,
        "trained on": card.dataset if card else None,
        "objective": card.objective if card else None,
        "licence": card.license if card else None,
    }
    if outputs.kind == "predictions":
        return row | dict.fromkeys(("temperature", "NLL", "ECE before", "ECE after"))
    labels = outputs.require_labels()
    before, after = uncalibrated(outputs), outputs.probabilities()
    return row | {
        "temperature": outputs.temperature,
        "NLL": calibration.negative_log_likelihood(after, labels),
        "ECE before": calibration.expected_calibration_error(before, labels),
        "ECE after": calibration.expected_calibration_error(after, labels),
    }


def uncalibrated(outputs: Outputs) -> Any:
    """Probabilities [N, K] as the model gave them, without its temperature."""
    if outputs.kind == "probabilities":
        return outputs.values.array()
    return calibration.to_probabilities(outputs.logits, 1.0, outputs.link)


def _reliability(shown: list[Outputs]) -> alt.TopLevelMixin:
    """Accuracy against confidence, before and after the temperature, one panel per model."""
    frames = []
    for outputs in shown:
        labels = outputs.require_labels()
        for when, probabilities in (("before", uncalibrated(outputs)), ("after", outputs.probabilities())):
            frames.append(calibration.reliability(probabilities, labels).assign(model=outputs.name, when=when))
    return reliability_chart(pd.concat(frames, ignore_index=True), FEWEST)
