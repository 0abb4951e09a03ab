"""Charts of what two models' features give together ([G] Figs. 6 and 7). Altair, the data inside."""

from collections.abc import Mapping, Sequence

import altair as alt
import numpy as np
import pandas as pd

from probes.compression import Compression
from probes.statistics import mean_and_error
from zoo.errors import InputError

WIDTH, HEIGHT = 420, 280
DECIMALS = 6  # values that differ by rounding alone would have an axis of ticks like 3.0000000000000027%
TEXT_UP_TO = 12  # models in a matrix whose cells are wide enough for a number


def concatenation_chart(frame: pd.DataFrame) -> alt.LayerChart:
    """Accuracy against the share of the base's dimensions, one line per model; whiskers: one standard error over the seeds.

    `frame` is what `concatenate` gives ([G] Fig. 6, centre): the base alone at the left, the other alone at the right.
    """
    _require(frame, ["other", "rate", "accuracy"])
    table = []
    for (other, rate), values in frame.groupby(["other", "rate"], sort=False)["accuracy"]:
        mean, error = mean_and_error(values)
        error = 0.0 if np.isnan(error) else error  # one seed: no whisker
        table.append({"other": other, "rate": rate, "mean": mean, "low": mean - error, "high": mean + error})
    rates = sorted(set(frame["rate"]), reverse=True)
    data = pd.DataFrame(table).round(DECIMALS)
    data["mix"] = [_mix(rate) for rate in data["rate"]]
    x = alt.X("mix:O", sort=[_mix(rate) for rate in rates], title="% of base / % of other", axis=alt.Axis(labelAngle=0))
    colour = alt.Color("other:N", sort=list(dict.fromkeys(frame["other"])), title="with")
    chart = alt.Chart(data).encode(x=x, color=colour)
    accuracy = alt.Y("mean:Q", title="accuracy", scale=alt.Scale(zero=False), axis=alt.Axis(format="%"))
    numbers = [alt.Tooltip(f"{name}:Q", format=".4f") for name in ("mean", "low", "high")]
    lines = chart.mark_line(point=True).encode(y=accuracy, tooltip=["other:N", "mix:N", *numbers])
    whiskers = chart.mark_rule().encode(y=alt.Y("low:Q", title="accuracy"), y2="high:Q")
    return alt.layer(whiskers, lines).properties(width=WIDTH, height=HEIGHT)


def compression_chart(result: Compression | Mapping[str, Compression]) -> alt.LayerChart:
    """Accuracy against the dimensions kept, one line per result, with a rule at each target ([G] Fig. 6, right).

    A single result, or several by name.
    """
    results = {"": result} if isinstance(result, Compression) else dict(result)
    if not results:
        raise InputError("compression_chart: expected at least one result, found none")
    data = pd.concat([found.frame.assign(name=name) for name, found in results.items()]).round(DECIMALS)
    lines = (
        alt.Chart(data)
        .mark_line(point=True)
        .encode(
            x=alt.X("dimensions:Q", title="dimensions", scale=alt.Scale(zero=False)),
            y=alt.Y("accuracy:Q", title="accuracy", scale=alt.Scale(zero=False), axis=alt.Axis(format="%")),
            color=alt.Color("name:N", sort=list(results), title=None, legend=alt.Legend() if len(results) > 1 else None),
            tooltip=["name:N", "dimensions:Q", alt.Tooltip("accuracy:Q", format=".4f")],
        )
    )
    targets = pd.DataFrame({"target": sorted({found.target for found in results.values()})})
    rule = alt.Chart(targets).mark_rule(strokeDash=[4, 4], color="grey").encode(y="target:Q")
    return alt.layer(rule, lines).properties(width=WIDTH, height=HEIGHT)


def stacking_chart(frame: pd.DataFrame) -> alt.LayerChart:
    """The score of every two models together as a matrix, each alone on the diagonal; `frame` is what `stack` gives."""
    _require(frame, ["first", "second", "score", "metric"])
    names = list(dict.fromkeys(frame["first"])) + [name for name in frame["second"] if isinstance(name, str)]
    order = list(dict.fromkeys(names))
    data = frame.assign(second=frame["second"].where(frame["second"].notna(), frame["first"]))
    metric = str(frame["metric"].iloc[0])
    middle = float((frame["score"].min() + frame["score"].max()) / 2)
    base = alt.Chart(data).encode(
        x=alt.X("first:N", sort=order, title=None, axis=alt.Axis(labelAngle=-30)),
        y=alt.Y("second:N", sort=order, title=None),
    )
    cells = base.mark_rect().encode(
        color=alt.Color("score:Q", title=metric, scale=alt.Scale(scheme="viridis")),
        tooltip=["first:N", "second:N", *[alt.Tooltip(f"{n}:Q", format=".4f") for n in ("score", "gain") if n in frame]],
    )
    layers = [cells]
    if len(order) <= TEXT_UP_TO:
        light = alt.condition(alt.datum.score < middle, alt.value("white"), alt.value("black"))
        layers.append(base.mark_text().encode(text=alt.Text("score:Q", format=".3f"), color=light))
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)


def transfer_chart(frame: pd.DataFrame) -> alt.LayerChart:
    """How well each model does elsewhere against how well it does at home, one point per model ([G] Fig. 7, left).

    `frame` has `model`, `source` (accuracy on what it was trained for), `transfer` (the score of its features elsewhere)
    and, if the points are to be coloured, `group`.
    """
    _require(frame, ["model", "source", "transfer"])
    base = alt.Chart(frame.round(DECIMALS)).encode(
        x=alt.X("source:Q", title="accuracy on the original task", scale=alt.Scale(zero=False, padding=20)),
        y=alt.Y("transfer:Q", title="score on the transfer task", scale=alt.Scale(zero=False, padding=20)),
        tooltip=["model:N", alt.Tooltip("source:Q", format=".4f"), alt.Tooltip("transfer:Q", format=".4f")],
    )
    points = base.mark_point(filled=True, size=60)
    points = points.encode(color=alt.Color("group:N", title=None)) if "group" in frame else points
    names = base.mark_text(align="left", dx=7, fontSize=10).encode(text="model:N")
    return alt.layer(points, names).properties(width=WIDTH, height=HEIGHT)


def score_chart(frame: pd.DataFrame) -> alt.LayerChart:
    """The score of each model's probe as a bar, best first; `frame` is what `probe` gives."""
    _require(frame, ["model", "score", "metric"])
    base = alt.Chart(frame).encode(
        x=alt.X("score:Q", title=str(frame["metric"].iloc[0]), axis=alt.Axis(format="%")),
        y=alt.Y("model:N", sort="-x", title=None, axis=alt.Axis(labelLimit=300)),
    )
    columns = [name for name in ("dimensions", "examples", "strength", "k") if name in frame]
    bars = base.mark_bar().encode(
        tooltip=["model:N", alt.Tooltip("score:Q", format=".4f"), *[f"{name}:Q" for name in columns]]
    )
    values = base.mark_text(align="left", dx=3).encode(text=alt.Text("score:Q", format=".1%"))
    return alt.layer(bars, values).properties(width=WIDTH)


def _mix(rate: float) -> str:
    """0.75 as 75/25, the way the paper writes it."""
    return f"{100 * rate:g}/{100 * (1 - rate):g}"


def _require(frame: pd.DataFrame, columns: Sequence[str]) -> None:
    missing = [name for name in columns if name not in frame]
    if missing or not len(frame):
        found = f"no column {missing[0]!r}" if missing else "no rows"
        raise InputError(f"frame: expected columns {', '.join(columns)}, found {found}")
