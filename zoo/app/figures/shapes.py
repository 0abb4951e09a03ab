"""The kinds of Altair charts that several figures share, with their data embedded; and charts of a given size."""

import math
import re
from collections.abc import Callable
from typing import Any

import altair as alt
import pandas as pd

from diversity.charts import inline
from diversity.summary import fit_line
from zoo.errors import InputError

WIDTH, HEIGHT = 320, 240
COLUMNS = 3  # panels in a row
_PIXELS = {"": 1.0, "px": 1.0, "in": 96.0, "cm": 96 / 2.54, "mm": 96 / 25.4, "pt": 96 / 72}  # of a CSS length
_LENGTH = re.compile(r"(?P<number>\d+(?:\.\d*)?|\.\d+)\s*(?P<unit>px|in|cm|mm|pt|)\Z")
_MIN_SCALE = 0.1  # of the panels of a chart that is fitted to a width
_LEGIBLE_SCALE = 0.6  # below which panels stand in fewer columns instead
_MAX_STEPS, _TOLERANCE = 5, 0.01  # to fit a width, and the relative error that is accepted
_DATA = ("data", "datasets")  # parts of a specification that hold no layout


def dots(frame: pd.DataFrame) -> alt.FacetChart:
    """Return one panel per column, with a dot and its standard error per row, and an orange tick at the paper's value.

    Args:
        frame: columns row, column and mean, and optionally error, seeds and paper, as `by_row` returns them.
    """
    frame = frame.assign(**{name: math.nan for name in ("error", "seeds", "paper") if name not in frame})
    data = frame.assign(low=frame["mean"] - frame["error"].fillna(0), high=frame["mean"] + frame["error"].fillna(0))
    base = alt.Chart().encode(y=alt.Y("row:N", sort=list(frame["row"].unique()), title=None))
    shown = ["row:N", "column:N", *(alt.Tooltip(f"{n}:Q", format=".4g") for n in ("mean", "error", "seeds", "paper"))]
    x = alt.X("mean:Q", title=None, scale=alt.Scale(zero=False, padding=8))
    dot = base.mark_point(filled=True, size=60).encode(x=x, tooltip=shown)
    whisker = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q", title=None), x2="high:Q")
    paper = base.mark_tick(color="darkorange", thickness=3).encode(x=alt.X("paper:Q", title=None), tooltip=shown)
    drawn = alt.layer(whisker, dot, paper, data=inline(data)).properties(width=180)
    return _panels(drawn, frame, "column").resolve_scale(x="independent")


def scatter(
    frame: pd.DataFrame,
    x: str,
    y: str,
    color: str = "row",
    panel: str | None = None,
    fit: bool = True,
    label: str = "model",
    connect: str | None = None,
    named: bool = False,
) -> Any:
    """Return a point per line of the frame.

    Args:
        frame: the points.
        x: column of the horizontal axis.
        y: column of the vertical axis.
        color: column of the colour.
        panel: column with one panel per value.
        fit: whether to draw the least-squares line through all points; not with panels.
        label: column that names a point.
        connect: column; a line connects the points of each of its values.
        named: whether to print the label next to the point, or next to the last of the points with one label.
    """
    base = alt.Chart().encode(**_encoding(frame, x, y, color, label, padding=15))
    if named and color == label:
        base = base.encode(color=alt.Color(f"{color}:N", sort=list(frame[color].unique()), legend=None))
    layers: list[Any] = []
    if connect:
        layers.append(base.mark_line().encode(color=alt.value("lightgrey"), detail=f"{connect}:N"))
    layers.append(base.mark_point(filled=True, size=60))
    if named:
        last = base.properties(data=inline(frame.drop_duplicates([label, *([panel] if panel else [])], keep="last")))
        layers.append(last.mark_text(align="left", dx=7, fontSize=9).encode(text=f"{label}:N"))
    layers += [_line(frame, x, y)] if panel is None and fit and frame[x].nunique() > 1 else []
    size = {"width": 200, "height": 160} if panel else {"width": WIDTH, "height": HEIGHT}
    drawn = alt.layer(*layers, data=inline(frame)).properties(**size)
    return _panels(drawn, frame, panel).resolve_scale(x="independent", y="independent") if panel else drawn


def curves(frame: pd.DataFrame, x: str, y: str, color: str = "row", panel: str | None = None, line: str = "model") -> Any:
    """Return one line per value of `line`, through its points in the order of the frame.

    Args:
        frame: the points.
        x: column of the horizontal axis.
        y: column of the vertical axis.
        color: column of the colour.
        panel: column with one panel per value.
        line: column that says which line a point belongs to.
    """
    drawn = (
        alt.Chart(inline(frame.assign(_order=range(len(frame)))))
        .mark_line(point=alt.OverlayMarkDef(size=12))
        .encode(**_encoding(frame, x, y, color, line), detail=f"{line}:N", order="_order:Q")
        .properties(width=WIDTH, height=HEIGHT)
    )
    return _panels(drawn, frame, panel) if panel else drawn


def _encoding(frame: pd.DataFrame, x: str, y: str, color: str, label: str, padding: int = 0) -> dict[str, Any]:
    scale = alt.Scale(zero=False, padding=padding)
    return {
        "x": alt.X(f"{x}:Q", title=_words(x), scale=scale),
        "y": alt.Y(f"{y}:Q", title=_words(y), scale=scale),
        "color": alt.Color(f"{color}:N", sort=list(frame[color].unique()), title=None),
        "tooltip": [f"{label}:N", *(alt.Tooltip(f"{name}:Q", format=".4g") for name in (x, y))],
    }


def _panels(chart: Any, frame: pd.DataFrame, column: str, columns: int = COLUMNS) -> alt.FacetChart:
    """Return one panel per value of a column, in the order of the frame."""
    return chart.facet(facet=alt.Facet(f"{column}:N", sort=list(frame[column].unique()), title=None), columns=columns)


def matrices(
    frame: pd.DataFrame, panel: str, value: str, order: list[str], domain: tuple[float, float] | None = None
) -> alt.FacetChart:
    """Return heatmaps with one common colour scale, one panel per value of a column.

    Args:
        frame: columns row, other, `panel` and `value`, one line per cell.
        panel: column of the panels.
        value: column of the colour.
        order: the rows, from top to bottom and from left to right.
        domain: ends of the colour scale; default: those of the values.
    """
    side = max(10, min(26, 200 // len(order)))
    scale = alt.Scale(scheme="viridis", domain=alt.Undefined if domain is None else domain, clamp=True)
    drawn = (
        alt.Chart(inline(frame))
        .mark_rect()
        .encode(
            x=alt.X("other:N", sort=order, title=None),
            y=alt.Y("row:N", sort=order, title=None),
            color=alt.Color(f"{value}:Q", scale=scale),
            tooltip=["row:N", "other:N", f"{panel}:N", alt.Tooltip(f"{value}:Q", format=".3f")],
        )
        .properties(width=side * len(order), height=side * len(order))
    )
    return _panels(drawn, frame, panel, columns=4)


def side_by_side(*charts: Any, columns: int = COLUMNS) -> alt.ConcatChart:
    """Return charts next to each other, each with its own scales."""
    return alt.concat(*charts, columns=columns).resolve_scale(color="independent", shape="independent")


def sized(chart: alt.TopLevelMixin, width: str | float | None = None, font_size: float | None = None) -> alt.TopLevelMixin:
    """Return a chart whose whole width, with labels and legends, is the given one, for a column of a paper.

    Panels are scaled, and stand in fewer columns if they must; text is not scaled. Set the title first, since it counts.

    Args:
        chart: any chart.
        width: a CSS length such as "3.3in", "8cm" or "240px", or a number of pixels; None leaves the size as it is.
        font_size: of all text, in points (1/72 inch); None leaves it as it is.
    """
    spec: dict[str, Any] = chart.to_dict()
    if font_size is not None:
        if not font_size > 0:
            raise InputError(argument="font_size", expected="above 0", found=font_size)
        size = round(font_size * _PIXELS["pt"], 2)
        spec["config"] = _with_fonts(spec.get("config", {}), size)
        # Sizes that marks and titles of a chart set themselves, which the configuration does not change.
        spec = _changed(spec, lambda key, value: size if key == "fontSize" else value)
    if width is not None:
        spec = _fitted(spec, pixels(width))
    return alt.Chart.from_dict(spec)


def pixels(length: str | float) -> float:
    """Return a CSS length in pixels, of which an inch has 96.

    >>> pixels("3.5in"), pixels("72pt"), pixels(240)
    (336.0, 96.0, 240.0)
    """
    match = _LENGTH.match(str(length).strip().lower())
    if match is None or not float(match["number"]) > 0:
        raise InputError(argument="width", expected="a length such as 3.3in, 8cm or 240px", found=length)
    return float(match["number"]) * _PIXELS[match["unit"]]


def _fitted(spec: dict[str, Any], target: float) -> dict[str, Any]:
    """Return a specification with the given rendered width: the one with most columns of panels that are not too small.

    If panels are too small in any number of columns, they are made as large as possible.
    """
    largest, fitted, narrowest = 0.0, None, math.inf
    for columns in range(_max_columns(spec), 0, -1):
        arranged = _in_columns(spec, columns)
        scale, width = _fitting_scale(arranged, target)
        narrowest = min(narrowest, width)
        if abs(width - target) <= _TOLERANCE * target and scale > largest:
            largest, fitted = scale, _scaled(arranged, scale)
        if largest >= _LEGIBLE_SCALE:
            break
    if fitted is None:
        raise InputError(
            f"leaves no room for labels and legends: the chart takes at least {narrowest:.0f} of {target:.0f} pixels",
            argument="width",
            hint="Choose a larger {width} or a smaller {font_size}",
        )
    return dict(fitted)


def _fitting_scale(spec: dict[str, Any], target: float) -> tuple[float, float]:
    """Return the scale of the panels at which the rendered width is closest to the target, and that width.

    The width is nearly linear in the scale, since labels, legends and gaps keep their size; so a few secant steps suffice.
    """
    before, scale = 0.5, 1.0
    width_before, width = (_rendered_width(_scaled(spec, each)) for each in (before, scale))
    for _ in range(_MAX_STEPS):
        slope = (width - width_before) / (scale - before)
        following = max(_MIN_SCALE, scale + (target - width) / slope) if slope > 0 else scale
        if abs(width - target) <= _TOLERANCE * target or following == scale:
            break
        before, width_before = scale, width
        scale, width = following, _rendered_width(_scaled(spec, following))
    return scale, width


def _max_columns(spec: Any) -> int:
    parts = spec.values() if isinstance(spec, dict) else spec if isinstance(spec, list) else ()
    columns = spec.get("columns", 1) if isinstance(spec, dict) else 1
    return max([columns if isinstance(columns, int) else 1, *map(_max_columns, parts)])


def _changed(spec: Any, change: Callable[[str, Any], Any]) -> Any:
    """Return a specification with its layout changed: `change` takes key and value of each entry that is not data."""
    if isinstance(spec, list):
        return [_changed(part, change) for part in spec]
    if not isinstance(spec, dict):
        return spec
    return {key: value if key in _DATA else change(key, _changed(value, change)) for key, value in spec.items()}


def _in_columns(spec: Any, columns: int) -> Any:
    """Return a specification whose panels stand in at most this many columns."""
    return _changed(spec, lambda key, value: min(columns, value) if key == "columns" and isinstance(value, int) else value)


def _with_fonts(config: dict[str, Any], size: float) -> dict[str, Any]:
    labels = {"labelFontSize": size, "titleFontSize": size}
    text = {"axis": labels, "legend": labels, "header": labels, "title": {"fontSize": size}, "text": {"fontSize": size}}
    return config | {name: config.get(name, {}) | sizes for name, sizes in text.items()}


def _scaled(spec: Any, scale: float) -> Any:
    """Return a chart's specification with the sizes of all panels multiplied."""

    def change(key: str, value: Any) -> Any:
        if key not in ("width", "height", "continuousWidth", "continuousHeight"):
            return value
        if isinstance(value, dict) and "step" in value:
            return value | {"step": value["step"] * scale}
        return value * scale if isinstance(value, int | float) else value

    return _changed(spec, change)


def _rendered_width(spec: dict[str, Any]) -> float:
    import vl_convert

    svg = vl_convert.vegalite_to_svg(spec)
    match = re.search(r'<svg[^>]*? width="([\d.]+)"', svg)
    assert match is not None  # Vega always writes it
    return float(match[1])


def _words(name: str) -> str:
    return name.replace("_", " ")


def _line(frame: pd.DataFrame, x: str, y: str) -> alt.Chart:
    line = fit_line(frame[x], frame[y])
    ends = pd.DataFrame({x: [frame[x].min(), frame[x].max()]})
    return (
        alt.Chart(inline(ends.assign(**{y: line.slope * ends[x] + line.intercept})))
        .mark_line(color="grey", strokeDash=[4, 4])
        .encode(x=alt.X(f"{x}:Q", title=_words(x)), y=alt.Y(f"{y}:Q", title=_words(y)))
    )
