"""The part on serving: the ensemble's members asked in turn, so that most examples cost less than all of them."""

from typing import Any

import ensembles
from ensembles.charts import front_chart
from zoo._numbers.stopping import NEVER
from zoo.app.report.document import Figure, Finding, Part, Section, Table
from zoo.app.report.evidence import Evidence
from zoo.errors import ZooError
from zoo.outputs import Runs

CERTAIN = {
    "confidence": "its probability of the class it names",
    "margin": "how far its first class is above its second",
    "agreement": "how many of the members asked name its class",
}
UNITS = {"flops": "FLOPs for one image", "cost": "members asked"}


def serving(known: Evidence) -> Part | None:
    """The cascade of the members that the search found; None where there is one only, or where they vote."""
    members = list(dict.fromkeys(known.path.members[: known.path.best]))
    if not known.has_probabilities or len(members) < 2:
        return None
    found = _cascade(known, Runs(known.runs[str(name)] for name in members))
    unit = UNITS[found.settings["cost"]]
    front = found.front.copy()
    front.attrs["cost"] = f"mean {unit}"
    lead = (
        "Not every example needs every member. A cascade asks them one after the other and stops as soon as the mean of "
        f"their answers is certain enough, here by its {found.rule}: {CERTAIN[found.rule]}. Cost is counted in {unit}"
        f"{'' if found.settings['cost'] == 'flops' else ', since FLOPs are not known of all of them'}."
    )
    figure = Figure(
        "cascades",
        "Accuracy against mean cost",
        "Each mark is a cascade for which no other is cheaper and better on the selection examples; the dearest is "
        "at least as good as all members together. Where the test line is flat, a cheaper cascade loses nothing.",
        front_chart(front),
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


def _table(found: ensembles.Cascade) -> Table:
    stops = [*("never" if threshold >= NEVER else f"{threshold:.4f}" for threshold in found.thresholds), "always"]
    counted = found.settings["cost"] == "flops"
    rows = [
        {"member": str(name), "FLOPs": cost if counted else None, "asked about": asked, f"stops at {found.rule}": stop}
        for name, cost, asked, stop in zip(found.members, found.costs, found.asked, stops, strict=True)
    ]
    return Table("cascade", "Members in the order in which they are asked", rows, frozenset({"asked about"}))


def _finding(found: ensembles.Cascade, known: Evidence) -> Finding:
    low, high = found.interval or (0.0, 0.0)
    sentence = (
        f"of the ensemble of {len(found.whole.members)} is paid on {known.tested} by asking its members in turn: "
        f"{found.test_score:.1%} are right, {_points(found.gain or 0.0)} points against asking all of them (95% interval "
        f"{_points(low)} to {_points(high)})."
    )
    return Finding(f"{found.share:.0%} of the cost", sentence, warning=high < 0)


def _points(share: float) -> str:
    return f"{100 * share + 0.0:+.2f}"
