"""The few forms that most figures have: dots with their errors, points with a line, curves. Altair, the data inside."""

from typing import Any

import altair as alt
import pandas as pd

from diversity import Line, regression
from diversity.charts import inline

WIDTH, HEIGHT = 320, 240
COLUMNS = 3  # panels in a row


def dots(frame: pd.DataFrame) -> alt.FacetChart:
    """One panel per column, a dot per row with its standard error, and a tick where the paper has its number.

    `frame` is what `by_row` makes: row, column, mean, error, paper.
    """
    data = frame.assign(low=frame["mean"] - frame["error"].fillna(0), high=frame["mean"] + frame["error"].fillna(0))
    rows, columns = (list(dict.fromkeys(frame[name])) for name in ("row", "column"))
    base = alt.Chart().encode(y=alt.Y("row:N", sort=rows, title=None))
    shown = ["row:N", "column:N", *(alt.Tooltip(f"{n}:Q", format=".4g") for n in ("mean", "error", "seeds", "paper"))]
    x = alt.X("mean:Q", title=None, scale=alt.Scale(zero=False, padding=8))
    dot = base.mark_point(filled=True, size=60).encode(x=x, tooltip=shown)
    whisker = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title=None), x2="high:Q")
    paper = base.mark_tick(color="darkorange", thickness=3).encode(x=alt.X("paper:Q", title=None), tooltip=shown)
    return (
        alt.layer(whisker, dot, paper, data=inline(data))
        .properties(width=180)
        .facet(facet=alt.Facet("column:N", sort=columns, title=None), columns=COLUMNS)
        .resolve_scale(x="independent")
    )


def scatter(
    frame: pd.DataFrame, x: str, y: str, color: str = "row", panel: str | None = None, fit: bool = True, label: str = "model"
) -> Any:
    """A point per line of the frame, with the least-squares line through all where `fit` asks for it and there is one."""
    points = (
        alt.Chart()
        .mark_point(filled=True, size=60)
        .encode(
            x=alt.X(f"{x}:Q", title=_words(x), scale=alt.Scale(zero=False, padding=15)),
            y=alt.Y(f"{y}:Q", title=_words(y), scale=alt.Scale(zero=False, padding=15)),
            color=alt.Color(f"{color}:N", sort=list(dict.fromkeys(frame[color])), title=None),
            tooltip=[f"{label}:N", *(alt.Tooltip(f"{name}:Q", format=".4g") for name in (x, y))],
        )
    )
    if panel is None:
        layers = [points, *([_line(frame, x, y)] if fit and frame[x].nunique() > 1 else [])]
        return alt.layer(*layers, data=inline(frame)).properties(width=WIDTH, height=HEIGHT)
    return (
        alt.layer(points, data=inline(frame))
        .properties(width=200, height=160)
        .facet(facet=alt.Facet(f"{panel}:N", sort=list(dict.fromkeys(frame[panel])), title=None), columns=COLUMNS)
        .resolve_scale(x="independent", y="independent")
    )


def curves(frame: pd.DataFrame, x: str, y: str, color: str = "row", panel: str | None = None, line: str = "model") -> Any:
    """A line per `line` of the frame, in the order of its rows; one panel per value of `panel`."""
    drawn = (
        alt.Chart(inline(frame.assign(_place=range(len(frame)))))
        .mark_line(point=alt.OverlayMarkDef(size=12))
        .encode(
            x=alt.X(f"{x}:Q", title=_words(x), scale=alt.Scale(zero=False)),
            y=alt.Y(f"{y}:Q", title=_words(y), scale=alt.Scale(zero=False)),
            color=alt.Color(f"{color}:N", sort=list(dict.fromkeys(frame[color])), title=None),
            detail=f"{line}:N",
            order="_place:Q",
            tooltip=[f"{line}:N", *(alt.Tooltip(f"{name}:Q", format=".4g") for name in (x, y))],
        )
        .properties(width=WIDTH, height=HEIGHT)
    )
    if panel is None:
        return drawn
    panels = list(dict.fromkeys(frame[panel]))
    return drawn.facet(facet=alt.Facet(f"{panel}:N", sort=panels, title=None), columns=COLUMNS)


def side_by_side(*charts: Any, columns: int = COLUMNS) -> alt.ConcatChart:
    """Panels that share nothing."""
    return alt.concat(*charts, columns=columns).resolve_scale(color="independent", shape="independent")


def _words(name: str) -> str:
    return name.replace("_", " ")


def _line(frame: pd.DataFrame, x: str, y: str) -> alt.Chart:
    line: Line = regression(frame[x], frame[y])
    ends = pd.DataFrame({x: [frame[x].min(), frame[x].max()]})
    return (
        alt.Chart(inline(ends.assign(**{y: line.slope * ends[x] + line.intercept})))
        .mark_line(color="grey", strokeDash=[4, 4])
        .encode(x=alt.X(f"{x}:Q", title=_words(x)), y=alt.Y(f"{y}:Q", title=_words(y)))
    )
