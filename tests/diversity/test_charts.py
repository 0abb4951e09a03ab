"""Charts: valid Vega-Lite that draws, with the data it should."""

import altair as alt
import numpy as np
import pandas as pd
import pytest
import vl_convert

import diversity
from diversity import charts
from zoo.calibration import fit_temperature, reliability, to_probabilities
from zoo.errors import InputError
from zoo.outputs import Outputs, Runs


def drawn(chart):
    """The SVG, which needs a valid specification and a scene without errors."""
    return vl_convert.vegalite_to_svg(chart.to_json())


def rows_of(chart):
    return [row for data in chart.to_dict()["datasets"].values() for row in data]


@pytest.fixture
def outputs():
    rng = np.random.default_rng(0)
    y = rng.integers(0, 6, 400)
    logits = rng.normal(size=(4, 400, 6)) + 1.5 * np.eye(6)[y]
    names = ("a", "b'c", "d.e", "f")
    return Runs(Outputs.from_arrays(n, logits=z, labels=y) for n, z in zip(names, logits, strict=True))


@pytest.fixture
def frame(outputs):
    frame = diversity.pair_frame(outputs)
    return frame.assign(category=["reinit", "hparam", "hparam", "arch", "dataset", None])


@pytest.mark.parametrize("measure", ["inconsistency", "conversion_rate", "gain_over_mean"])
def test_categories(frame, measure):
    chart = charts.category_chart(frame, measure)
    assert len(rows_of(chart)) == 6
    assert drawn(chart).count("reinit") >= 1


@pytest.mark.parametrize("measure", ["gain_over_mean", "ensemble_accuracy", "conversion_rate"])
def test_gain(frame, measure):
    chart = charts.gain_chart(frame, measure)
    line = diversity.regression(frame["inconsistency"], frame[measure])
    assert chart.to_dict()["title"] == f"r = {line.correlation:.2f}, 6 pairs"
    assert "<svg" in drawn(chart)
    with pytest.raises(InputError, match="measure 'nope'"):
        charts.gain_chart(frame, "nope")


def test_matrix_and_dendrogram(outputs):
    m = diversity.pairwise(outputs)
    tree = diversity.cluster(m.agreement, m.names)
    plain = charts.matrix_chart(m.matrix("agreement"), "agreement")
    assert len(rows_of(plain)) == 16
    assert "<svg" in drawn(plain)
    ordered = charts.matrix_chart(m.matrix("agreement"), "agreement", tree)
    assert ordered.to_dict()["vconcat"][1]["encoding"]["x"]["sort"] == list(tree.leaves)
    assert "<svg" in drawn(ordered)
    alone = drawn(charts.dendrogram_chart(tree))
    for name in m.names:
        assert name.replace("'", "&#39;") in alone or name in alone
    with pytest.raises(InputError, match="other models"):
        charts.matrix_chart(m.matrix("agreement"), tree=diversity.cluster(m.agreement, ["p", "q", "r", "s"]))


def test_specialization(outputs):
    comparison = diversity.compare(outputs["a"], outputs["f"])
    chart = comparison.chart()
    assert isinstance(chart, alt.FacetChart)
    assert sum(row["count"] for row in rows_of(chart) if "count" in row) == 400
    picture = drawn(chart)
    for outcome in ("both right", "only first right", "only second right", "both wrong"):
        assert outcome in picture
    by_class = charts.class_chart(comparison)
    apart = comparison.only_first + comparison.only_second
    assert sum(row["count"] for row in rows_of(by_class)) == apart
    assert "<svg" in drawn(by_class)


def test_class_chart_needs_probabilities():
    hard = [Outputs.from_arrays(n, predictions=[0, 1, 1], labels=[0, 1, 0]) for n in "ab"]
    with pytest.raises(InputError, match="needs probabilities"):
        charts.class_chart(diversity.compare(*hard))


def test_reliability(outputs):
    a = outputs["a"]
    fit = fit_temperature(a.logits, a.labels)
    both = charts.reliability_chart(fit.reliability())
    assert {row.get("when") for row in rows_of(both)} >= {"before", "after"}
    assert "<svg" in drawn(both)
    one = charts.reliability_chart(reliability(to_probabilities(a.logits), a.labels))
    assert "<svg" in drawn(one)
    assert isinstance(fit.reliability(), pd.DataFrame)
