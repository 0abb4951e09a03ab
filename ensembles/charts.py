"""Altair charts of ensembles, with their data embedded: paths of greedy searches, Pareto fronts of cost and score."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import altair as alt
import pandas as pd

from diversity.categories import TITLES, UNKNOWN
from diversity.charts import category_colour

if TYPE_CHECKING:
    from ensembles.path import Path


def path_chart(paths: "Path | Sequence[Path] | Mapping[str, Path]") -> alt.LayerChart:
    """Return a chart of the score against the number of members (Gontijo-Lopes et al. 2021, Fig. 5 left).

    Solid lines are the test split, dashed lines the selection split that chose the members. Every point names the model that
    was added; a ring marks the best ensemble. Points of a single path are coloured by what differs in training.

    Args:
        paths: one path or several, which are named after their first member; or paths by name.
    """
    named = _by_name(paths)
    frame = pd.concat([_long_frame(name, path) for name, path in named.items()], ignore_index=True)
    objective = next(iter(named.values())).objective
    axis = alt.Axis(format="%") if objective.endswith("accuracy") else alt.Axis()
    base = alt.Chart(frame).encode(
        x=alt.X("members:Q", title="members", axis=alt.Axis(tickMinStep=1)),
        y=alt.Y("score:Q", title=objective, axis=axis, scale=alt.Scale(zero=False)),
    )
    start, line, point = {}, {"color": "grey"}, {"color": category_colour(frame, "differs in")}
    if len(named) > 1:
        start = {"color": alt.Color("start:N", title="starts from")}
        line, point = {}, start | {"shape": alt.Shape("category:N", title="differs in")}
    dash = alt.StrokeDash("split:N", title="split", scale=alt.Scale(domain=["test", "selection"], range=[[1, 0], [4, 4]]))
    tooltip = ["start", "split", "members", "model", "category", alt.Tooltip("score:Q", format=".4f")]
    lines = base.mark_line(**line).encode(strokeDash=dash, **start)
    points = base.mark_point(filled=True, size=60, opacity=1).encode(tooltip=tooltip, **point)
    rings = (
        base.transform_filter("datum.best").mark_point(size=180, strokeWidth=1.5, **line).encode(tooltip=tooltip, **start)
    )
    return (lines + points + rings).properties(width=420, height=280)


def front_chart(front: pd.DataFrame) -> alt.LayerChart:
    """Return a chart of the score against the cost on both splits.

    Args:
        front: the frame that `pareto` returns, or `Cascade.front`.
    """
    frame = front.assign(members=[", ".join(map(str, members)) for members in front["members"]])
    long = frame.melt(["cost", "members", "size"], ["selection", "test"], "split", "score").dropna()
    scale = alt.Scale(type="log" if front["cost"].min() > 0 else "linear")
    base = alt.Chart(long).encode(
        x=alt.X("cost:Q", title=front.attrs.get("cost", "cost"), scale=scale),
        y=alt.Y("score:Q", scale=alt.Scale(zero=False)),
        color=alt.Color("split:N"),
        tooltip=["members", "size", "cost", alt.Tooltip("score:Q", format=".4f")],
    )
    return (base.mark_line(interpolate="step-after") + base.mark_point(filled=True)).properties(width=420, height=280)


def _by_name(paths: "Path | Sequence[Path] | Mapping[str, Path]") -> "dict[str, Path]":
    if isinstance(paths, Mapping):
        return dict(paths)
    return {str(path.members[0]): path for path in (paths if isinstance(paths, Sequence) else [paths])}


def _long_frame(start: str, path: "Path") -> pd.DataFrame:
    steps = range(path.start - 1, len(path.members))
    frame = pd.DataFrame(
        {
            "start": start,
            "members": [step + 1 for step in steps],
            "model": [str(path.members[step]) for step in steps],
            "category": ["start" if step < path.start else TITLES[path.categories[step] or UNKNOWN] for step in steps],
            "best": [step + 1 == path.best for step in steps],
            "selection": [path.score[step] for step in steps],
        }
    )
    if path.test_score is not None:
        frame["test"] = [path.test_score[step] for step in steps]
    splits = ["selection"] if path.test_score is None else ["test", "selection"]
    return frame.melt(["start", "members", "model", "category", "best"], splits, "split", "score")
