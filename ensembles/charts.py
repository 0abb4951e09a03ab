"""Charts of ensembles: the path of a search, a front of cost and score. Altair, with the data inside."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import altair as alt
import pandas as pd

if TYPE_CHECKING:
    from ensembles._path import Path


def path_chart(paths: "Path | Sequence[Path] | Mapping[str, Path]") -> alt.LayerChart:
    """Score against the number of members, one colour per start (Gontijo-Lopes et al. 2021, Fig. 5 left).

    Full lines are the test split, dashed ones the selection split that the search has fitted; where a path has no test
    split only the dashed one is there. A mark names the model added; a ring marks the end of the best prefix.
    """
    frame = pd.concat([_long(name, path) for name, path in _named(paths).items()], ignore_index=True)
    objective = next(iter(_named(paths).values())).objective
    base = alt.Chart(frame).encode(
        x=alt.X("members:Q", title="members", axis=alt.Axis(tickMinStep=1)),
        y=alt.Y("score:Q", title=objective, scale=alt.Scale(zero=False)),
        color=alt.Color("start:N", title="starts from"),
    )
    dash = alt.StrokeDash("split:N", title="split", scale=alt.Scale(domain=["test", "selection"], range=[[1, 0], [4, 4]]))
    tooltip = ["start", "split", "members", "model", "category", alt.Tooltip("score:Q", format=".4f")]
    lines = base.mark_line().encode(strokeDash=dash)
    marks = base.mark_point(filled=True, size=45).encode(shape=alt.Shape("category:N", title="added"), tooltip=tooltip)
    rings = base.transform_filter("datum.best").mark_point(size=180, strokeWidth=1.5).encode(tooltip=tooltip)
    return (lines + marks + rings).properties(width=420, height=280)


def front_chart(front: pd.DataFrame) -> alt.LayerChart:
    """The frame of `pareto`: score against cost, on both splits, members on hover."""
    frame = front.assign(members=[", ".join(map(str, members)) for members in front["members"]])
    long = frame.melt(["cost", "members", "size"], ["selection", "test"], "split", "score").dropna()
    cheapest = front["cost"].min()
    base = alt.Chart(long).encode(
        x=alt.X("cost:Q", title=front.attrs.get("cost", "cost"), scale=alt.Scale(type="log" if cheapest > 0 else "linear")),
        y=alt.Y("score:Q", scale=alt.Scale(zero=False)),
        color=alt.Color("split:N"),
        tooltip=["members", "size", "cost", alt.Tooltip("score:Q", format=".4f")],
    )
    return (base.mark_line(interpolate="step-after") + base.mark_point(filled=True)).properties(width=420, height=280)


def _named(paths: "Path | Sequence[Path] | Mapping[str, Path]") -> "dict[str, Path]":
    if isinstance(paths, Mapping):
        return dict(paths)
    return {str(path.members[0]): path for path in (paths if isinstance(paths, Sequence) else [paths])}


def _long(start: str, path: "Path") -> pd.DataFrame:
    steps = range(path.start - 1, len(path.members))
    frame = pd.DataFrame(
        {
            "start": start,
            "members": [step + 1 for step in steps],
            "model": [str(path.members[step]) for step in steps],
            "category": ["start" if step < path.start else path.categories[step] or "added" for step in steps],
            "best": [step + 1 == path.best for step in steps],
            "selection": [path.score[step] for step in steps],
        }
    )
    if path.test_score is not None:
        frame["test"] = [path.test_score[step] for step in steps]
    splits = ["selection"] if path.test_score is None else ["test", "selection"]
    return frame.melt(["start", "members", "model", "category", "best"], splits, "split", "score")
