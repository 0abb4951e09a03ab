"""The section on cascades: evaluate the ensemble's members one after the other, and stop early on easy examples."""

from typing import Any

import altair as alt
import pandas as pd

import ensembles
from diversity.charts import inline
from zoo.app.report.analysis import Analysis
from zoo.app.report.document import Figure, Finding, Part, Section, Table
from zoo.core.stop_rules import NEVER
from zoo.core.units import compared, interval, percent
from zoo.errors import ZooError
from zoo.outputs.outputs import Runs

CERTAINTY = {
    "confidence": "the probability of its predicted class",
    "margin": "the difference between its two largest probabilities",
    "agreement": "the fraction of the evaluated members that predict its class, where its probability breaks ties",
}


def cascade(analysis: Analysis) -> Part | None:
    """Return the cascade of the best ensemble's members; None for a single member, or for votes."""
    if not analysis.has_probabilities or len(analysis.members) < 2:
        return None
    found = _cascade(analysis, Runs(analysis.searchable[name] for name in analysis.members))
    unit = "floating-point operations" if _in_flops(found) else "evaluated members, because not all FLOPs are known"
    lead = (
        "Not every example needs every member. A cascade evaluates the members one after the other, and stops when the mean "
        f"of their probabilities is certain enough. Its certainty is the {found.rule}: {CERTAINTY[found.rule]}. Cost is "
        f"counted in {unit}."
    )
    figure = Figure(
        "cascades",
        "Accuracy against mean cost",
        "Each dot is a cascade on the Pareto front of the selection examples, at its fraction of the full ensemble's cost. "
        "Dashed: all members are evaluated on every example. The ring marks the cascade of the table.",
        _chart(found),
        wide=True,
    )
    population = analysis.chosen("members, order and thresholds were")
    section = Section("serving", "How to serve the ensemble", lead, population, [figure], [_table(found)])
    return Part(section, [_finding(found, analysis)], {"cascade": found.to_dict()})


def _cascade(analysis: Analysis, members: Runs) -> ensembles.Cascade:
    """Return the cascade with FLOPs as cost, if they are known or can be counted without weights; else with 1 per member."""

    def with_cost(cost: Any) -> ensembles.Cascade:
        return ensembles.cascade(members, members=members.names, cost=cost, split=analysis.splits, seed=analysis.seed)

    if all(outputs.card is not None or "flops" in outputs.details for outputs in members.values()):
        try:
            found = with_cost("flops")
            if min(found.costs) > 0:  # no FLOPs are counted in a graph that is not a torch module
                return found
        except (ZooError, ImportError):  # an ensemble, an unavailable model, a missing library
            pass
    return with_cost([1.0] * len(members))


def _in_flops(found: ensembles.Cascade) -> bool:
    return bool(found.settings["cost"] == "flops")


def _table(found: ensembles.Cascade) -> Table:
    stops = [*("never" if threshold >= NEVER else f"{threshold:.4f}" for threshold in found.thresholds), "always"]
    unit, size = ("GFLOPs", 1e9) if max(found.costs) >= 1e9 else ("MFLOPs", 1e6)
    rows = [
        {
            "member": str(name),
            unit: _short(cost / size) if _in_flops(found) else None,
            "evaluated on": evaluated,
            f"stops at {found.rule}": stop,
        }
        for name, cost, evaluated, stop in zip(found.members, found.costs, found.evaluated, stops, strict=True)
    ]
    return Table("cascade", "Members in the order of evaluation", rows, frozenset({"evaluated on"}))


def _short(cost: float) -> float:
    return round(cost) if cost >= 100 else cost  # otherwise 132.4 is shown as "132."


def _finding(found: ensembles.Cascade, analysis: Analysis) -> Finding:
    text = (
        f"A cascade of the {len(found.full_ensemble.members)} members reaches {percent(found.test_score)} accuracy on "
        f"{analysis.tested} at {percent(found.cost_fraction, 0)} of the full ensemble's cost, {compared(found.gain or 0.0)} "
        f"the accuracy of evaluating all of them (95% CI {interval(found.interval, None)})."
    )
    loss = found.interval is not None and found.interval[1] < 0
    return Finding("Cascade", f"{percent(found.cost_fraction, 0)} of the cost", text, warning=loss, headline=True)


def _chart(found: ensembles.Cascade) -> alt.LayerChart:
    """Return accuracy and cost of every cascade on the Pareto front, on both splits."""
    front, full = found.front, found.full_ensemble
    sides = [
        pd.DataFrame(
            {
                "split": split,
                "cost": front[cost] / full.cost,
                "accuracy": front[split],
                "members": front["size"],
                "rule": front["rule"],
                "chosen": (front["cost"] == found.cost) & (front["selection"] == found.score),
            }
        )
        for split, cost in (("test", "test_cost"), ("selection", "cost"))
    ]
    colour = alt.Color("split:N", scale=alt.Scale(domain=["test", "selection"]), title="examples")
    x_scale, percent = alt.Scale(domain=[0, 1]), alt.Axis(format="%")
    base = alt.Chart(inline(pd.concat(sides, ignore_index=True))).encode(
        x=alt.X("cost:Q", title="fraction of the full ensemble's cost", axis=percent, scale=x_scale),
        y=alt.Y("accuracy:Q", axis=percent, scale=alt.Scale(zero=False)),
        color=colour,
        tooltip=[
            "split:N", alt.Tooltip("cost:Q", format=".1%"), alt.Tooltip("accuracy:Q", format=".2%"), "members:Q", "rule:N",
        ],
    )  # fmt: skip
    rings = base.transform_filter("datum.chosen").mark_point(size=180, strokeWidth=1.5)
    all_members = pd.DataFrame({"split": ["test", "selection"], "accuracy": [full.test_score, full.score]})
    rules = alt.Chart(inline(all_members)).mark_rule(strokeDash=[4, 4]).encode(y="accuracy:Q", color=colour)
    return (rules + base.mark_line() + base.mark_point(filled=True, size=45) + rings).properties(width=600, height=280)
