"""The part on serving: the ensemble's members asked in turn, so that most examples cost less than all of them."""

from typing import Any

import altair as alt
import pandas as pd

import ensembles
from diversity.charts import inline
from zoo.app.report.document import Figure, Finding, Part, Section, Table
from zoo.app.report.evidence import Evidence
from zoo.core.stop_rules import NEVER
from zoo.errors import ZooError
from zoo.outputs.outputs import Runs

CERTAIN = {
    "confidence": "its probability of the class it names",
    "margin": "how far its first class is above its second",
    "agreement": "how many of the members asked name its class",
}


def serving(known: Evidence) -> Part | None:
    """The cascade of the members that the search found; None where there is one only, or where they vote."""
    members = list(dict.fromkeys(known.path.members[: known.path.best]))
    if not known.has_probabilities or len(members) < 2:
        return None
    found = _cascade(known, Runs(known.runs[str(name)] for name in members))
    counted = "floating-point operations" if _in_flops(found) else "members asked, since their FLOPs are not all known"
    lead = (
        "Not every example needs every member. A cascade asks them one after the other and stops as soon as the mean of "
        f"their answers is certain enough, here by its {found.rule}: {CERTAIN[found.rule]}. Cost is counted in {counted}."
    )
    figure = Figure(
        "cascades",
        "Accuracy against mean cost",
        "Each dot is a cascade for which no other is both cheaper and better on the selection examples, at its share of the "
        "whole ensemble's cost. Dashed: all members asked about everything. The ring is the cascade in the table.",
        _chart(found),
        wide=True,
    )
    section = Section(
        "serving", "What to serve", lead, known.chosen("members, order and thresholds"), [figure], [_table(found)]
    )
    return Part(section, [_finding(found, known)], {"cascade": found.to_dict()})


def _cascade(known: Evidence, members: Runs) -> ensembles.Cascade:
    """With FLOPs as cost where all members' are told or can be counted without their weights; else with 1 for each."""

    def by(cost: Any) -> ensembles.Cascade:
        return ensembles.cascade(members, members=members.names, cost=cost, split=known.halves, seed=known.seed)

    if all(outputs.card is not None or "flops" in outputs.details for outputs in members.values()):
        try:
            found = by("flops")
            if min(found.costs) > 0:  # a graph that is no torch module shows none
                return found
        except (ZooError, ImportError):  # an ensemble, a model that is not here, or whose library is not
            pass
    return by([1.0] * len(members))


def _in_flops(found: ensembles.Cascade) -> bool:
    return bool(found.settings["cost"] == "flops")


def _table(found: ensembles.Cascade) -> Table:
    stops = [*("never" if threshold >= NEVER else f"{threshold:.4f}" for threshold in found.thresholds), "always"]
    unit, size = ("GFLOPs", 1e9) if max(found.costs) >= 1e9 else ("MFLOPs", 1e6)
    rows = [
        {
            "member": str(name),
            unit: _short(cost / size) if _in_flops(found) else None,
            "asked about": asked,
            f"stops at {found.rule}": stop,
        }
        for name, cost, asked, stop in zip(found.members, found.costs, found.asked, stops, strict=True)
    ]
    return Table("cascade", "Members in the order in which they are asked", rows, frozenset({"asked about"}))


def _short(cost: float) -> float:
    return round(cost) if cost >= 100 else cost  # else 132.4 is shown as "132."


def _finding(found: ensembles.Cascade, known: Evidence) -> Finding:
    low, high = found.interval or (0.0, 0.0)
    sentence = (
        f"of the ensemble of {len(found.whole.members)} is paid on {known.tested} by asking its members in turn: "
        f"{found.test_score:.1%} are right, {_points(found.gain or 0.0)} points against asking all of them (95% interval "
        f"{_points(low)} to {_points(high)})."
    )
    return Finding(f"{found.share:.0%} of the cost", sentence, warning=high < 0)


def _points(share: float) -> str:
    return f"{100 * share:+z.2f}"


def _chart(found: ensembles.Cascade) -> alt.LayerChart:
    """Accuracy and cost of every cascade on the front, each on both splits."""
    front = found.front
    sides = [
        pd.DataFrame(
            {
                "split": split,
                "cost": front[cost] / found.whole.cost,
                "accuracy": front[split],
                "members": front["size"],
                "rule": front["rule"],
                "chosen": (front["cost"] == found.cost) & (front["selection"] == found.score),
            }
        )
        for split, cost in (("test", "test_cost"), ("selection", "cost"))
    ]
    colour = alt.Color("split:N", scale=alt.Scale(domain=["test", "selection"]), title="examples")
    base = alt.Chart(inline(pd.concat(sides, ignore_index=True))).encode(
        x=alt.X("cost:Q", title="share of the ensemble's cost", axis=alt.Axis(format="%"), scale=alt.Scale(domain=[0, 1])),
        y=alt.Y("accuracy:Q", axis=alt.Axis(format="%"), scale=alt.Scale(zero=False)),
        color=colour,
        tooltip=[
            "split:N", alt.Tooltip("cost:Q", format=".1%"), alt.Tooltip("accuracy:Q", format=".2%"), "members:Q", "rule:N",
        ],
    )  # fmt: skip
    rings = base.transform_filter("datum.chosen").mark_point(size=180, strokeWidth=1.5)
    all_asked = pd.DataFrame({"split": ["test", "selection"], "accuracy": [found.whole.test_score, found.whole.score]})
    whole = alt.Chart(inline(all_asked)).mark_rule(strokeDash=[4, 4]).encode(y="accuracy:Q", color=colour)
    return (whole + base.mark_line() + base.mark_point(filled=True, size=45) + rings).properties(width=600, height=280)
