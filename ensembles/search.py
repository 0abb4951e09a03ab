"""`Search`: questions about ensembles of models that are read once; and functions that answer one question in one call.

The functions take the keyword arguments of `Search` and of its method of the same name.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from ensembles import cascades, greedy_search, subsets
from ensembles.cascades import Cascade
from ensembles.costs import Budget, Cost, member_costs, parse_budget
from ensembles.inputs import EnsembleInput, Labels, Name, check_counts
from ensembles.path import Path
from ensembles.search_setup import SearchSetup, SetupOptions
from ensembles.subsets import Subset
from zoo.core.stop_rules import RULES, Rule
from zoo.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


class Search(SearchSetup):
    """Models that are read once on a selection split, and questions about ensembles of them.

    Ties go to the lower NLL (with votes: the NLL of the fraction of votes for the label), then to the first name.

    Args:
        runs: probabilities [M, N, K] (NumPy or torch, float16 to float64), a list or mapping of [N, K], or Runs, whose
            calibrated probabilities are read from disk a chunk at a time.
        labels: [N] class indices; default: the labels of the Runs.
        kind: `probabilities` are averaged. `predictions` [M, N] (or the predictions of any Runs) vote: the most frequent
            class wins, ties go to the lowest class. A prediction of -1 is no vote and counts as wrong.
        objective: accuracy, balanced-accuracy, nll, brier, or a function (probabilities [N, K], labels [N]) -> number, where
            higher is better. A function is slow: it is called with every candidate's ensemble at every step.
        base: the model (or models) that every ensemble contains, and from which a greedy search starts.
        candidates: models that may be added; default: all. A name, number, pattern (`clip-*`) or filter
            (`objective=cosine`), or a list of them; a mask [M]; or a mapping of card fields to a value or a list of values
            (`{"framework": "contrastive"}`), all of which must hold. In a mapping, `name` takes names and patterns, and
            `accuracy` a range (low, high) of the accuracy on the selection split, as fractions, None for no limit.
        test_fraction: fraction of the examples in the test split, which the search never sees; 0: search on all examples.
        split: custom splits (selection, test) instead, as row numbers or masks.
        seed: random seed of the split, of random subsets, of bags and of the bootstrap.
        device: where to compute with Runs; default: where they are stored.
        progress: whether to show a progress bar in a terminal.

    >>> import numpy as np
    >>> right = np.array([[0.9, 0.8, 0.4, 0.4], [0.8, 0.9, 0.4, 0.4], [0.3, 0.4, 0.9, 0.7]])  # [M, N], of class 0
    >>> search = Search(np.stack([right, 1 - right], 2), [0] * 4, test_fraction=0)
    >>> search.greedy(steps=1).members, search.best_subset(size=2).members, search.pair_scores().loc[0, 1]
    ([0, 2], (0, 2), np.float64(0.5))
    >>> search.best_partners()[["base", "partner", "alone", "pair"]].values.tolist()
    [[0.0, 2.0, 0.5, 1.0], [1.0, 2.0, 0.5, 1.0], [2.0, 0.0, 0.5, 1.0]]
    >>> search.random_subsets(size=2, draws=30).groupby("members").selection.mean().to_dict()
    {(0, 1): 0.5, (0, 2): 1.0, (1, 2): 1.0}
    >>> search.best_within(budget=5, cost=[3, 2, 3]).members
    (1, 2)
    >>> search.pareto(cost=[3, 2, 3])[["cost", "members", "selection"]].values.tolist()
    [[2.0, (1,), 0.5], [5.0, (1, 2), 1.0]]
    """

    def greedy(
        self,
        steps: int = 10,
        *,
        replace: bool = False,
        init: int = 1,
        stop_early: bool = False,
        bags: int = 0,
        bag_fraction: float = 0.5,
        budget: Budget | None = None,
        cost: Cost = "params",
        resamples: int = 1000,
    ) -> Path:
        """Return the path of a greedy search: each step adds the candidate with which the ensemble scores best.

        The path is exact: the same as if every candidate's ensemble were scored at every step.

        Args:
            steps: how many models to add to the start. The start is the base, or the best single model.
            replace: whether a model may be added more than once, which raises its weight (Caruana et al. 2004). If not,
                the path ends when no candidate is left.
            init: how many of the best single models to start with.
            stop_early: whether to stop when no candidate improves the score.
            bags: how many searches on random samples of the candidates to average; 0: one search on all candidates.
            bag_fraction: fraction of the candidates in each sample.
            budget: maximum cost of all members, base included: a number or text such as "2M".
            cost: how cost is counted, as in `best_within`.
            resamples: bootstrap resamples for the confidence intervals of the gains.
        """
        check_counts(steps=steps, init=init, resamples=resamples)
        check_counts(0, bags=bags)
        if bags and budget is not None:
            raise InputError("the average of several searches may exceed the budget", argument="bags",
                             hint="Leave out {bags} or {budget}")  # fmt: skip
        costs = None if budget is None else member_costs(self.library, cost)
        rules = greedy_search.Rules(steps + (not self.base), replace, init, stop_early, costs, parse_budget(budget))
        settings = {
            "steps": steps, "replace": replace, "init": init, "stop_early": stop_early, "bags": bags,
            "bag_fraction": bag_fraction if bags else None, "budget": budget,
        }  # fmt: skip
        return greedy_search.find_path(self, rules, bags, bag_fraction, resamples, settings)

    def best_partners(self, bases: Sequence[Name] | None = None, resamples: int = 1000) -> "pd.DataFrame":
        """Return the best model to add to each base (Gontijo-Lopes et al. 2021, Fig. 5 right), after trying every pair.

        One row per base: partner, its category relative to the base, the scores of the base alone and of the pair on both
        splits, and the gain on the test split with its 95% confidence interval.

        Args:
            bases: models; default: all.
            resamples: bootstrap resamples for the confidence intervals.
        """
        check_counts(resamples=resamples)
        return subsets.best_partners(self, bases, resamples)

    def pair_scores(self) -> "pd.DataFrame":
        """Return the scores [M, M] of every pair of models on the selection split, with single models on the diagonal."""
        return subsets.pair_scores(self)

    def best_subset(self, size: int = 3) -> Subset:
        """Return the best of all subsets of `size` candidates, with the base added; an error if there are too many."""
        return subsets.best_subset(self, size)

    def random_subsets(self, size: int = 3, draws: int = 100) -> "pd.DataFrame":
        """Return members and scores of `draws` random subsets of `size` candidates, with the base added."""
        return subsets.random_subsets(self, size, draws)

    def best_within(self, budget: Budget, cost: Cost = "params", max_size: int = 10) -> Subset:
        """Return the best ensemble within a budget.

        With few candidates every subset is tried. With many, the result is the better of two greedy searches, by gain and
        by gain per cost; its `method` says which.

        Args:
            budget: maximum cost of all members, base included: a number or text such as "2M", "1.5G" or "300k".
            cost: `params`, `flops` for one image, `latency` (median milliseconds for one image, measured now on this
                machine), or custom: a mapping by name, [M] numbers, or a function of the name.
            max_size: maximum number of members besides the base.
        """
        return subsets.best_within(self, budget, cost, max_size)

    def pareto(self, cost: Cost = "params", max_size: int = 10) -> "pd.DataFrame":
        """Return the Pareto front of cost and selection score: ensembles for which no other is both cheaper and better.

        One row per ensemble, by ascending cost: cost, members, size, selection, test. `frame.attrs["method"]` says whether
        every subset was tried, or greedy searches under several budgets. Arguments as in `best_within`.
        """
        return subsets.pareto_front(self, cost, max_size)

    def cascade(
        self,
        steps: int = 10,
        *,
        members: Sequence[Name] | None = None,
        cost: Cost = "flops",
        rules: Sequence[Rule] = RULES,
        loss: float = 0.001,
        budget: Budget | None = None,
        resamples: int = 1000,
    ) -> Cascade:
        """Return a cascade, which evaluates members one after the other and stops as soon as their mean is certain.

        Order, rule and thresholds are fitted on the selection split and cross-fitted there; the test split evaluates the
        result. The result is the cheapest cascade on the Pareto front that loses at most `loss`, or with a `budget` the best
        one within it.

        Args:
            steps: greedy steps that find the members.
            members: models to use instead of those that greedy search finds. They are evaluated in this order or from the
                cheapest to the most expensive, whichever is on the front.
            cost: cost of a member for one image, as in `best_within`.
            rules: measures of certainty to try: `confidence` of the mean, its `margin`, or the members' `agreement`.
            loss: accepted loss of accuracy compared with the ensemble of all members, as a fraction.
            budget: maximum mean cost of one image: a number or text such as "1.5G".
            resamples: bootstrap resamples for the confidence interval of the difference.
        """
        return cascades.find_cascade(self, steps, members, cost, rules, loss, budget, resamples)


class GreedyOptions(SetupOptions, total=False):
    steps: int
    replace: bool
    init: int
    stop_early: bool
    bags: int
    bag_fraction: float
    budget: Budget | None
    cost: Cost
    resamples: int


class CascadeOptions(SetupOptions, total=False):
    steps: int
    members: Sequence[Name] | None
    cost: Cost
    rules: Sequence[Rule]
    loss: float
    budget: Budget | None
    resamples: int


class PartnerOptions(SetupOptions, total=False):
    bases: Sequence[Name] | None
    resamples: int


class SubsetOptions(SetupOptions, total=False):
    size: int


class ParetoOptions(SetupOptions, total=False):
    cost: Cost
    max_size: int


class BudgetOptions(ParetoOptions):
    budget: Budget


def greedy(runs: EnsembleInput, labels: Labels = None, **options: Unpack[GreedyOptions]) -> Path:
    """Return the path of a greedy search, which adds one model at a time.

    Takes the options of `Search` (kind, objective, base, candidates, test_fraction, split, seed, ...) and of `Search.greedy`
    (steps, replace, init, stop_early, bags, bag_fraction, budget, cost, resamples).

    >>> votes = [[0, 1, 2, 0], [0, 1, 0, 2], [1, 0, 2, 2]]
    >>> path = greedy(votes, [0, 1, 2, 2], kind="predictions", steps=2, test_fraction=0)
    >>> path.members, path.score
    ([0, 1, 2], [0.75, 0.5, 1.0])
    """
    setup, arguments = _divide(options)
    return Search(runs, labels, **setup).greedy(**arguments)


def cascade(runs: EnsembleInput, labels: Labels = None, **options: Unpack[CascadeOptions]) -> Cascade:
    """Return a cascade, which evaluates members one after the other until their mean is certain (Wang et al. 2021).

    Takes the options of `Search` (base, candidates, test_fraction, split, seed, ...) and of `Search.cascade` (steps,
    members, cost, rules, loss, budget, resamples).

    >>> import numpy as np
    >>> certain, uncertain = [[0.9, 0.1]] * 8, [[0.45, 0.55]] * 2  # the first model is wrong only where it is uncertain
    >>> found = cascade([np.array(certain + uncertain), np.array([[0.8, 0.2]] * 10)], [0] * 10, members=[0, 1],
    ...     cost=[1, 9], rules=["confidence"], test_fraction=0)
    >>> found.members, found.rule, found.evaluated, found.score, found.cost
    ([0, 1], 'confidence', [1.0, 0.2], 1.0, 2.8)
    """
    setup, arguments = _divide(options)
    return Search(runs, labels, **setup).cascade(**arguments)


def best_partners(runs: EnsembleInput, labels: Labels = None, **options: Unpack[PartnerOptions]) -> "pd.DataFrame":
    """Return the best model to add to each base.

    Takes the options of `Search` and of `Search.best_partners` (bases, resamples).
    """
    setup, arguments = _divide(options)
    return Search(runs, labels, **setup).best_partners(**arguments)


def best_subset(runs: EnsembleInput, labels: Labels = None, **options: Unpack[SubsetOptions]) -> Subset:
    """Return the best ensemble of `size` models. Takes the options of `Search` and of `Search.best_subset` (size)."""
    setup, arguments = _divide(options)
    return Search(runs, labels, **setup).best_subset(**arguments)


def best_within(runs: EnsembleInput, labels: Labels = None, **options: Unpack[BudgetOptions]) -> Subset:
    """Return the best ensemble within a budget: `best_within(runs, budget="2M")`.

    Takes the options of `Search` and of `Search.best_within` (budget, cost, max_size).
    """
    setup, arguments = _divide(options)
    return Search(runs, labels, **setup).best_within(**arguments)


def pareto(runs: EnsembleInput, labels: Labels = None, **options: Unpack[ParetoOptions]) -> "pd.DataFrame":
    """Return the Pareto front of cost and score. Takes the options of `Search` and of `Search.pareto` (cost, max_size)."""
    setup, arguments = _divide(options)
    return Search(runs, labels, **setup).pareto(**arguments)


def _divide(options: Mapping[str, Any]) -> tuple[SetupOptions, dict[str, Any]]:
    """Divide options into arguments of `Search` and arguments of its method, which rejects unknown ones."""
    setup = {name: value for name, value in options.items() if name in SetupOptions.__annotations__}
    arguments = {name: value for name, value in options.items() if name not in setup}
    return SetupOptions(**setup), arguments  # type: ignore[typeddict-item]
