"""An ensemble that asks its members one after the other and stops as soon as it is certain (Wang et al. 2021).

After member j the answer is the mean of the first j members' probabilities; an example stops there if the certainty of that
mean, by one of three rules (`zoo.core.stop_rules`), is at least t_j. Cost is exchanged for errors at a range of rates
(`ensembles._stages`), for each rule and order of the members, which gives the front of accuracy and mean cost.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from diversity.bootstrap import percentile_interval, resample
from ensembles._choices import Cost, member_costs
from ensembles._ensemble import TIE
from ensembles._greedy import Rules, grow
from ensembles._library import Name
from ensembles._path import save, table
from ensembles._setup import Setup, at_least_one
from ensembles._stages import Stages, edges, first_stop, fit_cuts, stages
from zoo.cards.card import Card
from zoo.core.stop_rules import NEVER, RULES, Rule
from zoo.errors import InputError
from zoo.outputs.outputs import Runs

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

# Errors one would accept, as a share of the examples, to save all of the ensemble's cost.
RATES = np.geomspace(1e-4, 0.3, 10)
COMMON = 40  # thresholds that are tried for all stages together
FOLDS = 4


@dataclass(frozen=True, eq=False)
class Order:
    """Members in the order in which they are asked, what they cost, and what they say on both splits."""

    name: str
    members: list[int]
    costs: np.ndarray  # [L]
    setup: Setup

    @cached_property
    def selection(self) -> Stages:
        return stages(self.setup.library, self.members)

    @cached_property
    def test(self) -> Stages | None:
        return None if self.setup.test is None else stages(self.setup.test, self.members, check=True)


@dataclass(frozen=True, eq=False)
class Candidate:
    """A cascade that was tried: its score and mean cost on examples of the selection split its thresholds had not seen."""

    order: Order
    rule: Rule
    thresholds: list[float]  # of each stage that is reached but the last
    score: float
    cost: float
    margin: float = 0.0  # the standard error of the score's difference from the whole ensemble's

    @property
    def members(self) -> list[int]:
        return self.order.members[: self.order.selection.ends[len(self.thresholds)]]

    @property
    def by_member(self) -> list[float]:
        """The threshold after each member but the last."""
        found = [NEVER] * (len(self.members) - 1)
        for asked, threshold in zip(self.order.selection.ends, self.thresholds, strict=False):
            found[asked - 1] = threshold
        return found

    def on(self, staged: Stages) -> tuple[np.ndarray, np.ndarray]:
        """[N] how many members are asked about each example, and whether their answer is right."""
        stop = staged.stops(self.rule, self.thresholds)
        return staged.ends[stop], staged.right[stop, np.arange(len(stop))]

    def paid(self, asked: np.ndarray) -> float:
        """The mean cost of examples about which so many members [N] are asked."""
        return float(self.order.costs.cumsum()[asked - 1].mean())

    def row(self) -> dict[str, Any]:
        """Its row of the front."""
        names = self.order.setup.library.names
        found: dict[str, Any] = {
            "cost": self.cost, "members": tuple(names[m] for m in self.members), "size": len(self.members),
            "selection": self.score, "test": np.nan, "test_cost": np.nan, "rule": self.rule, "order": self.order.name,
            "thresholds": self.by_member,
        }  # fmt: skip
        if self.order.test is not None:
            asked, right = self.on(self.order.test)
            found |= {"test": float(right.mean()), "test_cost": self.paid(asked)}
        return found


def common(order: Order, rule: Rule) -> Iterator[Candidate]:
    """The cascades with one threshold for all stages: so little is fitted that the selection split judges it fairly."""
    staged = order.selection
    values = np.unique(np.quantile(staged.certainty[rule], np.linspace(0, 1, COMMON)))
    for value in values.tolist():
        one = Candidate(order, rule, [value] * (len(staged.ends) - 1), 0.0, 0.0)
        asked, right = one.on(staged)
        yield replace(one, score=float(right.mean()), cost=one.paid(asked), margin=_margin(right, staged))


def fitted(order: Order, rule: Rule, seed: int) -> Iterator[Candidate]:
    """The cascades with a threshold for each stage, one for each rate.

    Thresholds are fitted on all examples; score and cost are those of thresholds fitted without the example's fold.
    """
    staged = order.selection
    certainty, wrong = staged.certainty[rule][:-1], (~staged.right).astype(np.float64)
    found = [edges(one) for one in certainty]
    bins = np.empty(certainty.shape, np.int16)
    for stage, (edge, values) in enumerate(zip(found, certainty, strict=True)):
        bins[stage] = np.searchsorted(edge, values, "right")
    paid = order.costs.cumsum()[staged.ends - 1]
    price = np.diff(paid, prepend=0) / max(paid[-1], 1e-300)
    examples = wrong.shape[1]
    fold = np.random.default_rng(seed).permutation(examples) % FOLDS
    for rate in RATES:
        stop = np.empty(examples, np.int64)
        for inside in (fold == number for number in range(FOLDS)):
            cuts = fit_cuts(bins[:, ~inside], wrong[:, ~inside], price, rate)
            stop[inside] = first_stop(bins[:, inside] >= cuts[:, None])
        thresholds = []
        for cut, edge in zip(fit_cuts(bins, wrong, price, rate), found, strict=True):
            if cut == 0:  # everything stops, so the next stage is never reached
                break
            thresholds.append(float(edge[cut - 1]) if cut <= len(edge) else NEVER)
        right = staged.right[stop, np.arange(examples)]
        score, cost = float(right.mean()), float(paid[stop].mean())
        yield Candidate(order, rule, thresholds, score, cost, _margin(right, staged))


def _margin(right: np.ndarray, staged: Stages) -> float:
    """The standard error of the difference of two accuracies on the same examples."""
    return float(np.std(right.astype(np.float64) - staged.right[-1]) / math.sqrt(len(right)))


@dataclass(frozen=True, eq=False)
class Cascade:
    """Members in the order in which they are asked, and the certainty at which each but the last ends the asking.

    `score` and mean `cost` are on the selection split, cross-fitted; `test_score` and `test_cost` on the test split, None
    without one; those of `whole` are the ensemble's of all members, which are asked about everything. `gain` is the
    cascade's test score less the ensemble's, with its 95% `interval`. `asked[i]` is the share of examples that member i is
    asked about, on the test split where there is one. `front` has every cascade for which no other is cheaper and better.
    """

    members: list[Name]
    thresholds: list[float]  # one fewer; 2 is never reached
    rule: Rule
    costs: list[float]  # of each member
    asked: list[float]
    score: float
    cost: float
    test_score: float | None
    test_cost: float | None
    whole: "Whole"
    gain: float | None
    interval: tuple[float, float] | None
    front: "pd.DataFrame" = field(repr=False)
    settings: dict[str, Any] = field(default_factory=dict)
    runs: Runs | None = field(default=None, repr=False)

    @property
    def share(self) -> float:
        """The mean cost as a share of the whole ensemble's, on the test split where there is one."""
        cost = self.cost if self.test_cost is None else self.test_cost
        return cost / self.whole.cost if self.whole.cost else 1.0

    def to_frame(self) -> "pd.DataFrame":
        """One row per member: its cost, the certainty at which examples stop after it, and how many it is asked about."""
        import pandas as pd

        thresholds = [*self.thresholds, np.nan]
        return pd.DataFrame({"model": self.members, "cost": self.costs, "asked": self.asked, "threshold": thresholds})

    def to_dict(self) -> dict[str, Any]:
        """Everything but the outputs, in plain types."""
        names = ("members", "thresholds", "rule", "costs", "asked", "score", "cost", "test_score", "test_cost", "share")
        found = {name: getattr(self, name) for name in (*names, "gain", "interval", "settings")}
        return found | {"whole": vars(self.whole), "front": self.front.to_dict(orient="records")}

    def __str__(self) -> str:
        columns = {
            "step": [str(step + 1) for step in range(len(self.members))],
            "model": [str(name) for name in self.members],
            "cost": [f"{cost:.3g}" for cost in self.costs],
            "asked": [f"{asked:.1%}" for asked in self.asked],
            "stops at": [*("never" if t >= NEVER else f"{t:.4f}" for t in self.thresholds), "–"],
        }
        return "\n".join([*table(columns), *self.summary()])

    def summary(self) -> list[str]:
        """The lines below the table: what is saved, and what it costs in accuracy."""
        size = len(self.whole.members)
        lines = [
            f"by {self.rule}: {self.share:.0%} of the mean {self.settings['cost']} of the ensemble of {size}"
            f" ({self.share * self.whole.cost:.3g} of {self.whole.cost:.3g})"
        ]
        if self.gain is not None and self.interval is not None:
            low, high = self.interval
            lines.append(
                f"accuracy on {self.settings['test_examples']} unseen examples {self.test_score:.4f}, the ensemble's "
                f"{self.whole.test_score:.4f}"
            )
            lines.append(f"difference {self.gain:+.4f} [{low:+.4f}, {high:+.4f}]")
        else:
            lines.append(f"accuracy, cross-fitted, {self.score:.4f}, the ensemble's {self.whole.score:.4f}")
        return lines

    def chart(self) -> "alt.LayerChart":
        """Accuracy against mean cost along the front, on both splits."""
        from ensembles.charts import front_chart

        return front_chart(self.front)

    def to_model(self, name: str, title: str = "", overwrite: bool = False) -> Card:
        """Write the cascade to the user's cards: `zoo.load(name)` asks a network only about what is still open."""
        if self.runs is None:
            raise InputError(f"{name}: members are arrays, not models; search Runs to save a cascade that can be loaded")
        members = [str(member) for member in self.members]
        details: dict[str, Any] = {
            "cascade": {"rule": self.rule, "thresholds": list(self.thresholds)},
            "found_on": self.runs[members[0]].dataset or "unnamed",
            "selection_score": self.score,
            "test_score": self.test_score,
            "share_of_cost": self.share,
            "whole_test_score": self.whole.test_score,
            "search": {key: value for key, value in self.settings.items() if value is not None},
        }
        if self.settings["cost"] in ("flops", "latency"):  # of an image of zeros it would be another
            details[self.settings["cost"]] = self.share * self.whole.cost
        title = title or f"Cascade of {len(members)} models"
        return save(name, self.runs, dict.fromkeys(members, 1 / len(members)), details, title, overwrite)


@dataclass(frozen=True)
class Whole:
    """The ensemble of all members: what a cascade is measured by."""

    members: list[Name]
    score: float
    test_score: float | None
    cost: float


def find(
    setup: Setup,
    steps: int,
    members: Sequence[Name] | None,
    cost: Cost,
    rules: Sequence[Rule],
    loss: float,
    budget: float | None,
    resamples: int,
) -> Cascade:
    """The cascade of these members, or of those that greedy search finds, and the front it was chosen from."""
    import pandas as pd

    at_least_one(steps=steps, resamples=resamples)
    _check(setup, rules, loss)
    chosen = _members(setup, steps, members)
    costs = member_costs(setup.library, cost)
    orders = [
        Order(name, models, np.array([costs[model] for model in models]), setup)
        for name, models in {"as found": chosen, "cheapest first": sorted(chosen, key=lambda m: costs[m])}.items()
    ]
    if orders[0].members == orders[1].members:
        orders.pop()
    end = float(orders[0].selection.right[-1].mean())
    whole = Candidate(orders[0], rules[0], [NEVER] * (len(orders[0].selection.ends) - 1), end, math.fsum(orders[0].costs))
    tried = [whole]
    for order in orders if len(chosen) > 1 else ():
        for rule in rules:
            tried += [*common(order, rule), *fitted(order, rule, setup.seed)]
    front = _undominated(tried)
    frame = pd.DataFrame([one.row() for one in front])
    frame.attrs["cost"] = cost if isinstance(cost, str) else "cost"
    settings = setup.settings | {"cost": frame.attrs["cost"], "loss": loss, "budget": budget, "steps": steps}
    return _report(_pick(front, end, loss, budget), whole, frame, setup, resamples, settings)


def _check(setup: Setup, rules: Sequence[Rule], loss: float) -> None:
    if setup.library.kind == "predictions":
        raise InputError("kind: a cascade stops where probabilities are certain, but votes have none")
    if setup.objective.name != "accuracy":
        raise InputError(f"objective: a cascade exchanges accuracy for cost, not {setup.objective.name}; leave it out")
    unknown = [rule for rule in rules if rule not in RULES]
    if unknown or not rules:
        raise InputError(f"rules: expected some of {', '.join(RULES)}, found {unknown[0] if unknown else 'none'}")
    if not 0 <= loss < 1:
        raise InputError(f"loss: expected a share of the examples from 0 up to but not 1, found {loss}")


def _members(setup: Setup, steps: int, members: Sequence[Name] | None) -> list[int]:
    if members is None:
        path = grow(setup, Rules(steps + (not setup.base)))
        return path.members[: path.best]
    chosen = list(dict.fromkeys(setup.library.position(name, "member") for name in members))
    if not chosen:
        raise InputError("members: expected at least one model, found none")
    return chosen


def _undominated(tried: Sequence[Candidate]) -> list[Candidate]:
    """Those for which no other is both cheaper and better, from the cheapest on."""
    found: list[Candidate] = []
    for one in sorted(tried, key=lambda one: (one.cost, -one.score, len(one.thresholds))):
        if not found or one.score > found[-1].score + TIE:
            found.append(one)
    return found


def _pick(front: Sequence[Candidate], whole: float, loss: float, budget: float | None) -> Candidate:
    """The best that costs no more than the budget; without one, the cheapest that surely loses no more than it may.

    Surely: also at one standard error below its score, for of many cascades the cheapest that passes has been lucky. The
    last of the front, which scores no less than the whole ensemble, is taken where none is so sure.
    """
    if budget is None:
        return next((one for one in front if one.score - one.margin >= whole - loss - TIE), front[-1])
    allowed = [one for one in front if one.cost <= budget]
    if not allowed:
        raise InputError(f"budget: the cheapest cascade costs {front[0].cost:g} in the mean, the limit is {budget:g}")
    return allowed[-1]


def _report(
    pick: Candidate, whole: Candidate, front: "pd.DataFrame", setup: Setup, resamples: int, settings: dict[str, Any]
) -> Cascade:
    """The cascade by name, with what it does on the test split."""
    names = setup.library.names
    asked, right = pick.on(pick.order.test or pick.order.selection)
    test_score = test_cost = gain = interval = end = None
    if pick.order.test is not None:
        all_right = pick.order.test.right[-1]
        test_score, test_cost = float(right.mean()), pick.paid(asked)
        end, gain = float(all_right.mean()), float(right.mean() - all_right.mean())
        # The difference of each example is -1, 0 or 1, so a resample is how often it takes each.
        draws = resample([(all_right & ~right).sum(), (all_right == right).sum(), (right & ~all_right).sum()], resamples)
        low, high = percentile_interval((draws[:, 2] - draws[:, 0]) / len(right))
        interval = float(low), float(high)
    return Cascade(
        members=[names[model] for model in pick.members],
        thresholds=pick.by_member,
        rule=pick.rule,
        costs=pick.order.costs[: len(pick.members)].tolist(),
        asked=[float((asked > number).mean()) for number in range(len(pick.members))],
        score=pick.score,
        cost=pick.cost,
        test_score=test_score,
        test_cost=test_cost,
        whole=Whole([names[model] for model in whole.members], whole.score, end, whole.cost),
        gain=gain,
        interval=interval,
        front=front,
        settings=settings,
        runs=setup.library.runs,
    )
