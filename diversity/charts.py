"""Charts of behaviour: pairs by category, gains, agreement, specialization, reliability. Altair, the data inside.

Figures named without a paper are those of Gontijo-Lopes et al. 2021.
"""

import json
from typing import TYPE_CHECKING

import altair as alt
import numpy as np
import pandas as pd

from diversity.categories import CATEGORIES
from diversity.clustering import Dendrogram
from diversity.specialization import LIMIT, OUTCOMES
from diversity.summary import Line, regression
from zoo.errors import InputError

if TYPE_CHECKING:
    from diversity.comparison import Comparison

WIDTH, HEIGHT = 360, 260
_TITLES = {
    "inconsistency": "error inconsistency",
    "gain_over_mean": "gain over the mean member",
    "gain_over_best": "gain over the best member",
    "ensemble_accuracy": "accuracy of the ensemble",
    "conversion_rate": "conversion rate",
}


def inline(frame: pd.DataFrame) -> alt.InlineData:
    """A frame as data that a chart takes whatever its size; of frames themselves Altair draws 5,000 rows at most."""
    return alt.InlineData(values=json.loads(frame.to_json(orient="records")))


def category_chart(frame: pd.DataFrame, measure: str = "inconsistency") -> alt.LayerChart:
    """A measure of pairs by category, a dot a pair and a bar at the mean (Fig. 1); `frame`: `pair_frame`."""
    data = _with_category(frame, measure)
    x = alt.X("category:N", sort=list(CATEGORIES), title=None, axis=alt.Axis(labelAngle=0))
    base = alt.Chart(inline(data)).encode(x=x)
    pairs = base.mark_circle(opacity=0.6).encode(
        y=alt.Y(f"{measure}:Q", title=_title(measure), axis=alt.Axis(format="%")),
        color=_category_colour(),
        tooltip=["first:N", "second:N", alt.Tooltip(f"{measure}:Q", format=".2%")],
    )
    means = base.mark_tick(thickness=3, size=40, color="grey").encode(y=alt.Y(f"mean({measure}):Q"))
    return (pairs + means).properties(width=WIDTH, height=HEIGHT)


def gain_chart(frame: pd.DataFrame, measure: str = "gain_over_mean") -> alt.LayerChart:
    """A measure of the ensemble against error inconsistency, with the line through all pairs (Fig. 2).

    A dot a pair, a star the mean of a category; `frame` is what `pair_frame` gives.
    """
    data = _with_category(frame, measure)
    line = regression(frame["inconsistency"], frame[measure])
    x = alt.X("inconsistency:Q", title=_title("inconsistency"), axis=alt.Axis(format="%"), scale=alt.Scale(zero=False))
    y = alt.Y(f"{measure}:Q", title=_title(measure), axis=alt.Axis(format="%"), scale=alt.Scale(zero=False))
    pairs = (
        alt.Chart(inline(data))
        .mark_circle(opacity=0.6)
        .encode(x=x, y=y, color=_category_colour(), tooltip=["first:N", "second:N", "category:N"])
    )
    means = data.groupby("category", as_index=False)[["inconsistency", measure]].mean()
    stars = alt.Chart(means).mark_point(shape=_STAR, size=200, filled=True).encode(x=x, y=y, color=_category_colour())
    title = f"r = {line.correlation:.2f}, {line.points} pairs"
    return (_line_layer(line, frame["inconsistency"], x, y, measure) + pairs + stars).properties(
        width=WIDTH, height=HEIGHT, title=title
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
    heat = (
        alt.Chart(inline(cells))
        .mark_rect()
        .encode(
            x=alt.X("second:N", sort=order, title=None),
            y=alt.Y("first:N", sort=order, title=None),
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
    named = "datum.value == floor(datum.value) ? " + str(leaves) + "[datum.value] : ''"
    axis = alt.Axis(values=list(range(len(leaves))), labelExpr=named, labelAngle=-90, grid=False) if labels else None
    x = alt.X("x:Q", title=None, axis=axis, scale=alt.Scale(domain=[-0.5, len(leaves) - 0.5], nice=False))
    return (
        alt.Chart(segments)
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


def reliability_chart(frame: pd.DataFrame) -> alt.LayerChart:
    """Accuracy against confidence by bin; `frame`: `zoo.calibration.reliability`, or a fit's `.reliability()`."""
    data = frame[frame["count"] > 0]
    colour = [alt.Color("when:N", title=None)] if "when" in data else []
    scale = alt.Scale(domain=[0, 1])
    x, y = alt.X("confidence:Q", scale=scale), alt.Y("accuracy:Q", scale=scale)
    line = alt.Chart(data).mark_line(point=True).encode(x, y, *colour, tooltip=["confidence:Q", "accuracy:Q", "count:Q"])
    ideal = alt.Chart(pd.DataFrame({"confidence": [0, 1], "accuracy": [0, 1]})).mark_line(strokeDash=[4, 4], color="grey")
    return (ideal.encode(x, y) + line).properties(width=HEIGHT, height=HEIGHT)


_STAR = "M0,-1L0.23,-0.32L0.95,-0.31L0.37,0.12L0.59,0.81L0,0.4L-0.59,0.81L-0.37,0.12L-0.95,-0.31L-0.23,-0.32Z"


def _title(measure: str) -> str:
    return _TITLES.get(measure, measure.replace("_", " "))


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
    return alt.Chart(data).mark_line(color="grey", strokeDash=[4, 4]).encode(x=x, y=y)
