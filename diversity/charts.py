"""Altair charts of behaviour, with their data embedded: categories, gains, agreement, specialization, reliability.

Figure numbers without a paper refer to Gontijo-Lopes et al. 2021.
"""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import altair as alt
import numpy as np
import pandas as pd

from diversity._checks import whole_number
from diversity.categories import COLOURS, TITLES, UNKNOWN
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
    """Return a frame as embedded data of any size. (Altair itself limits frames to 5,000 rows.)

    Numbers get six decimals, because values that differ only by rounding would give axis ticks like 3.0000000000000027%.
    """
    return alt.InlineData(values=json.loads(frame.to_json(orient="records", double_precision=6)))


def category_colour(data: pd.DataFrame, title: str | None = None) -> alt.Color:
    """Return the colour encoding of a column `category` of category titles; a title has the same colour in every chart.

    Args:
        data: the rows of a chart; other values of `category` are grey.
        title: the legend's title.
    """
    used = set(data["category"])
    colours = {name: COLOURS[key] for key, name in TITLES.items() if name in used}
    colours = dict.fromkeys(sorted(used - set(colours)), COLOURS[UNKNOWN]) | colours
    return alt.Color("category:N", scale=alt.Scale(domain=list(colours), range=list(colours.values())), title=title)


def category_chart(frame: pd.DataFrame, measure: str = "inconsistency") -> alt.LayerChart:
    """Return a chart of a measure by training category, with a dot per pair and a bar at the mean (Fig. 1).

    Args:
        frame: the pairs, from `pair_frame`.
        measure: a column of the frame.
    """
    data = _with_category(frame, measure)
    x = alt.X("category:N", sort=list(TITLES.values()), title=None, axis=alt.Axis(labelAngle=0))
    base = alt.Chart(inline(data)).encode(x=x)
    pairs = base.mark_circle(opacity=0.6).encode(
        y=_axis(alt.Y, measure, alt.Undefined),
        color=category_colour(data),
        tooltip=["first:N", "second:N", alt.Tooltip(f"{measure}:Q", format=".2%" if _is_fraction(measure) else ".4f")],
    )
    means = base.mark_tick(thickness=3, size=40, color="grey").encode(y=alt.Y(f"mean({measure}):Q"))
    return (pairs + means).properties(width=WIDTH, height=HEIGHT)


def gain_chart(
    frame: pd.DataFrame, measure: str = "gain_over_mean", groups: Mapping[str, str] | None = None
) -> alt.LayerChart:
    """Return a chart of a measure of the ensemble against error inconsistency (Fig. 2).

    It has a dot per pair, a star at the mean of each category, and the least-squares line. If the frame marks pairs of
    comparable accuracy, stars and line use only these pairs (unless they are too few for a line), and other dots are faint.

    Args:
        frame: the pairs, from `pair_frame`.
        measure: a column of the frame.
        groups: a group for each model name, as in `regression`.
    """
    data = _with_category(frame, measure)
    used = np.ones(len(frame), bool)
    if "comparable" in frame and frame["inconsistency"][frame["comparable"]].round(9).nunique() > 1:
        used = frame["comparable"].to_numpy(bool)
    kind = "pairs" if used.all() else f"of {len(frame)} pairs, of comparable accuracy"
    line = regression(frame[used], y=measure, groups=groups, comparable_only=False)
    x = _axis(alt.X, "inconsistency", alt.Scale(zero=False))
    y = _axis(alt.Y, measure, alt.Scale(zero=False))
    pairs = (
        alt.Chart(inline(data.assign(opacity=np.where(used, 0.6, 0.15))))
        .mark_circle()
        .encode(
            x=x,
            y=y,
            color=category_colour(data),
            opacity=alt.Opacity("opacity:Q", scale=None),
            tooltip=["first:N", "second:N", "category:N"],
        )
    )
    means = data[used].groupby("category", as_index=False)[["inconsistency", measure]].mean()
    stars = (
        alt.Chart(inline(means))
        .mark_point(shape=_STAR, size=250, filled=True, opacity=1, stroke="black", strokeWidth=1)
        .encode(x=x, y=y, color=category_colour(data))
    )
    return (_line_layer(line, frame["inconsistency"][used], x, y, measure) + pairs + stars).properties(
        width=WIDTH, height=HEIGHT, title=f"{line}{_interval(line)}, {line.points} {kind}"
    )


def matrix_chart(matrix: pd.DataFrame, title: str = "", tree: Dendrogram | None = None) -> alt.Chart | alt.VConcatChart:
    """Return a heatmap of a measure of all pairs (Kornblith et al. 2021, Figs C.4 and C.5).

    Args:
        matrix: from `Pairwise.matrix`.
        title: the title of the chart and of its colour scale.
        tree: a dendrogram of the same models, which is drawn above and orders them.
    """
    names = [str(name) for name in matrix.index]
    order = list(tree.leaves) if tree is not None else names
    if sorted(order) != sorted(names):
        raise InputError("the dendrogram and the matrix are of different models", argument="tree")
    cells = pd.DataFrame(
        {
            "first": np.repeat(names, len(names)),
            "second": np.tile(names, len(names)),
            "value": matrix.to_numpy(float).round(4).reshape(-1),
        }
    )
    side = max(8, min(36, 480 // len(names)))
    shared = shared_ending(names)  # left out of the labels
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
    """Return a chart of a dendrogram, with the leaves at the bottom and the distance of merged clusters as height.

    Args:
        tree: from `cluster`.
        width: in pixels; default: by the number of leaves.
        labels: whether to print the leaves' names.
    """
    leaves = list(tree.leaves)
    segments = tree.segments()
    label = "datum.value == floor(datum.value) ? " + json.dumps(leaves) + "[datum.value] : ''"
    axis = alt.Axis(values=list(range(len(leaves))), labelExpr=label, labelAngle=-90, grid=False) if labels else None
    x = alt.X("x:Q", title=None, axis=axis, scale=alt.Scale(domain=[-0.5, len(leaves) - 0.5], nice=False))
    return (
        alt.Chart(inline(segments))
        .mark_rule()
        .encode(x=x, x2="x2:Q", y=alt.Y("y:Q", title="distance"), y2="y2:Q")
        .properties(width=width or max(WIDTH, 18 * len(leaves)), height=120)
    )


def theta_chart(comparison: "Comparison", bins: int = 40) -> alt.FacetChart:
    """Return histograms of the specialization angle by outcome, with the edges of the prevalence band (Fig. 3)."""
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
        .properties(title=alt.Title(_more_confident(comparison), fontSize=11))
        .resolve_scale(y="independent")
    )


def joint_theta_chart(frame: pd.DataFrame) -> alt.FacetChart:
    """Return histograms of the specialization angle for several pairs, one row each; `frame` is from `joint_histogram`."""
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
    """Return a heatmap of angle by class, of the examples that exactly one model classifies correctly (Fig. 4)."""
    whole_number(bins, "bins")
    rows = comparison.rows
    if rows.theta is None:
        raise InputError("specialization angles need probabilities, and only predictions were compared")
    inconsistent = (rows.first == rows.labels) != (rows.second == rows.labels)
    classes = len(comparison.classes)
    counts, class_edges, edges = np.histogram2d(
        rows.labels[inconsistent],
        rows.theta[inconsistent],
        [min(classes, bins), bins],
        [[-0.5, classes - 0.5], [-LIMIT, LIMIT]],
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
            y=alt.Y("low:Q", title=f"θ  (upwards: {comparison.names[0]} more confident)", scale=_angles()),
            y2="high:Q",
            color=alt.Color("count:Q", title="examples", scale=alt.Scale(scheme="viridis")),
            tooltip=["class:Q", alt.Tooltip("low:Q", format=".2f"), "count:Q"],
        )
        .properties(width=WIDTH, height=HEIGHT)
    )


def reliability_chart(frame: pd.DataFrame, min_count: int = 1) -> alt.LayerChart | alt.FacetChart:
    """Return a reliability diagram: accuracy against confidence. The diagonal is perfect calibration.

    Args:
        frame: from `zoo.calibration.reliability`, or a fit's `.reliability()`, whose column `when` (before, after) sets the
            colour. A column `model` gives one panel per model.
        min_count: leave out bins of fewer examples.
    """
    data = frame[frame["count"] >= min_count]
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
    diagonal = (  # one line per panel
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


def _interval(line: Line) -> str:
    low, high = line.interval
    return "" if np.isnan(low) else f" (95% CI {low:.2f} to {high:.2f})"


def _more_confident(comparison: "Comparison") -> str:
    return f"← {comparison.names[1]} more confident · {comparison.names[0]} more confident →"


def _is_fraction(measure: str) -> bool:
    return measure not in MEASURES or MEASURES[measure].unit == "share"


def _axis(channel: Any, measure: str, scale: Any) -> Any:
    """Return the encoding of a measure along an axis, with its title and unit."""
    axis = alt.Axis(format="%") if _is_fraction(measure) else alt.Axis()
    return channel(f"{measure}:Q", title=title(measure), axis=axis, scale=scale)


def _angles() -> alt.Scale:
    return alt.Scale(domain=[-LIMIT, LIMIT], nice=False)


def _with_category(frame: pd.DataFrame, measure: str) -> pd.DataFrame:
    if measure not in frame:
        raise InputError(argument="measure", expected=f"a column of the frame: {', '.join(frame.columns)}", found=measure)
    columns = ["first", "second", "category", *dict.fromkeys(["inconsistency", measure])]
    return frame[columns].assign(category=frame["category"].fillna(UNKNOWN).map(TITLES))


def _line_layer(line: Line, x_values: pd.Series, x: alt.X, y: alt.Y, measure: str) -> alt.Chart:
    ends = np.array([x_values.min(), x_values.max()])
    data = pd.DataFrame({"inconsistency": ends, measure: line.slope * ends + line.intercept})
    return alt.Chart(inline(data)).mark_line(color="grey", strokeDash=[4, 4]).encode(x=x, y=y)
