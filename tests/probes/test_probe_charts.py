"""Every chart draws its numbers, legibly."""

import json
import re

import altair as alt
import numpy as np
import pandas as pd
import pytest
import vl_convert
from raised import fields

from probes.compression import Compression
from probes.probe_charts import compression_chart, concatenation_chart, score_chart, stacking_chart
from zoo.errors import InputError

CONCATENATED = pd.DataFrame(
    {
        "other": ["b"] * 4 + ["c"] * 2,
        "rate": [1.0, 1.0, 0.25, 0.25, 1.0, 0.25],
        "seed": [0, 1, 0, 1, 0, 0],
        "accuracy": [0.7, 0.7, 0.72, 0.76, 0.7, 0.8],
    }
)
ORDER = pd.DataFrame({"index": [0], "model": ["a"], "dimension": [0], "redundancy": [0.0]})
RESULT = Compression(pd.DataFrame({"dimensions": [256, 512], "accuracy": [0.7, 0.77]}), ORDER, 0.76)
STACKED = pd.DataFrame(
    {
        "first": ["a", "b", "a"],
        "second": [None, None, "b"],
        "dimensions": [4, 4, 8],
        "metric": "accuracy",
        "score": [0.6, 0.7, 0.8],
        "gain": [np.nan, np.nan, 0.1],
    }
)
CHARTS = {
    "concatenation": lambda: concatenation_chart(CONCATENATED),
    "compression": lambda: compression_chart(RESULT),
    "compressions": lambda: compression_chart({"seeds": RESULT, "datasets": RESULT}),
    "stacking": lambda: stacking_chart(STACKED),
}


def values(chart: alt.LayerChart) -> list[dict]:
    """Return all rows of data inside the chart."""
    return [row for rows in chart.to_dict()["datasets"].values() for row in rows]


def drawn(chart: alt.LayerChart) -> str:
    """Return the SVG of the chart, after checking its specification."""
    svg = vl_convert.vegalite_to_svg(json.dumps(chart.to_dict(validate=True)))
    assert "NaN" not in svg
    return svg


def marks(chart: alt.LayerChart) -> list[dict[str, str]]:
    """Return the fields of each mark's label."""
    found = re.findall(r'<(?:path|text) aria-label="([^"]*)"', drawn(chart))
    return [dict(field.split(": ", 1) for field in label.split("; ")) for label in found]


def test_concatenation_draws_a_point_for_each_model_and_rate() -> None:
    points = {(mark["other"], mark["mix"]): mark["mean"] for mark in marks(CHARTS["concatenation"]()) if "other" in mark}
    assert points == {("b", "100/0"): "0.7000", ("b", "25/75"): "0.7400", ("c", "100/0"): "0.7000", ("c", "25/75"): "0.8000"}


@pytest.mark.parametrize(("name", "expected"), [("compression", [""]), ("compressions", ["seeds", "datasets"])])
def test_compression_draws_each_result(name: str, expected: list[str]) -> None:
    points = {(mark["name"], mark["dimensions"], mark["accuracy"]) for mark in marks(CHARTS[name]()) if "name" in mark}
    assert points == {
        (result, *numbers) for result in expected for numbers in (("256", "70.000000%"), ("512", "77.000000%"))
    }


def test_stacking_draws_each_value() -> None:
    cells = {(mark["first"], mark["second"]): mark["score"] for mark in marks(CHARTS["stacking"]()) if "gain" in mark}
    assert cells == {("a", "a"): "0.6000", ("b", "b"): "0.7000", ("a", "b"): "0.8000"}


def test_ticks_are_short_if_scores_differ_by_rounding_only() -> None:
    same = CONCATENATED.assign(accuracy=0.7 + np.arange(6) * 1e-16)
    labels = re.findall(r">([\d.]+%)<", drawn(concatenation_chart(same)))
    assert labels
    assert all(len(label) <= 5 for label in labels)


def test_concatenation_shows_means_and_standard_errors() -> None:
    rows = {(row["other"], row["mix"]): row for row in values(concatenation_chart(CONCATENATED))}
    assert len(rows) == 4
    quarter = rows["b", "25/75"]
    assert quarter["mean"] == pytest.approx(0.74)
    error = np.std([0.72, 0.76], ddof=1) / np.sqrt(2)
    assert (quarter["high"] - quarter["mean"], quarter["mean"] - quarter["low"]) == pytest.approx((error, error))
    single = rows["c", "25/75"]
    assert single["low"] == single["mean"] == single["high"] == 0.8


def test_concatenation_runs_from_the_base_alone_to_the_other_alone() -> None:
    encoding = concatenation_chart(CONCATENATED.iloc[::-1]).to_dict()["layer"][0]["encoding"]
    assert encoding["x"]["sort"] == ["100/0", "25/75"]


def test_compression_has_its_target_and_no_legend_for_one() -> None:
    both = CHARTS["compressions"]()
    assert {"target": 0.76} in values(both)
    assert [row["accuracy"] for row in values(both) if row.get("name") == "datasets"] == [0.7, 0.77]
    legends = [chart.to_dict()["layer"][1]["encoding"]["color"]["legend"] for chart in (CHARTS["compression"](), both)]
    assert legends[0] is None
    assert legends[1] is not None


def test_stacking_has_single_models_on_the_diagonal_and_numbers_if_they_fit() -> None:
    cells = {(row["first"], row["second"]): row["score"] for row in values(stacking_chart(STACKED))}
    assert cells == {("a", "a"): 0.6, ("b", "b"): 0.7, ("a", "b"): 0.8}
    many = pd.DataFrame({"first": [f"m{k}" for k in range(13)], "second": None, "metric": "accuracy", "score": 0.5})
    assert [len(stacking_chart(frame).layer) for frame in (STACKED, many)] == [2, 1]


@pytest.mark.parametrize(
    ("draw", "error"),
    [
        (lambda: concatenation_chart(CONCATENATED.drop(columns="rate")), {"argument": "frame", "problem": "rate"}),
        (lambda: stacking_chart(STACKED[:0]), {"argument": "frame", "problem": "rows", "hint": "first, second, score"}),
        (lambda: score_chart(STACKED), {"argument": "frame", "problem": "model"}),
        (lambda: compression_chart({}), {"argument": "result", "found": 0}),
    ],
)
def test_bad_input_is_named(draw, error: dict) -> None:
    with pytest.raises(InputError, check=fields(**error)):
        draw()
