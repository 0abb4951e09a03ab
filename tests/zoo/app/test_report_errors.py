"""The section on errors, where nothing can be said of a link."""

import numpy as np

from zoo.app.report.errors import errors
from zoo.app.report.evidence import Evidence
from zoo.app.report.material import Material
from zoo.outputs.outputs import Outputs, Runs

WRONG = {"a": range(2), "b": range(2, 6), "c": range(6, 12)}  # of twenty examples, no two of them at once


def made(name: str) -> Outputs:
    """Wrong with confidence 0.8; elsewhere right with 0.9 and 0.6 in turn, so that a pair converts every second error."""
    right = np.where(np.arange(20) % 2 == 0, 0.9, 0.6)
    p = np.array([0.2 if row in WRONG[name] else right[row] for row in range(20)])
    return Outputs.from_arrays(name, probabilities=np.stack([p, 1 - p], 1), labels=np.zeros(20, int))


def evidence_of(runs: Runs) -> Evidence:
    return Evidence(runs, "all 20 examples", Material(runs))


def test_gains_that_are_all_the_same_have_no_correlation() -> None:
    part = errors(evidence_of(Runs(made(name) for name in WRONG)))
    section, findings, numbers = part.section, part.findings, part.numbers
    assert numbers["line"] == {"slope": 0.0, "correlation": None, "pairs": 3}
    said = {finding.number: finding.sentence for finding in findings}
    assert "r is not defined: all points have the same height" in said["no correlation"]
    assert "nan" not in str(findings).lower()
    (gain,) = (figure for figure in section.figures if figure.id == "gain")
    assert gain.chart.to_dict()["title"] == "r is not defined: all points have the same height, 3 pairs"


def test_predictions_alone_have_categories_but_no_gains() -> None:
    runs = Runs(
        Outputs.from_arrays(n, predictions=made(n).predictions, labels=np.zeros(20, int), classes="pq") for n in WRONG
    )
    part = errors(evidence_of(runs))
    assert [figure.id for figure in part.section.figures] == ["inconsistency"]
    assert part.findings == []
    assert part.numbers["inconsistency"]["b"]["c"] == 0.5
