"""The section with one row per model: accuracy, cost, origin and calibration."""

from typing import Any

import torch

import diversity
from diversity.intervals import wilson
from zoo import calibration
from zoo.app.report.analysis import Analysis
from zoo.app.report.document import Part, Section, Table
from zoo.core import arrays
from zoo.core.arrays import NO_PREDICTION
from zoo.outputs.outputs import Outputs

PERCENT = frozenset({"accuracy", "95% CI", "top-5", "ECE uncalibrated", "ECE"})
LARGE = frozenset({"parameters", "FLOPs"})
FACTS = ("family", "trained on", "objective", "licence")
HIDDEN = frozenset({"top-5", "licence", "NLL", "ECE uncalibrated", "temperature"})  # shown on request


def models(analysis: Analysis) -> Part:
    """Return the table of models, the most accurate first."""
    significance = diversity.significance(analysis.pairwise)
    letters = dict(zip(significance.models, significance.letters, strict=True))
    rows = sorted(
        (_row(outputs, letters[outputs.name], analysis) for outputs in analysis.runs.values()),
        key=lambda row: -row["accuracy"],
    )
    lead = (
        "The accuracy of each model, with its 95% confidence interval. The accuracies of two models differ significantly if "
        "the models have no letter in common (McNemar's test, Holm's correction for all pairs)."
    )
    if any(row["ECE uncalibrated"] is not None for row in rows):
        lead += " ECE is the expected calibration error in 15 bins"
        if any(row["temperature"] is not None for row in rows):
            lead += (
                ", after calibration: each model has a temperature by which its logits are divided. Above 1 the model was "
                "overconfident, below 1 underconfident"
            )
        lead += "."
    if any(row["no prediction"] for row in rows):
        lead += " An example without a valid prediction counts as an error."
    shared = _shared_facts(rows)
    if shared:
        lead += f" The same for all models: {', '.join(f'{fact} {value}' for fact, value in shared.items())}."
    table_rows = [{key: value for key, value in row.items() if key not in shared} for row in rows]
    table = Table("model-table", "", table_rows, PERCENT, large=LARGE, filterable=True, hidden=HIDDEN)
    return Part(Section("models", "The models", lead, analysis.population, tables=[table]), [], {"models": rows})


def _shared_facts(rows: list[dict[str, Any]]) -> dict[str, str]:
    """Return the facts that are the same for all models: the lead states them, and the table has no column for them."""
    shared = {fact: rows[0][fact] for fact in FACTS if len({row[fact] for row in rows}) == 1 < len(rows)}
    return {fact: value for fact, value in shared.items() if value is not None}


def _row(outputs: Outputs, letters: str, analysis: Analysis) -> dict[str, Any]:
    card = outputs.card
    parameters, flops = analysis.costs[outputs.name]
    low, high = wilson(outputs.accuracy, len(outputs))
    row: dict[str, Any] = {
        "model": outputs.name,
        "accuracy": outputs.accuracy,
        "95% CI": (float(low), float(high)),
        "letters": letters,
        "top-5": outputs.top5,
        "no prediction": None,
        "parameters": parameters,
        "FLOPs": flops,
        "family": card.family if card else None,
        "trained on": card.dataset if card else None,
        "objective": card.objective if card else None,
        "licence": card.license if card else None,
        **dict.fromkeys(("temperature", "NLL", "ECE uncalibrated", "ECE")),
    }
    if outputs.kind == "predictions":
        return row | {"no prediction": int((outputs.predictions == NO_PREDICTION).sum()) or None}
    labels, p = outputs.require_labels(), outputs.probabilities
    row["NLL"] = calibration.negative_log_likelihood(p, labels)
    row["ECE uncalibrated"] = calibration.expected_calibration_error(uncalibrated(outputs), labels)
    if outputs.temperature is not None:
        row |= {"temperature": outputs.temperature, "ECE": calibration.expected_calibration_error(p, labels)}
    return row


def uncalibrated(outputs: Outputs) -> Any:
    """Return the probabilities [N, K] of a model without its temperature."""
    if outputs.kind == "probabilities" and outputs.row_scale is None:
        return outputs.values.array()
    logits = arrays.tensor(outputs.logits, outputs.name)
    if outputs.row_scale is not None:
        logits = logits / torch.from_numpy(outputs.row_scale).to(logits)[:, None]
    return calibration.to_probabilities(logits, 1.0, "softmax" if outputs.kind == "probabilities" else outputs.link)
