"""Every chart draws the numbers that it was given: the marks of the SVG say what they stand for."""

import json
import re

import altair as alt
import numpy as np
import pandas as pd
import pytest
import vl_convert
from raised import fields

from diversity.densities import distance_densities, kernel_density
from diversity.feature_charts import (
    density_chart,
    hardness_chart,
    metrics_chart,
    separation_chart,
    similarity_chart,
    sparsity_chart,
    spectra_chart,
    training_chart,
)
from diversity.spectra import singular_spectra
from zoo.errors import InputError

RNG = np.random.default_rng(0)
X, Y = RNG.normal(size=(50, 4)), RNG.integers(0, 3, 50)
LAYERS = pd.DataFrame(
    {"model": ["a", "a", "b"], "layer": ["stem", "block1", "stem"], "r2": [0.1, np.nan, 0.3], "nonzero": [0.9, 0.2, 1.0]}
)
HISTORY = pd.DataFrame({"model": "a", "split": ["train", "train"], "epoch": [1, 2], "r2": [0.2, 0.3]})
CHARTS = {
    "similarity": lambda: similarity_chart(pd.DataFrame([[1.0, -0.01], [np.nan, 0.5]], ["c1", "c2"], ["d1", "d2"]), "a, b"),
    "separation": lambda: separation_chart(LAYERS),
    "metrics": lambda: metrics_chart(pd.DataFrame({"model": ["a", "b"], "cosine": [0.3, 0.4], "euclidean": [0.2, 0.5]})),
    "sparsity": lambda: sparsity_chart(LAYERS),
    "training": lambda: training_chart(HISTORY),
    "spectra": lambda: spectra_chart({"a": singular_spectra(X, Y), "b": singular_spectra(np.zeros((3, 2)))}),
    "densities": lambda: density_chart({"a": distance_densities(X, Y, bins=20), "b": distance_densities(X + 1, Y, bins=20)}),
    "hardness": lambda: hardness_chart({"a": kernel_density(X[:, 0])}),
}


def marks(chart: alt.TopLevelMixin) -> list[dict[str, str]]:
    """What each mark of the drawing is labelled with, for readers of screens: field by field. A line has its first point."""
    svg = vl_convert.vegalite_to_svg(chart.to_json())
    assert "NaN" not in svg
    found = re.findall(r'<path aria-label="([^"]*)"', svg)
    return [dict(field.split(": ", 1) for field in label.split("; ")) for label in found]


def test_heatmap_draws_every_cell_that_has_a_value() -> None:
    cells = {(mark["first"], mark["second"]): mark["cka"] for mark in marks(CHARTS["similarity"]())}
    assert cells == {("c1", "d1"): "1.000", ("c1", "d2"): "−0.010", ("c2", "d2"): "0.500"}


@pytest.mark.parametrize(("name", "value"), [("separation", "r2"), ("sparsity", "nonzero")])
def test_layers_have_a_point_for_every_value(name: str, value: str) -> None:
    drawn = [(mark["model"], mark["layer"], float(mark[value])) for mark in marks(CHARTS[name]())]
    expected = LAYERS.dropna(subset=[value])[["model", "layer", value]].itertuples(index=False, name=None)
    lines = [("a", "stem", LAYERS[value][0]), ("b", "stem", LAYERS[value][2])]  # a line is labelled by where it begins
    assert sorted(drawn) == sorted([*expected, *lines])


def test_metrics_have_a_bar_for_each_model_and_metric() -> None:
    bars = {(mark["model"], mark["metric"]): float(mark["r2"]) for mark in marks(CHARTS["metrics"]())}
    assert bars == {("a", "cosine"): 0.3, ("b", "cosine"): 0.4, ("a", "euclidean"): 0.2, ("b", "euclidean"): 0.5}


def test_training_has_a_line_for_each_model_and_split() -> None:
    more = pd.concat([HISTORY, HISTORY.assign(split="holdout", r2=[0.15, 0.25]), HISTORY.assign(model="b", r2=[0.5, 0.6])])
    lines = {(mark["model"], mark["split"]): float(mark["r2"]) for mark in marks(training_chart(more))}
    assert lines == {("a", "train"): 0.2, ("a", "holdout"): 0.15, ("b", "train"): 0.5}


def test_spectra_leave_out_what_is_zero() -> None:
    lines = marks(CHARTS["spectra"]())
    assert [mark["model"] for mark in lines] == ["a", "a"]  # of activations and of centroids; b is nothing but zeros
    assert all(float(mark["singular value / largest"]) == 1 for mark in lines)


def test_densities_and_hardness_begin_where_their_frames_do() -> None:
    frames = {"a": distance_densities(X, Y, bins=20), "b": distance_densities(X + 1, Y, bins=20)}
    lines = {(mark["model"], mark["pairs"]): float(mark["density"]) for mark in marks(density_chart(frames))}
    for (model, pairs), value in lines.items():
        assert value == pytest.approx(frames[model][pairs].iloc[0])
    assert len(lines) == 4
    frame = kernel_density(X[:, 0])
    (line,) = marks(hardness_chart({"a": frame}))
    assert float(line["density"]) == pytest.approx(frame.density[0])


def test_heatmap_keeps_order_and_missing_values() -> None:
    spec = json.loads(CHARTS["similarity"]().to_json())
    assert spec["encoding"]["x"]["sort"] == ["d1", "d2"]
    assert spec["encoding"]["y"]["sort"] == ["c2", "c1"]
    values = {(cell["first"], cell["second"]): cell["cka"] for cell in spec["datasets"][spec["data"]["name"]]}
    assert values == {("c1", "d1"): 1.0, ("c1", "d2"): -0.01, ("c2", "d1"): None, ("c2", "d2"): 0.5}


def test_layers_keep_their_order_and_lines_skip_what_has_no_value() -> None:
    chart = separation_chart(LAYERS)
    assert isinstance(chart.data, pd.DataFrame)
    assert chart.data.layer.tolist() == ["stem", "stem"]
    assert chart.to_dict()["encoding"]["x"]["sort"] == ["stem", "block1"]


def test_empty_bins_at_both_ends_are_left_out() -> None:
    frame = distance_densities(X, Y, bins=20)
    chart = density_chart({"a": frame})
    assert isinstance(chart, alt.Chart)
    assert isinstance(chart.data, pd.DataFrame)
    assert len(chart.data) <= 2 * len(frame)
    assert chart.data.density.sum() == pytest.approx(frame.within.sum() + frame.between.sum())


def test_an_empty_chart_is_refused() -> None:
    with pytest.raises(InputError, check=fields(argument="frames")):
        density_chart({})
