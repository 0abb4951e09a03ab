"""Altair charts of probes (Gontijo-Lopes et al. 2022, Figs. 6 and 7), with their data embedded."""

from collections.abc import Mapping, Sequence

import altair as alt
import numpy as np
import pandas as pd

from probes.compression import Compression
from probes.statistics import mean_and_error
from zoo.errors import InputError

WIDTH, HEIGHT = 420, 280
DECIMALS = 6  # values that differ by rounding error would get axis ticks like 3.0000000000000027%
MAX_WITH_TEXT = 12  # models in a matrix whose cells are wide enough for a number


def concatenation_chart(frame: pd.DataFrame) -> alt.LayerChart:
    """Draw accuracy against the fraction of the base's dimensions, one line per other model (Fig. 6, centre).

    The base alone is at the left, the other model alone at the right. Whiskers are one standard error over the seeds.

    Args:
        frame: the result of `concatenate`.
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
    """Draw accuracy against the number of dimensions, one line per result, with a rule at each target (Fig. 6, right).

    Args:
        result: the result of `compress`, or several by name.
    """
    results = {"": result} if isinstance(result, Compression) else dict(result)
    if not results:
        raise InputError(argument="result", expected="at least one result", found=0)
    data = pd.concat([part.frame.assign(name=name) for name, part in results.items()]).round(DECIMALS)
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
    targets = pd.DataFrame({"target": sorted({part.target for part in results.values()})})
    rule = alt.Chart(targets).mark_rule(strokeDash=[4, 4], color="grey").encode(y="target:Q")
    return alt.layer(rule, lines).properties(width=WIDTH, height=HEIGHT)


def stacking_chart(frame: pd.DataFrame) -> alt.LayerChart:
    """Draw the score of every pair of models as a matrix, with single models on the diagonal.

    Args:
        frame: the result of `stack`.
    """
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
    if len(order) <= MAX_WITH_TEXT:
        light = alt.condition(alt.datum.score < middle, alt.value("white"), alt.value("black"))
        layers.append(base.mark_text().encode(text=alt.Text("score:Q", format=".3f"), color=light))
    return alt.layer(*layers).properties(width=WIDTH, height=HEIGHT)


def score_chart(frame: pd.DataFrame) -> alt.LayerChart:
    """Draw the score of each model's probe as a bar, best first.

    Args:
        frame: the result of `probe`.
    """
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
    """Return a rate as the paper writes it: 75/25 for 0.75."""
    return f"{100 * rate:g}/{100 * (1 - rate):g}"


def _require(frame: pd.DataFrame, columns: Sequence[str]) -> None:
    missing = [name for name in columns if name not in frame]
    if missing or not len(frame):
        problem = f"has no column {missing[0]!r}" if missing else "has no rows"
        raise InputError(problem, argument="frame", hint=f"It needs columns {', '.join(columns)}")
