"""The section on errors, if a correlation is undefined or there are no gains."""

import numpy as np
import pytest

from zoo.app.report.analysis import Analysis
from zoo.app.report.errors import errors
from zoo.app.report.inputs import ReportInputs
from zoo.outputs.outputs import Outputs, Runs

WRONG = {"a": range(2), "b": range(2, 6), "c": range(6, 12)}  # of twenty examples, no two of them at once


def made(name: str) -> Outputs:
    """Wrong with confidence 0.8; elsewhere right with 0.9 and 0.6 in turn, so that a pair converts every second error."""
    right = np.where(np.arange(20) % 2 == 0, 0.9, 0.6)
    p = np.array([0.2 if row in WRONG[name] else right[row] for row in range(20)])
    return Outputs.from_arrays(name, probabilities=np.stack([p, 1 - p], 1), labels=np.zeros(20, int))


def analysis_of(runs: Runs) -> Analysis:
    return Analysis(runs, "all 20 examples", ReportInputs(runs))


def test_equal_gains_have_no_correlation() -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("zoo.app.report.analysis.ACCURACY_BAND", 100.0)
        part = errors(analysis_of(Runs(made(name) for name in WRONG)))
    section, findings, numbers = part.section, part.findings, part.numbers
    line = numbers["line"]
    assert (line["slope"], line["correlation"], line["interval"], line["pairs"]) == (0.0, None, None, 3)
    (finding,) = findings
    assert finding.number == "undefined"
    assert "3 pairs" in finding.sentence
    assert "nan" not in str(findings).lower()
    (gain,) = (figure for figure in section.figures if figure.id == "gain")
    assert "undefined" in gain.chart.to_dict()["title"]


def test_only_pairs_of_comparable_accuracy_are_correlated() -> None:
    part = errors(analysis_of(Runs(made(name) for name in WRONG)))  # accuracies 10 points apart
    assert part.findings == []
    assert "line" not in part.numbers


def test_predictions_alone_have_categories_but_no_gains() -> None:
    runs = Runs(
        Outputs.from_arrays(n, predictions=made(n).predictions, labels=np.zeros(20, int), classes="pq") for n in WRONG
    )
    part = errors(analysis_of(runs))
    assert [figure.id for figure in part.section.figures] == ["inconsistency", "map"]
    assert part.findings == []
    assert part.numbers["inconsistency"]["b"]["c"] == 0.5
