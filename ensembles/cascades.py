"""Cascades: ensembles that evaluate one member after the other and stop as soon as they are certain (Wang et al. 2021).

After member j, the first j members' mean probabilities decide the prediction. An example stops there if the certainty of
this mean, by one of three rules (`zoo.core.stop_rules`), is at least t_j. Cost is exchanged for errors at a
range of rates (`ensembles.cascade_thresholds`), for each rule and order of the members. The result is the Pareto front of
accuracy and mean cost.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from diversity.bootstrap import percentile_interval, resample
from ensembles.cascade_thresholds import (
    Stages,
    candidate_thresholds,
    first_stop,
    fit_cuts,
    read_stages,
    stopped_probabilities,
)
from ensembles.costs import COST_TITLES, Budget, Cost, member_costs, parse_budget
from ensembles.ensemble_cards import write_card
from ensembles.ensemble_sets import EnsembleSets, fit_sets
from ensembles.ensemble_temperature import bounded
from ensembles.greedy_search import Rules, search
from ensembles.growing_ensemble import TIE
from ensembles.inputs import Name, check_counts
from ensembles.model_library import ModelLibrary
from ensembles.search_setup import SearchSetup
from ensembles.text_table import text_table, wrapped
from zoo.cards.card import Card
from zoo.core.prediction_sets import Conditioning, Method
from zoo.core.stop_rules import NEVER, RULES, Rule, Stopping
from zoo.core.units import MISSING, compared, count, interval, percent, short_number
from zoo.errors import InputError
from zoo.outputs.outputs import Runs

if TYPE_CHECKING:
    import altair as alt
    import pandas as pd

# Errors to accept, as a fraction of the examples, for saving the whole cost of the ensemble.
RATES = np.geomspace(1e-4, 0.3, 10)
COMMON_THRESHOLDS = 40  # thresholds that are tried for all stages together
FOLDS = 4


@dataclass(frozen=True, eq=False)
class MemberOrder:
    """Members in the order in which they are evaluated, their costs, and their stages on both splits."""

    name: str
    members: list[int]
    costs: np.ndarray  # [L]
    setup: SearchSetup

    @cached_property
    def selection(self) -> Stages:
        return read_stages(self.setup.library, self.members)

    @cached_property
    def test(self) -> Stages | None:
        return None if self.setup.test is None else read_stages(self.setup.test, self.members, check=True)


@dataclass(frozen=True, eq=False)
class CandidateCascade:
    """A cascade that was tried, with its cross-fitted score and mean cost on the selection split."""

    order: MemberOrder
    rule: Rule
    thresholds: list[float]  # of each stage that is reached, except the last
    score: float
    cost: float
    standard_error: float = 0.0  # of the difference between its score and the full ensemble's

    @property
    def members(self) -> list[int]:
        return self.order.members[: self.order.selection.sizes[len(self.thresholds)]]

    @property
    def member_thresholds(self) -> list[float]:
        """The threshold after each member except the last."""
        thresholds = [NEVER] * (len(self.members) - 1)
        for size, threshold in zip(self.order.selection.sizes, self.thresholds, strict=False):
            thresholds[size - 1] = threshold
        return thresholds

    def run(self, stages: Stages) -> tuple[np.ndarray, np.ndarray]:
        """Return the number of members evaluated for each example [N], and whether the prediction is correct [N]."""
        stop = stages.stopping_stage(self.rule, self.thresholds)
        return stages.sizes[stop], stages.correct[stop, np.arange(len(stop))]

    def mean_cost(self, evaluated: np.ndarray) -> float:
        """Return the mean cost per example, given the number of members evaluated for each example [N]."""
        return float(self.order.costs.cumsum()[evaluated - 1].mean())

    def row(self) -> dict[str, Any]:
        """Return this cascade's row of the Pareto front."""
        names = self.order.setup.library.names
        row: dict[str, Any] = {
            "cost": self.cost, "members": tuple(names[m] for m in self.members), "size": len(self.members),
            "selection": self.score, "test": np.nan, "test_cost": np.nan, "rule": self.rule, "order": self.order.name,
            "thresholds": self.member_thresholds,
        }  # fmt: skip
        if self.order.test is not None:
            evaluated, correct = self.run(self.order.test)
            row |= {"test": float(correct.mean()), "test_cost": self.mean_cost(evaluated)}
        return row


def _with_common_threshold(order: MemberOrder, rule: Rule) -> Iterator[CandidateCascade]:
    """Iterate over cascades with one threshold for all stages. One parameter hardly overfits the selection split."""
    stages = order.selection
    values = np.unique(np.quantile(stages.certainty[rule], np.linspace(0, 1, COMMON_THRESHOLDS)))
    for value in values.tolist():
        one = CandidateCascade(order, rule, [value] * (len(stages.sizes) - 1), 0.0, 0.0)
        evaluated, correct = one.run(stages)
        yield replace(
            one,
            score=float(correct.mean()),
            cost=one.mean_cost(evaluated),
            standard_error=_standard_error(correct, stages),
        )


def _with_fitted_thresholds(order: MemberOrder, rule: Rule, seed: int) -> Iterator[CandidateCascade]:
    """Iterate over cascades with a threshold for each stage, one for each rate.

    Thresholds are fitted on all examples. Score and cost are cross-fitted: each example stops at thresholds that were fitted
    on the other folds.
    """
    stages = order.selection
    certainty, wrong = stages.certainty[rule][:-1], (~stages.correct).astype(np.float64)
    thresholds_by_stage = [candidate_thresholds(one) for one in certainty]
    bins = np.empty(certainty.shape, np.int16)
    for stage, (edges, values) in enumerate(zip(thresholds_by_stage, certainty, strict=True)):
        bins[stage] = np.searchsorted(edges, values, "right")
    cost_at = order.costs.cumsum()[stages.sizes - 1]
    added_cost = np.diff(cost_at, prepend=0) / max(cost_at[-1], 1e-300)
    examples = wrong.shape[1]
    fold = np.empty(examples, np.int64)
    # Assigned in the order of the ids, so that folds do not depend on the order of the rows.
    fold[np.argsort(order.setup.library.ids)] = np.random.default_rng(seed).permutation(examples) % FOLDS
    for rate in RATES:
        stop = np.empty(examples, np.int64)
        for inside in (fold == number for number in range(FOLDS)):
            cuts = fit_cuts(bins[:, ~inside], wrong[:, ~inside], added_cost, rate)
            stop[inside] = first_stop(bins[:, inside] >= cuts[:, None])
        thresholds = []
        for cut, edges in zip(fit_cuts(bins, wrong, added_cost, rate), thresholds_by_stage, strict=True):
            if cut == 0:  # every example stops, so the next stage is never reached
                break
            thresholds.append(float(edges[cut - 1]) if cut <= len(edges) else NEVER)
        correct = stages.correct[stop, np.arange(examples)]
        score, cost = float(correct.mean()), float(cost_at[stop].mean())
        yield CandidateCascade(order, rule, thresholds, score, cost, _standard_error(correct, stages))


def _standard_error(correct: np.ndarray, stages: Stages) -> float:
    """Return the standard error of the difference between two accuracies on the same examples."""
    return float(np.std(correct.astype(np.float64) - stages.correct[-1]) / math.sqrt(len(correct)))


@dataclass(frozen=True)
class FullEnsemble:
    """The ensemble of all members, which a cascade is compared with."""

    members: list[Name]
    score: float
    test_score: float | None
    cost: float


@dataclass(frozen=True, eq=False)
class Cascade:
    """Members in the order in which they are evaluated, and the certainty at which each but the last stops.

    `score` and mean `cost` are cross-fitted on the selection split. Everything from the test split is None without one.
    """

    members: list[Name]
    thresholds: list[float]  # one per member except the last; 2 is never reached
    rule: Rule
    costs: list[float]  # of each member
    evaluated: list[float]  # fraction of examples for which each member is evaluated, on the test split if there is one
    score: float
    cost: float
    test_score: float | None
    test_cost: float | None
    full_ensemble: FullEnsemble
    gain: float | None  # test score minus the full ensemble's
    interval: tuple[float, float] | None  # 95% confidence interval of the gain
    front: "pd.DataFrame" = field(repr=False)  # the Pareto front of accuracy and mean cost
    settings: dict[str, Any] = field(default_factory=dict)
    runs: Runs | None = field(default=None, repr=False)
    setup: SearchSetup | None = field(default=None, repr=False)  # the models on both splits, for prediction sets

    @property
    def cost_fraction(self) -> float:
        """The mean cost as a fraction of the full ensemble's, on the test split if there is one."""
        cost = self.cost if self.test_cost is None else self.test_cost
        return cost / self.full_ensemble.cost if self.full_ensemble.cost else 1.0

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per member: its cost, the fraction of examples that reach it, and its threshold."""
        import pandas as pd

        thresholds = [*self.thresholds, np.nan]
        columns = {"model": self.members, "cost": self.costs, "evaluated": self.evaluated, "threshold": thresholds}
        return pd.DataFrame(columns)

    def to_dict(self) -> dict[str, Any]:
        """Return everything but the outputs, in plain types."""
        names = (
            "members", "thresholds", "rule", "costs", "evaluated", "score", "cost", "test_score", "test_cost",
            "cost_fraction", "gain", "interval", "settings",
        )  # fmt: skip
        values = {name: getattr(self, name) for name in names}
        return values | {"full_ensemble": vars(self.full_ensemble), "front": self.front.to_dict(orient="records")}

    def __str__(self) -> str:
        columns = {
            "#": [str(step + 1) for step in range(len(self.members))],
            "model": [str(name) for name in self.members],
            "cost": list(map(short_number, self.costs)),
            "evaluated": list(map(percent, self.evaluated)),
            f"stops at {self.rule}": [*("never" if t >= NEVER else f"{t:.4f}" for t in self.thresholds), MISSING],
        }
        return "\n".join([*text_table(columns), *self.summary()])

    def summary(self) -> list[str]:
        """Return the lines below the table: the cost that is saved, and the accuracy."""
        full, cost = self.full_ensemble, str(self.settings["cost"])
        costs = f"{short_number(self.cost_fraction * full.cost)} of {short_number(full.cost)}"
        text = (
            f"The cascade costs {percent(self.cost_fraction)} of the ensemble of {count(len(full.members), 'model')} "
            f"({costs}, mean {COST_TITLES.get(cost, 'cost')}). "
        )
        if self.gain is None or self.interval is None:
            text += f"Its accuracy, cross-fitted, is {percent(self.score)}; that of the ensemble is {percent(full.score)}."
        else:
            text += (
                f"Its accuracy on {self.settings['test_examples']:,} test examples is {percent(self.test_score)}, "
                f"{compared(self.gain)} that of the ensemble ({interval(self.interval)})."
            )
        return wrapped(text)

    def chart(self) -> "alt.LayerChart":
        """Return a chart of accuracy against mean cost along the Pareto front, on both splits."""
        from ensembles.charts import front_chart

        return front_chart(self.front)

    def prediction_sets(
        self,
        alpha: float = 0.1,
        method: Method = "lac",
        conditioning: Conditioning = "marginal",
        calibration: float | Sequence[str] = 0.5,
    ) -> EnsembleSets:
        """Return prediction sets of the cascade, fitted on a part of the test split.

        Arguments as in `Path.prediction_sets`.
        """
        if self.setup is None:
            raise InputError("has no outputs to fit prediction sets on", where="cascade")
        setup, stopping = self.setup, Stopping(self.rule, list(self.thresholds))
        members = [setup.library.position(name, "members") for name in self.members]

        def probabilities(library: ModelLibrary) -> tuple[torch.Tensor, torch.Tensor]:
            library = bounded(library, setup.seed)
            return stopped_probabilities(library, members, stopping), library.labels

        return fit_sets(probabilities, setup.library, setup.test, alpha, method, conditioning, calibration, setup.seed)

    def to_model(self, name: str, title: str = "", overwrite: bool = False, sets: EnsembleSets | None = None) -> Card:
        """Save the cascade as a model: `zoo.load(name)` evaluates a member only for the images that reach it.

        Arguments as in `Path.to_model`.
        """
        members = [str(member) for member in self.members]
        details: dict[str, Any] = {
            "cascade": {"rule": self.rule, "thresholds": list(self.thresholds)},
            "found_on": "arrays" if self.runs is None else self.runs[members[0]].dataset or "unnamed",
            "selection_score": self.score,
            "test_score": self.test_score,
            "cost_fraction": self.cost_fraction,
            "full_ensemble_test_score": self.full_ensemble.test_score,
            "search": {key: value for key, value in self.settings.items() if value is not None},
        }
        if self.settings["cost"] in ("flops", "latency"):  # an image of zeros would stop at an untypical member
            details[self.settings["cost"]] = self.cost_fraction * self.full_ensemble.cost
        details |= {} if sets is None else sets.details()
        weights = dict.fromkeys(members, 1 / len(members))
        return write_card(name, self.runs, weights, details, title or f"Cascade of {len(members)} models", overwrite)


def find_cascade(
    setup: SearchSetup,
    steps: int,
    members: Sequence[Name] | None,
    cost: Cost,
    rules: Sequence[Rule],
    loss: float,
    budget: Budget | None,
    resamples: int,
) -> Cascade:
    """Return the cascade of these members, or of the members that greedy search finds. Arguments as in `Search.cascade`."""
    import pandas as pd

    check_counts(steps=steps, resamples=resamples)
    _check_options(setup, rules, loss)
    limit = parse_budget(budget)
    chosen = _members(setup, steps, members)
    costs = member_costs(setup.library, cost)
    orders = [
        MemberOrder(name, models, np.array([costs[model] for model in models]), setup)
        for name, models in {"as found": chosen, "cheapest first": sorted(chosen, key=lambda m: costs[m])}.items()
    ]
    if orders[0].members == orders[1].members:
        orders.pop()
    stages = orders[0].selection
    full_score = float(stages.correct[-1].mean())
    full = CandidateCascade(orders[0], rules[0], [NEVER] * (len(stages.sizes) - 1), full_score, math.fsum(orders[0].costs))
    tried = [full]
    for order in orders if len(chosen) > 1 else ():
        for rule in rules:
            tried += [*_with_common_threshold(order, rule), *_with_fitted_thresholds(order, rule, setup.seed)]
    front = _pareto_front(tried)
    frame = pd.DataFrame([one.row() for one in front])
    frame.attrs["cost"] = cost if isinstance(cost, str) else "cost"
    settings = setup.settings | {"cost": frame.attrs["cost"], "loss": loss, "budget": budget, "steps": steps}
    return _to_cascade(_pick(front, full_score, loss, limit), full, frame, setup, resamples, settings)


def _check_options(setup: SearchSetup, rules: Sequence[Rule], loss: float) -> None:
    if setup.library.kind == "predictions":
        raise InputError(
            argument="kind", expected="probabilities for a cascade: votes have no certainty", found="predictions"
        )
    if setup.objective.name != "accuracy":
        raise InputError(argument="objective", expected="accuracy for a cascade", found=setup.objective.name)
    unknown = [rule for rule in rules if rule not in RULES]
    if unknown or not rules:
        raise InputError(argument="rules", expected=f"some of {', '.join(RULES)}", found=unknown[0] if unknown else "none")
    if not 0 <= loss < 1:
        raise InputError(argument="loss", expected="a fraction of the examples, at least 0 and below 1", found=loss)


def _members(setup: SearchSetup, steps: int, members: Sequence[Name] | None) -> list[int]:
    if members is None:
        result = search(setup, Rules(steps + (not setup.base)))
        return result.members[: result.best]
    chosen = list(dict.fromkeys(setup.library.position(name, "members") for name in members))
    if not chosen:
        raise InputError(argument="members", expected="at least one model", found="none")
    return chosen


def _pareto_front(tried: Sequence[CandidateCascade]) -> list[CandidateCascade]:
    """Return the cascades for which no other is both cheaper and better, by ascending cost."""
    front: list[CandidateCascade] = []
    for one in sorted(tried, key=lambda one: (one.cost, -one.score, len(one.thresholds))):
        if not front or one.score > front[-1].score + TIE:
            front.append(one)
    return front


def _pick(front: Sequence[CandidateCascade], full_score: float, loss: float, budget: float) -> CandidateCascade:
    """Return the best cascade within the budget; without a budget, the cheapest that loses at most `loss`.

    Among many cascades, a cheap one may score well by chance. So its score minus one standard error must be high enough. If
    no cascade passes, the last one of the Pareto front is returned, which scores at least as high as the full ensemble.
    """
    if math.isinf(budget):
        return next((one for one in front if one.score - one.standard_error >= full_score - loss - TIE), front[-1])
    allowed = [one for one in front if one.cost <= budget]
    if not allowed:
        expected = f"at least the mean cost of the cheapest cascade, {front[0].cost:g}"
        raise InputError(argument="budget", expected=expected, found=budget)
    return allowed[-1]


def _to_cascade(
    pick: CandidateCascade,
    full: CandidateCascade,
    front: "pd.DataFrame",
    setup: SearchSetup,
    resamples: int,
    settings: dict[str, Any],
) -> Cascade:
    """Return the cascade by name, evaluated on the test split if there is one."""
    names = setup.library.names
    evaluated, correct = pick.run(pick.order.test or pick.order.selection)
    test_score = test_cost = gain = interval = full_test_score = None
    if pick.order.test is not None:
        full_correct = pick.order.test.correct[-1]
        test_score, test_cost = float(correct.mean()), pick.mean_cost(evaluated)
        full_test_score, gain = float(full_correct.mean()), float(correct.mean() - full_correct.mean())
        # Each example's difference is -1, 0 or 1, so a resample is the counts of these three.
        counts = [(full_correct & ~correct).sum(), (full_correct == correct).sum(), (correct & ~full_correct).sum()]
        draws = resample(counts, resamples)
        low, high = percentile_interval((draws[:, 2] - draws[:, 0]) / len(correct))
        interval = float(low), float(high)
    return Cascade(
        members=[names[model] for model in pick.members],
        thresholds=pick.member_thresholds,
        rule=pick.rule,
        costs=pick.order.costs[: len(pick.members)].tolist(),
        evaluated=[float((evaluated > number).mean()) for number in range(len(pick.members))],
        score=pick.score,
        cost=pick.cost,
        test_score=test_score,
        test_cost=test_cost,
        full_ensemble=FullEnsemble([names[model] for model in full.members], full.score, full_test_score, full.cost),
        gain=gain,
        interval=interval,
        front=front,
        settings=settings,
        runs=setup.library.runs,
        setup=setup,
    )
