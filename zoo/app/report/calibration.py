"""The section on calibration: reliability of the models and of the ensemble, and accuracy when unsure ones abstain."""

from typing import Any

import numpy as np
import pandas as pd

import ensembles
from diversity.charts import reliability_chart
from ensembles.ensemble_temperature import apply_temperature
from zoo.app.report.analysis import Analysis
from zoo.app.report.document import Figure, Finding, Part, Section
from zoo.app.report.models import uncalibrated
from zoo.calibration import expected_calibration_error, reliability
from zoo.calibration.selective import certainty, risk_coverage
from zoo.core.units import percent
from zoo.outputs.outputs import Runs

MIN_BIN = 5  # examples in a bin that is drawn
MAX_DIAGRAMS = 63  # of models, besides the ensemble's
COLUMNS = 6  # of diagrams, if there are many
MAX_ELEMENTS = 2**28  # examples x classes of the ensemble's probabilities


def calibration(analysis: Analysis) -> Part | None:
    """Return reliability diagrams before and after the temperatures, and the ensemble's own calibration."""
    fitted = [outputs for outputs in analysis.runs.values() if outputs.temperature is not None]
    if not fitted or not analysis.has_probabilities:
        return None
    drawn = sorted(fitted, key=lambda outputs: -outputs.accuracy)[:MAX_DIAGRAMS]
    frames = [
        reliability(p, outputs.require_labels()).assign(model=analysis.short(outputs.name), when=when)
        for outputs in drawn
        for when, p in (("before", uncalibrated(outputs)), ("after", outputs.probabilities))
    ]
    lead = (
        "Averaging probabilities needs members whose confidence means the same, so each model has a temperature. It is "
        "fitted without the examples that it is applied to."
    )
    if len(drawn) < len(fitted):
        lead += f" The {len(drawn)} most accurate models are drawn."
    findings, numbers, figures = [], {}, []
    mean = _ensemble(analysis)
    if mean is not None and analysis.path.calibration is not None:
        calibrated = apply_temperature(mean, analysis.path.calibration.temperature)
        title = f"ensemble of {len(analysis.members)}"
        labels = analysis.test.labels
        both = (("before", mean), ("after", calibrated))
        panels = [reliability(p, labels).assign(model=title, when=when) for when, p in both]
        frames = [*panels, *frames]
        findings, numbers = [_finding(analysis)], {"ensemble_calibration": _numbers(analysis)}
        figures = [_risk_figure(analysis, mean, title)]
    figure = Figure(
        "reliability",
        "Accuracy against confidence",
        "On the diagonal, accuracy equals confidence; above it a model is underconfident, below it overconfident. Grey: "
        "before the temperature; blue: after it. Larger dots are bins of more examples; bins of fewer than "
        f"{MIN_BIN} are left out.",
        _chart(pd.concat(frames, ignore_index=True)),
        wide=True,
    )
    section = Section("calibration", "Can their confidence be trusted?", lead, analysis.population, [figure, *figures])
    return Part(section, findings, numbers)


def _chart(frame: pd.DataFrame) -> dict[str, Any]:
    """Return reliability diagrams in the order of the frame, whose dots have the size of their bins."""
    spec: dict[str, Any] = reliability_chart(frame, MIN_BIN).to_dict()
    models = list(dict.fromkeys(frame["model"]))
    spec["facet"]["sort"] = models
    if len(models) > 2 * COLUMNS:
        spec["columns"] = COLUMNS
        spec["facet"]["header"] = {"labelFontSize": 9}
    size = {"field": "count", "type": "quantitative", "scale": {"type": "sqrt", "range": [4, 90]}, "legend": None}
    for layer in spec["spec"]["layer"]:
        if layer["mark"]["type"] == "point":
            layer["encoding"]["size"] = size
    return spec


def _ensemble(analysis: Analysis) -> Any | None:
    """Return the mean probabilities [N, K] of the best ensemble on the test split; None for one member or many classes."""
    test = analysis.test
    if len(analysis.members) < 2 or len(test.labels) * len(next(iter(test.values())).classes) > MAX_ELEMENTS:
        return None
    weights = {str(name): float(weight) for name, weight in dict(analysis.path.weights).items() if weight}
    return np.asarray(ensembles.average(Runs(test[name] for name in weights), weights))


def _numbers(analysis: Analysis) -> dict[str, Any]:
    fit = analysis.path.calibration
    assert fit is not None
    labels = analysis.test.labels
    members = {name: expected_calibration_error(analysis.test[name].probabilities, labels) for name in analysis.members}
    return {"temperature": fit.temperature, "ece_before": fit.ece_before, "ece_after": fit.ece_after, "members": members}


def _finding(analysis: Analysis) -> Finding:
    found = _numbers(analysis)
    members = found["members"].values()
    bias = "underconfident" if found["temperature"] < 1 else "overconfident"
    text = (
        f"The mean of the {len(members)} calibrated members is {bias}: its expected calibration error (ECE) on "
        f"{analysis.tested} is {percent(found['ece_before'])}, and {percent(found['ece_after'])} at its own temperature "
        f"{found['temperature']:.2f}, fitted on the selection examples. The members alone have {percent(min(members))} to "
        f"{percent(max(members))}."
    )
    return Finding(
        "Calibration of the ensemble", f"ECE {percent(found['ece_before'])} → {percent(found['ece_after'])}", text
    )


def _risk_figure(analysis: Analysis, mean: Any, title: str) -> Figure:
    """Return accuracy against coverage of the best model and of the ensemble."""
    best, labels = analysis.test[analysis.best], analysis.test.labels
    curves = {analysis.short(best.name): best.probabilities, title: mean}
    frames = [
        risk_coverage(certainty(p), np.asarray(p).argmax(1) == labels, resamples=0).to_frame().assign(curve=name)
        for name, p in curves.items()
    ]
    rows = pd.concat(frames, ignore_index=True)[["curve", "coverage", "risk"]].round(5).to_dict(orient="records")
    percent_axis = {"format": "%"}
    spec = {
        "data": {"values": rows},
        "height": 260,
        "mark": {"type": "line", "interpolate": "monotone"},
        "encoding": {
            "x": {"field": "coverage", "type": "quantitative", "axis": percent_axis, "title": "coverage: examples answered"},
            "y": {"field": "risk", "type": "quantitative", "axis": percent_axis, "title": "risk: errors among them"},
            "color": {"field": "curve", "type": "nominal", "title": None, "sort": list(curves)},
            "tooltip": [{"field": "curve"}, {"field": "coverage", "format": ".0%"}, {"field": "risk", "format": ".2%"}],
        },
    }
    caption = "Errors that remain if the model abstains on the examples it is least confident about (test examples)."
    return Figure("risk", "Risk against coverage", caption, spec, wide=True)
