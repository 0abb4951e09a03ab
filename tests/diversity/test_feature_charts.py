"""Every chart is valid Vega-Lite that renders, with the data it was given inside."""

import json

import altair as alt
import numpy as np
import pandas as pd
import pytest
import vl_convert

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


@pytest.mark.parametrize("name", CHARTS)
def test_renders(name: str) -> None:
    chart = CHARTS[name]()
    svg = vl_convert.vegalite_to_svg(chart.to_json())
    assert svg.startswith("<svg")
    assert "NaN" not in svg


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


def test_densities_are_cut_to_where_pairs_are() -> None:
    frame = distance_densities(X, Y, bins=20)
    chart = density_chart({"a": frame})
    assert isinstance(chart, alt.Chart)
    assert isinstance(chart.data, pd.DataFrame)
    assert len(chart.data) <= 2 * len(frame)
    assert chart.data.density.sum() == pytest.approx(frame.within.sum() + frame.between.sum())


def test_nothing_to_draw_is_said() -> None:
    with pytest.raises(InputError, match="at least one model"):
        density_chart({})
