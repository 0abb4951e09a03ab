"""The part on calibration: how far the models' confidence can be trusted."""

import pandas as pd

from diversity.charts import reliability_chart
from zoo.app.report.document import Figure, Part, Section
from zoo.app.report.evidence import Evidence
from zoo.app.report.models import uncalibrated
from zoo.calibration import reliability

FEWEST = 5  # examples in a bin that is drawn; the accuracy of fewer says nothing
MOST = 12  # diagrams beyond these say nothing new and crowd the page


def calibration(known: Evidence) -> Part | None:
    """Reliability diagrams before and after the temperatures, where models have some."""
    fitted = [outputs for outputs in known.runs.values() if outputs.temperature is not None]
    if not fitted:
        return None
    shown = sorted(fitted, key=lambda outputs: -outputs.accuracy)[:MOST]
    frames = [
        reliability(p, outputs.require_labels()).assign(model=outputs.name, when=when)
        for outputs in shown
        for when, p in (("before", uncalibrated(outputs)), ("after", outputs.probabilities))
    ]
    lead = (
        "Averaging confidences only works when they mean the same for every member, so each model is given one temperature, "
        "fitted on examples that are not in this report."
    )
    if len(shown) < len(fitted):
        lead += f" The {len(shown)} most accurate models are drawn."
    figure = Figure(
        "reliability",
        "Accuracy against confidence",
        "On the diagonal a model is right as often as it says. Grey: as it came; blue: at its temperature. Bins of fewer "
        f"than {FEWEST} examples are left out.",
        reliability_chart(pd.concat(frames, ignore_index=True), FEWEST),
        wide=True,
    )
    return Part(Section("calibration", "Can their confidence be trusted?", lead, known.population, [figure]))
