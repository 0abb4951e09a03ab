"""The first part: who the models are and how good."""

from typing import Any

from zoo import calibration
from zoo.app.report.document import Finding, Part, Section, Table
from zoo.app.report.evidence import Evidence
from zoo.core.arrays import NO_PREDICTION
from zoo.outputs.outputs import Outputs

PERCENT = frozenset({"accuracy", "top-5", "ECE before", "ECE after"})
FACTS = ("family", "trained on", "objective", "licence")


def models(known: Evidence) -> Part:
    """One row per model, the most accurate first."""
    rows = sorted((_row(outputs) for outputs in known.runs.values()), key=lambda row: -row["accuracy"])
    lead = "How often each model is right."
    if any(row["ECE before"] is not None for row in rows):
        lead += " ECE is the expected calibration error in 15 bins."
    if any(row["temperature"] is not None for row in rows):
        lead += " A temperature below 1 means that the model was too timid, above 1 too sure; ECE before and after it."
    if any(row["no answer"] for row in rows):
        lead += " An answer that is none of the classes counts as wrong."
    shared = _shared(rows)
    if shared:
        lead += f" Of all models: {', '.join(f'{fact} {value}' for fact, value in shared.items())}."
    shown = [{key: value for key, value in row.items() if key not in shared} for row in rows]
    best = known.test[known.best]
    sentence = f"of {known.tested} are right with {best.name}, the best of {len(rows)} models on {known.others}."
    return Part(
        Section("models", "The models", lead, known.population, tables=[Table("model-table", "", shown, PERCENT, True)]),
        [Finding(f"{best.accuracy:.1%}", sentence)],
        {"models": rows, "best": {"model": best.name, "test": best.accuracy}},
    )


def _shared(rows: list[dict[str, Any]]) -> dict[str, str]:
    """The facts that are the same of several models: said once, they leave their columns' room to the names."""
    alike = {fact: rows[0][fact] for fact in FACTS if len({row[fact] for row in rows}) == 1 < len(rows)}
    return {fact: value for fact, value in alike.items() if value is not None}


def _row(outputs: Outputs) -> dict[str, Any]:
    card = outputs.card
    row: dict[str, Any] = {
        "model": outputs.name,
        "accuracy": outputs.accuracy,
        "top-5": outputs.top5,
        "no answer": None,
        "family": card.family if card else None,
        "trained on": card.dataset if card else None,
        "objective": card.objective if card else None,
        "licence": card.license if card else None,
        **dict.fromkeys(("temperature", "NLL", "ECE before", "ECE after")),
    }
    if outputs.kind == "predictions":
        return row | {"no answer": int((outputs.predictions == NO_PREDICTION).sum()) or None}
    labels, p = outputs.require_labels(), outputs.probabilities
    row["NLL"] = calibration.negative_log_likelihood(p, labels)
    row["ECE before"] = calibration.expected_calibration_error(uncalibrated(outputs), labels)
    if outputs.temperature is not None:
        row |= {"temperature": outputs.temperature, "ECE after": calibration.expected_calibration_error(p, labels)}
    return row


def uncalibrated(outputs: Outputs) -> Any:
    """Probabilities [N, K] as the model gave them, without its temperature."""
    if outputs.kind == "probabilities":
        return outputs.values.array()
    return calibration.to_probabilities(outputs.logits, 1.0, outputs.link)
