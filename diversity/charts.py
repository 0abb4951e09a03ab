"""Charts of behaviour: pairs by category, gains, agreement, specialization, reliability. Altair, the data inside.

Figures named without a paper are those of Gontijo-Lopes et al. 2021.
"""

import json
from typing import TYPE_CHECKING, Any

import altair as alt
import numpy as np
import pandas as pd

from diversity.categories import CATEGORIES
from diversity.clustering import Dendrogram
from diversity.measures import MEASURES, title
from diversity.specialization import LIMIT, OUTCOMES
from diversity.summary import Line, regression
from zoo.cards.names import shared_ending
from zoo.errors import InputError

if TYPE_CHECKING:
    from diversity.comparison import Comparison

WIDTH, HEIGHT = 360, 260
BEFORE, AFTER = "#9aa5b1", "#0b7fb0"


def inline(frame: pd.DataFrame) -> alt.InlineData:
    """A frame as data that a chart takes whatever its size; of frames themselves Altair draws 5,000 rows at most.

    Numbers have six decimals: values that differ by rounding alone would have an axis of ticks like 3.0000000000000027%.
    """
    return alt.InlineData(values=json.loads(frame.to_json(orient="records", double_precision=6)))


def category_chart(frame: pd.DataFrame, measure: str = "inconsistency") -> alt.LayerChart:
    """A measure of pairs by category, one dot per pair and a bar at the mean (Fig. 1); `frame`: `pair_frame`."""
    data = _with_category(frame, measure)
    x = alt.X("category:N", sort=list(CATEGORIES), title=None, axis=alt.Axis(labelAngle=0))
    base = alt.Chart(inline(data)).encode(x=x)
    pairs = base.mark_circle(opacity=0.6).encode(
        y=_measured(alt.Y, measure, alt.Undefined),
        color=_category_colour(),
        tooltip=["first:N", "second:N", alt.Tooltip(f"{measure}:Q", format=".2%" if _is_share(measure) else ".4f")],
    )
    means = base.mark_tick(thickness=3, size=40, color="grey").encode(y=alt.Y(f"mean({measure}):Q"))
    return (pairs + means).properties(width=WIDTH, height=HEIGHT)


def gain_chart(frame: pd.DataFrame, measure: str = "gain_over_mean") -> alt.LayerChart:
    """A measure of the ensemble against error inconsistency, with the line through all pairs (Fig. 2).

    One dot per pair, one star for the mean of each category; `frame` is what `pair_frame` gives.
    """
    data = _with_category(frame, measure)
    line = regression(frame["inconsistency"], frame[measure])
    x = _measured(alt.X, "inconsistency", alt.Scale(zero=False))
    y = _measured(alt.Y, measure, alt.Scale(zero=False))
    pairs = (
        alt.Chart(inline(data))
        .mark_circle(opacity=0.6)
        .encode(x=x, y=y, color=_category_colour(), tooltip=["first:N", "second:N", "category:N"])
    )
    means = data.groupby("category", as_index=False)[["inconsistency", measure]].mean()
    stars = (
        alt.Chart(inline(means)).mark_point(shape=_STAR, size=200, filled=True).encode(x=x, y=y, color=_category_colour())
    )
    return (_line_layer(line, frame["inconsistency"], x, y, measure) + pairs + stars).properties(
        width=WIDTH, height=HEIGHT, title=f"{line}, {line.points} pairs"
    )


def matrix_chart(matrix: pd.DataFrame, title: str = "", tree: Dendrogram | None = None) -> alt.Chart | alt.VConcatChart:
    """A matrix of pairs as a heatmap, its models in the order of the dendrogram where one is given (Kornblith et al. 2021,
    Figs C.4 and C.5).

    `matrix` is what `Pairwise.matrix` gives.
    """
    names = [str(name) for name in matrix.index]
    order = list(tree.leaves) if tree is not None else names
    if sorted(order) != sorted(names):
        raise InputError("matrix_chart: the dendrogram is of other models than the matrix")
    cells = pd.DataFrame(
        {
            "first": np.repeat(names, len(names)),
            "second": np.tile(names, len(names)),
            "value": matrix.to_numpy(float).round(4).reshape(-1),
        }
    )
    side = max(8, min(36, 480 // len(names)))
    shared = shared_ending(names)  # what all names end in tells no two of them apart
    axis = alt.Axis(labelExpr=f"slice(datum.label, 0, -{len(shared)})") if shared else alt.Axis()
    heat = (
        alt.Chart(inline(cells))
        .mark_rect()
        .encode(
            x=alt.X("second:N", sort=order, title=None, axis=axis),
            y=alt.Y("first:N", sort=order, title=None, axis=axis),
            color=alt.Color("value:Q", title=title or None, scale=alt.Scale(scheme="viridis")),
            tooltip=["first:N", "second:N", alt.Tooltip("value:Q", format=".4f")],
        )
        .properties(width=side * len(names), height=side * len(names), title=title)
    )
    if tree is None:
        return heat
    return alt.vconcat(dendrogram_chart(tree, side * len(names), labels=False), heat, spacing=4)


def dendrogram_chart(tree: Dendrogram, width: int | None = None, labels: bool = True) -> alt.Chart:
    """The tree of `cluster`, leaves along the bottom, the distance at which groups join upwards."""
    leaves = list(tree.leaves)
    segments = tree.segments()
    named = "datum.value == floor(datum.value) ? " + json.dumps(leaves) + "[datum.value] : ''"
    axis = alt.Axis(values=list(range(len(leaves))), labelExpr=named, labelAngle=-90, grid=False) if labels else None
    x = alt.X("x:Q", title=None, axis=axis, scale=alt.Scale(domain=[-0.5, len(leaves) - 0.5], nice=False))
    return (
        alt.Chart(inline(segments))
        .mark_rule()
        .encode(x=x, x2="x2:Q", y=alt.Y("y:Q", title="distance"), y2="y2:Q")
        .properties(width=width or max(WIDTH, 18 * len(leaves)), height=120)
    )


def theta_chart(comparison: "Comparison", bins: int = 40) -> alt.FacetChart:
    """Histograms of the specialization angle by outcome, with the edges of the prevalence band (Fig. 3)."""
    data = comparison.histogram(bins)
    band = comparison.band
    edges = [] if band is None else [edge for edge in (band.lower, band.upper) if edge is not None]
    x = alt.X("low:Q", bin="binned", title="θ", scale=_angles())
    bars = alt.Chart().mark_bar().encode(
        x=x, x2="high:Q", y=alt.Y("count:Q", title="examples"), color=alt.Color("outcome:N", legend=None),
        tooltip=["outcome:N", alt.Tooltip("low:Q", format=".2f"), alt.Tooltip("high:Q", format=".2f"), "count:Q"],
    )  # fmt: skip
    lines = [alt.Chart().mark_rule(strokeDash=[3, 3], opacity=0.6).encode(x=alt.datum(edge)) for edge in edges]
    return (
        alt.layer(bars, *lines, data=data)
        .properties(width=170, height=130)
        .facet(facet=alt.Facet("outcome:N", sort=list(OUTCOMES), title=None), columns=2)
        .properties(title=alt.Title(f"← {comparison.names[1]} surer · {comparison.names[0]} surer →", fontSize=11))
        .resolve_scale(y="independent")
    )


def joint_theta_chart(frame: pd.DataFrame) -> alt.FacetChart:
    """The same of several pairs on one population, one row per pair; `frame` is what `joint_histogram` gives."""
    return (
        alt.Chart(frame)
        .mark_bar()
        .encode(
            x=alt.X("low:Q", bin="binned", title="θ", scale=_angles()),
            x2="high:Q",
            y=alt.Y("count:Q", title="examples"),
            color=alt.Color("outcome:N", legend=None),
            tooltip=["pair:N", "outcome:N", alt.Tooltip("low:Q", format=".2f"), "count:Q"],
        )
        .properties(width=120, height=100)
        .facet(
            row=alt.Row("pair:N", sort=list(dict.fromkeys(frame["pair"])), title=None),
            column=alt.Column("outcome:N", sort=list(OUTCOMES), title=None),
        )
    )


def class_chart(comparison: "Comparison", bins: int = 40) -> alt.Chart:
    """The angle by class as a heatmap of the examples that exactly one model gets right (Fig. 4)."""
    rows = comparison.rows
    if rows.theta is None:
        raise InputError("class_chart: the angle needs probabilities, and only predictions were compared")
    apart = (rows.first == rows.labels) != (rows.second == rows.labels)
    classes = len(comparison.classes)
    counts, class_edges, edges = np.histogram2d(
        rows.labels[apart], rows.theta[apart], [min(classes, bins), bins], [[-0.5, classes - 0.5], [-LIMIT, LIMIT]]
    )
    i, j = np.nonzero(counts)
    data = pd.DataFrame(
        {
            "class": class_edges[i], "class_end": class_edges[i + 1],
            "low": edges[j], "high": edges[j + 1], "count": counts[i, j].astype(int),
        }
    )  # fmt: skip
    return (
        alt.Chart(data)
        .mark_rect()
        .encode(
            x=alt.X("class:Q", title="class", scale=alt.Scale(domain=[-0.5, classes - 0.5], nice=False)),
            x2="class_end:Q",
            y=alt.Y("low:Q", title=f"θ  ({comparison.names[0]} surer upwards)", scale=_angles()),
            y2="high:Q",
            color=alt.Color("count:Q", title="examples", scale=alt.Scale(scheme="viridis")),
            tooltip=["class:Q", alt.Tooltip("low:Q", format=".2f"), "count:Q"],
        )
        .properties(width=WIDTH, height=HEIGHT)
    )


def reliability_chart(frame: pd.DataFrame, fewest: int = 1) -> alt.LayerChart | alt.FacetChart:
    """Accuracy against confidence, by bins of at least `fewest` examples; a diagonal where a model is right as it says.

    `frame`: `zoo.calibration.reliability`, or a fit's `.reliability()`, which has a colour for each `when`; a column `model`
    gives one panel per model.
    """
    data = frame[frame["count"] >= fewest]
    data = data if "model" in frame else data.assign(model="")
    scale, axis = alt.Scale(domain=[0, 1]), alt.Axis(format="%", tickCount=3)
    base = alt.Chart().encode(
        x=alt.X("confidence:Q", scale=scale, axis=axis, title="confidence"),
        y=alt.Y("accuracy:Q", scale=scale, axis=axis, title="accuracy"),
        tooltip=[alt.Tooltip("confidence:Q", format=".1%"), alt.Tooltip("accuracy:Q", format=".1%"), "count:Q"],
    )
    if "when" in data:
        colours = alt.Scale(domain=["before", "after"], range=[BEFORE, AFTER])
        base = base.encode(color=alt.Color("when:N", scale=colours, title=None))
    diagonal = (  # one of all rows of a panel
        alt.Chart()
        .transform_aggregate(groupby=["model"])
        .transform_calculate(low="0", high="1")
        .mark_rule(strokeDash=[3, 3], opacity=0.6)
        .encode(x="low:Q", x2="high:Q", y="low:Q", y2="high:Q")
    )
    layers = alt.layer(base.mark_line(), base.mark_point(filled=True, size=22), diagonal, data=inline(data))
    if "model" not in frame:
        return layers.properties(width=HEIGHT, height=HEIGHT)
    return layers.properties(width=150, height=150).facet(facet=alt.Facet("model:N", title=None), columns=5)


_STAR = "M0,-1L0.23,-0.32L0.95,-0.31L0.37,0.12L0.59,0.81L0,0.4L-0.59,0.81L-0.37,0.12L-0.95,-0.31L-0.23,-0.32Z"


def _is_share(measure: str) -> bool:
    return measure not in MEASURES or MEASURES[measure].unit == "share"


def _measured(channel: Any, measure: str, scale: Any) -> Any:
    """A measure along an axis, by its title and in its unit."""
    axis = alt.Axis(format="%") if _is_share(measure) else alt.Axis()
    return channel(f"{measure}:Q", title=title(measure), axis=axis, scale=scale)


def _angles() -> alt.Scale:
    return alt.Scale(domain=[-LIMIT, LIMIT], nice=False)


def _category_colour() -> alt.Color:
    return alt.Color("category:N", sort=list(CATEGORIES), title=None)


def _with_category(frame: pd.DataFrame, measure: str) -> pd.DataFrame:
    if measure not in frame:
        raise InputError(f"measure {measure!r}: expected a column of the pairs, one of {', '.join(frame.columns)}")
    columns = ["first", "second", "category", *dict.fromkeys(["inconsistency", measure])]
    return frame[columns].assign(category=frame["category"].fillna("unknown"))


def _line_layer(line: Line, x_values: pd.Series, x: alt.X, y: alt.Y, measure: str) -> alt.Chart:
    ends = np.array([x_values.min(), x_values.max()])
    data = pd.DataFrame({"inconsistency": ends, measure: line.slope * ends + line.intercept})
    return alt.Chart(inline(data)).mark_line(color="grey", strokeDash=[4, 4]).encode(x=x, y=y)
