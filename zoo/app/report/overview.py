"""The first section: who the models are, how good, and how far their confidence can be trusted."""

from typing import Any

import altair as alt
import pandas as pd

from zoo import calibration
from zoo.app.report.document import Figure, Section, Table
from zoo.outputs import Outputs, Runs

FEWEST = 5  # examples in a bin that is drawn; the accuracy of fewer says nothing
RELIABILITY_MODELS = 12  # diagrams beyond these say nothing new and crowd the page


def overview(runs: Runs) -> tuple[list[Section], list[dict[str, Any]]]:
    """Sections on the models and on calibration, and the models' rows as data."""
    rows = [_row(outputs) for outputs in runs.values()]
    rows.sort(key=lambda row: -row["accuracy"])
    percent = frozenset({"accuracy", "ECE before", "ECE after"})
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
                        reliability_chart(shown),
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


def reliability_chart(shown: list[Outputs]) -> alt.TopLevelMixin:
    """Small multiples of accuracy against confidence, before and after the temperature."""
    frames = []
    for outputs in shown:
        labels = outputs.require_labels()
        for stage, probabilities in (("before", uncalibrated(outputs)), ("after", outputs.probabilities())):
            frame = calibration.reliability(probabilities, labels)
            frame = frame[frame["count"] >= FEWEST]
            frames.append(frame[["confidence", "accuracy", "count"]].assign(model=outputs.name, stage=stage))
    data = pd.concat(frames, ignore_index=True)
    diagonal = alt.Chart(data).transform_aggregate(groupby=["model"]).transform_calculate(low="0", high="1")
    base = alt.Chart(data).encode(
        alt.X("confidence:Q").scale(domain=[0, 1]).axis(format="%", tickCount=3),
        alt.Y("accuracy:Q").scale(domain=[0, 1]).axis(format="%", tickCount=3),
        alt.Color("stage:N").scale(domain=["before", "after"], range=["#9aa5b1", "#0b7fb0"]).title(""),
        tooltip=["model", "stage", alt.Tooltip("confidence", format=".1%"), alt.Tooltip("accuracy", format=".1%"), "count"],
    )
    rule = diagonal.mark_rule(strokeDash=[3, 3], opacity=0.6).encode(
        x=alt.X("low:Q").title("confidence"), x2="high:Q", y=alt.Y("low:Q").title("accuracy"), y2="high:Q"
    )
    layered = rule + base.mark_line() + base.mark_point(filled=True, size=22)
    return layered.properties(width=150, height=150).facet(facet=alt.Facet("model:N").title(None), columns=5)
