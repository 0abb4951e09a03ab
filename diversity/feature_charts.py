"""Altair charts of representations, with their data embedded: CKA, separation and sparsity by layer, spectra, densities.

Figure numbers without a paper refer to Kornblith et al. 2021.
"""

from collections.abc import Mapping
from typing import Any

import altair as alt
import numpy as np
import pandas as pd

from diversity.charts import inline
from diversity.separation import METRICS
from zoo.errors import InputError

WIDTH, HEIGHT = 420, 260


def similarity_chart(frame: pd.DataFrame, title: str = "") -> alt.Chart:
    """Return a heatmap of the CKA between the layers of two networks, first layers at the bottom left (Fig. 2a).

    Unbiased estimates below 0 have the colour of 0.

    Args:
        frame: from `cka` or `MinibatchCKA.result`.
        title: the chart's title.
    """
    rows, columns = [str(name) for name in frame.index], [str(name) for name in frame.columns]
    values = frame.to_numpy(float).round(4)
    cells = pd.DataFrame(
        {"first": np.repeat(rows, len(columns)), "second": np.tile(columns, len(rows)), "cka": values.reshape(-1)}
    )
    side = max(12, min(36, 420 // max(len(rows), len(columns))))
    names = frame.index.name or "first network", frame.columns.name or "second network"
    return (
        alt.Chart(inline(cells))
        .mark_rect()
        .encode(
            x=alt.X("second:N", sort=columns, title=str(names[1])),
            y=alt.Y("first:N", sort=rows[::-1], title=str(names[0])),
            color=alt.Color("cka:Q", title="CKA", scale=alt.Scale(domain=[0, 1], scheme="magma", clamp=True)),
            tooltip=["first:N", "second:N", alt.Tooltip("cka:Q", format=".3f")],
        )
        .properties(width=alt.Step(side), height=alt.Step(side), title=title)
    )


def separation_chart(frame: pd.DataFrame) -> alt.Chart:
    """Return a chart of class separation by layer, one line per model (Fig. 4); `frame` is from `layer_separation`."""
    return _by_layer(frame, "r2", alt.Y("r2:Q", title="class separation R²"))


def metrics_chart(frame: pd.DataFrame) -> alt.Chart:
    """Return a bar chart of class separation by model and metric; `frame` has `model` and one column per metric."""
    long = frame.melt(["model"], [metric for metric in METRICS if metric in frame], "metric", "r2")
    order = list(dict.fromkeys(frame.model))
    return (
        alt.Chart(long)
        .mark_bar()
        .encode(
            x=alt.X("r2:Q", title="class separation R²", scale=alt.Scale(domain=[0, 1])),
            y=alt.Y("model:N", sort=order, title=None),
            yOffset=alt.YOffset("metric:N", sort=list(METRICS)),
            color=alt.Color("metric:N", sort=list(METRICS)),
            tooltip=["model:N", "metric:N", alt.Tooltip("r2:Q", format=".4f")],
        )
        .properties(width=WIDTH)
    )


def sparsity_chart(frame: pd.DataFrame) -> alt.Chart:
    """Return a chart of non-zero activations by layer, one line per model (Fig. 3); `frame` is from `layer_sparsity`."""
    return _by_layer(frame, "nonzero", alt.Y("nonzero:Q", title="non-zero activations", axis=alt.Axis(format="%")))


def training_chart(frame: pd.DataFrame) -> alt.Chart:
    """Return a chart of class separation over training, one colour per model and one dash per split (Fig. E.4).

    Args:
        frame: from `separation_over_training`.
    """
    return _lines(
        frame,
        x=alt.X("epoch:Q", axis=alt.Axis(tickMinStep=1)),
        y=alt.Y("r2:Q", title="class separation R²", scale=alt.Scale(zero=False)),
        strokeDash=alt.StrokeDash("split:N"),
        tooltip=["model:N", "split:N", "epoch:Q", alt.Tooltip("r2:Q", format=".4f")],
    )


def spectra_chart(frames: Mapping[str, pd.DataFrame]) -> alt.FacetChart:
    """Return a chart of singular values relative to the largest, one panel per matrix and one line per model (Fig. E.2).

    Args:
        frames: from `singular_spectra`, by model.
    """
    frame = _concat(frames)
    lines = _lines(
        frame[frame.relative > 0],  # the axis is logarithmic
        x=alt.X("index:Q", title="index", scale=alt.Scale(type="log")),
        y=alt.Y("relative:Q", title="singular value / largest", scale=alt.Scale(type="log")),
    )
    return lines.properties(width=220, height=200).facet(column=alt.Column("matrix:N", title=None))


def density_chart(frames: Mapping[str, pd.DataFrame]) -> alt.Chart:
    """Return a chart of cosine distances within classes (solid) and between classes (dashed), by model (Fig. E.3).

    Empty bins at both ends are left out.

    Args:
        frames: from `distance_densities`, by model.
    """
    frame = _concat(frames).melt(["model", "distance"], ["within", "between"], "pairs", "density")
    occupied = frame.loc[frame.density > 0, "distance"]
    frame = frame[frame.distance.between(occupied.min(), occupied.max())]
    dash = alt.Scale(domain=["within", "between"], range=[[1, 0], [4, 4]])
    distance = alt.X("distance:Q", title="cosine distance")
    return _lines(frame, x=distance, y=alt.Y("density:Q"), strokeDash=alt.StrokeDash("pairs:N", scale=dash))


def hardness_chart(frames: Mapping[str, pd.DataFrame]) -> alt.Chart:
    """Return a chart of densities of angular visual hardness, one line per model (Fig. E.1).

    Args:
        frames: `kernel_density` of `angular_visual_hardness`, by model.
    """
    hardness = alt.X("value:Q", title="angular visual hardness", scale=alt.Scale(zero=False))
    return _lines(_concat(frames), x=hardness, y=alt.Y("density:Q"))


def _by_layer(frame: pd.DataFrame, value: str, y: alt.Y) -> alt.Chart:
    """Return a chart of a value by layer, in the order in which the layers first occur."""
    order = list(dict.fromkeys(frame.layer))
    tooltip = ["model:N", "layer:N", alt.Tooltip(f"{value}:Q", format=".4f")]
    layer = alt.X("layer:N", sort=order, title=None)
    lines = _lines(frame.dropna(subset=[value]), x=layer, y=y, tooltip=tooltip).mark_line(point=True)
    return lines.properties(width=alt.Step(24) if len(order) > 16 else WIDTH)


def _lines(frame: pd.DataFrame, **encodings: Any) -> alt.Chart:
    """Return a chart with one line per model."""
    chart = alt.Chart(frame).mark_line().encode(color=_colour(frame), **encodings)
    return chart.properties(width=WIDTH, height=HEIGHT)


def _colour(frame: pd.DataFrame) -> alt.Color:
    """Return the colour of each model, in the order in which the models first occur."""
    return alt.Color("model:N", sort=list(dict.fromkeys(frame.model)))


def _concat(frames: Mapping[str, pd.DataFrame]) -> pd.DataFrame:
    if not frames:
        raise InputError(argument="frames", expected="at least one model", found=0)
    return pd.concat([frame.assign(model=name) for name, frame in frames.items()], ignore_index=True)
