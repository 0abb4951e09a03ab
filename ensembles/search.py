"""Searches for an ensemble: set up once, asked as often as one likes; or one question in one call."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Unpack

from ensembles import _cascade, _choices, _greedy
from ensembles._cascade import Cascade
from ensembles._choices import Choice, Cost
from ensembles._library import Name
from ensembles._path import Path
from ensembles._setup import Options, Setup, at_least_one
from zoo.core.stop_rules import RULES, Rule
from zoo.errors import InputError

if TYPE_CHECKING:
    import pandas as pd


class Search(Setup):
    """Models read once on a selection split, and what to find out about ensembles of them.

    given: probabilities [M, N, K] (NumPy or torch, float16 to float64; a list or mapping of [N, K] works too), or Runs,
        whose calibrated probabilities are streamed from disk. labels: [N]; Runs bring their own.
    kind: what is given, and how it is combined. `probabilities` are averaged. `predictions` [M, N] (or those of any Runs)
        vote: class indices, or -1 for an answer that is none of the classes, which is no vote, counts as wrong, and is
        counted. The most frequent class wins, of equal ones the lowest; where nobody votes the ensemble is wrong.
    objective: accuracy, balanced-accuracy, nll, brier, or a function (probabilities [N, K], labels [N]) -> number, more
        is better. The first four are incremental; a function sees every candidate's whole ensemble at every step.
    base: the model (or models) that every ensemble contains, and from which a greedy search starts.
    candidates: which models may be picked; default: all. A name, an index or a pattern (`clip-*`), or a list of them. A
        boolean mask [M]. A mapping of card fields to a value or a list of values (`{"framework": "contrastive"}`), all of
        which must hold; its key `name` takes names and patterns, and `accuracy` a band (low, high) of the accuracy on the
        selection split, as fractions, None for no limit: `{"accuracy": (None, 0.78)}` is up to 78%.
    test_fraction: share of the examples, stratified and seeded, kept from the search for the report; 0 searches on all.
        split: rows (search, test) of one's own instead.
    seed: of the split, of random subsets and bags, and of bootstrap intervals.
    device: where Runs are computed; default: where they lie. progress: whether to show a bar on a terminal.

    Equal scores are decided by the lower NLL (of votes: by that of the label's share), and then by name.

    >>> import numpy as np
    >>> right = np.array([[0.9, 0.8, 0.4, 0.4], [0.8, 0.9, 0.4, 0.4], [0.3, 0.4, 0.9, 0.7]])  # [M, N], for class 0
    >>> search = Search(np.stack([right, 1 - right], 2), [0] * 4, test_fraction=0)
    >>> search.greedy(steps=1).members, search.best_subset(size=2).members, search.pair_scores().loc[0, 1]
    ([0, 2], (0, 2), np.float64(0.5))
    >>> search.best_partners()[["base", "partner", "alone", "pair"]].values.tolist()
    [[0.0, 2.0, 0.5, 1.0], [1.0, 2.0, 0.5, 1.0], [2.0, 0.0, 0.5, 1.0]]
    >>> search.random_subsets(size=2, draws=30).groupby("members").selection.mean().to_dict()
    {(0, 1): 0.5, (0, 2): 1.0, (1, 2): 1.0}
    >>> search.best_within(limit=5, cost=[3, 2, 3]).members
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
        budget: float | None = None,
        cost: Cost = "params",
        resamples: int = 1000,
    ) -> Path:
        """The path of ensembles found by adding, `steps` times, the candidate that scores best together with what is there.

        It is the path of a brute-force search, which at each step takes the best of all candidates' exact scores.

        steps: how many models are added to the start, which is the base, or without one the best single model.
        replace: whether a model may be added again, which gives weights (Caruana et al. 2004); else each at most once,
            and the path ends when the candidates do.
        init: a sorted start: the first `init` members are the best single models, in order, whatever they do together.
        stop_early: stop where no candidate improves the score, rather than after `steps`.
        bags: repeat the search on so many random samples of `bag_fraction` of the candidates and average the weights.
        budget: what the members may cost together, base included, as `cost` counts: see `best_within`.
        resamples: bootstrap resamples for the interval of the test gain.
        """
        at_least_one(steps=steps, init=init, resamples=resamples)
        if bags and budget is not None:
            raise InputError("bags: the average of several searches does not keep to a budget; leave one of them out")
        costs = None if budget is None else _choices.member_costs(self.library, cost)
        limit = math.inf if budget is None else budget
        rules = _greedy.Rules(steps + (not self.base), replace, init, stop_early, costs, limit)
        settings = {
            "steps": steps, "replace": replace, "init": init, "stop_early": stop_early, "bags": bags,
            "bag_fraction": bag_fraction if bags else None, "budget": budget,
        }  # fmt: skip
        return _greedy.find_path(self, rules, bags, bag_fraction, resamples, settings)

    def best_partners(self, bases: Sequence[Name] | None = None, resamples: int = 1000) -> "pd.DataFrame":
        """The best first model to add to each base (Gontijo-Lopes et al. 2021, Fig. 5 right), every pair tried.

        `bases` default to all models. One row per base: its partner and the partner's category against it, the score of
        the base alone and of the pair on the selection split and on the test split, the test gain and its 95% interval.
        """
        at_least_one(resamples=resamples)
        return _choices.partners(self, bases, resamples)

    def pair_scores(self) -> "pd.DataFrame":
        """[M, M] score of every two models together on the selection split; of one alone on the diagonal."""
        return _choices.pairs(self)

    def best_subset(self, size: int = 3) -> Choice:
        """The best of all subsets of `size` candidates, joined to the base where there is one, or an error if too many."""
        return _choices.best_of_size(self, size)

    def random_subsets(self, size: int = 3, draws: int = 100) -> "pd.DataFrame":
        """What chance finds: one row per random subset of `size` candidates, joined to the base: members and scores."""
        return _choices.draws_of_size(self, size, draws)

    def best_within(self, limit: float, cost: Cost = "params", max_size: int = 10) -> Choice:
        """The best ensemble of up to `max_size` models beside the base whose costs, base included, sum to at most `limit`.

        Few enough models: every subset is tried. Else the better of two greedy searches, by gain and by gain for its cost;
        `method` says which. `cost`: `params` counts parameters, `flops` the operations for one image, `latency` is the
        median of milliseconds for one image here and now; or a mapping by name, a sequence [M], or a function of the name.
        """
        return _choices.best_under(self, limit, cost, max_size)

    def pareto(self, cost: Cost = "params", max_size: int = 10) -> "pd.DataFrame":
        """The ensembles for which no other is both cheaper and better on the selection split, from the cheapest on.

        Columns: cost, members, size, selection, test. `frame.attrs["method"]` says whether every subset was tried, or what
        greedy searches met under a range of limits. Arguments as in `best_within`.
        """
        return _choices.front(self, cost, max_size)

    def cascade(
        self,
        steps: int = 10,
        *,
        members: Sequence[Name] | None = None,
        cost: Cost = "flops",
        rules: Sequence[Rule] = RULES,
        loss: float = 0.001,
        budget: float | None = None,
        resamples: int = 1000,
    ) -> Cascade:
        """An ensemble's accuracy at a fraction of its cost: members are asked in turn, until the mean of them is certain.

        Order, rule and thresholds are fitted on the selection split and cross-fitted there; the test split judges. It is
        the cheapest on the front that loses no more than `loss`, or with a `budget` the best whose mean cost is within it.

        members: those of the ensemble, in the order found; default: the best that greedy search finds in `steps`. Asked in
            this order or from the cheapest on, whichever is on the front.
        cost: of a member for one image, as in `best_within`. rules: what may decide that the asking ends: the mean's
            `confidence`, its `margin`, or the members' `agreement`; all are tried.
        loss: the share of the examples that may be lost against the ensemble of all members. budget: the mean cost of one
            image, at most. resamples: for the interval of the difference.
        """
        return _cascade.find(self, steps, members, cost, rules, loss, budget, resamples)


def greedy(
    given: Any,
    labels: Any = None,
    *,
    steps: int = 10,
    replace: bool = False,
    init: int = 1,
    stop_early: bool = False,
    bags: int = 0,
    bag_fraction: float = 0.5,
    budget: float | None = None,
    cost: Cost = "params",
    resamples: int = 1000,
    **options: Unpack[Options],
) -> Path:
    """`Search(given, labels, **options).greedy(...)`: add, again and again, the model that helps most.

    >>> votes = [[0, 1, 2, 0], [0, 1, 0, 2], [1, 0, 2, 2]]
    >>> path = greedy(votes, [0, 1, 2, 2], kind="predictions", steps=2, test_fraction=0)
    >>> path.members, path.score
    ([0, 1, 2], [0.75, 0.5, 1.0])
    """
    return Search(given, labels, **options).greedy(
        steps, replace=replace, init=init, stop_early=stop_early, bags=bags, bag_fraction=bag_fraction, budget=budget,
        cost=cost, resamples=resamples,
    )  # fmt: skip


def best_partners(
    given: Any,
    labels: Any = None,
    bases: Sequence[Name] | None = None,
    resamples: int = 1000,
    **options: Unpack[Options],
) -> "pd.DataFrame":
    """`Search(given, labels, **options).best_partners(...)`: the best first model to add to each."""
    return Search(given, labels, **options).best_partners(bases, resamples)


def pair_scores(given: Any, labels: Any = None, **options: Unpack[Options]) -> "pd.DataFrame":
    """`Search(given, labels, **options).pair_scores()`: the score of every two models together."""
    return Search(given, labels, **options).pair_scores()


def best_subset(given: Any, labels: Any = None, size: int = 3, **options: Unpack[Options]) -> Choice:
    """`Search(given, labels, **options).best_subset(size)`: the best of all."""
    return Search(given, labels, **options).best_subset(size)


def random_subsets(
    given: Any, labels: Any = None, size: int = 3, draws: int = 100, **options: Unpack[Options]
) -> "pd.DataFrame":
    """`Search(given, labels, **options).random_subsets(size, draws)`: what chance finds."""
    return Search(given, labels, **options).random_subsets(size, draws)


def best_within(
    given: Any,
    labels: Any = None,
    *,
    limit: float,
    cost: Cost = "params",
    max_size: int = 10,
    **options: Unpack[Options],
) -> Choice:
    """`Search(given, labels, **options).best_within(limit, cost, max_size)`: the best that one can pay for."""
    return Search(given, labels, **options).best_within(limit, cost, max_size)


def pareto(
    given: Any, labels: Any = None, *, cost: Cost = "params", max_size: int = 10, **options: Unpack[Options]
) -> "pd.DataFrame":
    """`Search(given, labels, **options).pareto(cost, max_size)`: the front of cost and score."""
    return Search(given, labels, **options).pareto(cost, max_size)


def cascade(
    given: Any,
    labels: Any = None,
    *,
    steps: int = 10,
    members: Sequence[Name] | None = None,
    cost: Cost = "flops",
    rules: Sequence[Rule] = RULES,
    loss: float = 0.001,
    budget: float | None = None,
    resamples: int = 1000,
    **options: Unpack[Options],
) -> Cascade:
    """`Search(given, labels, **options).cascade(...)`: ask members in turn, until they are certain (Wang et al. 2021).

    >>> import numpy as np
    >>> sure, unsure = [[0.9, 0.1]] * 8, [[0.45, 0.55]] * 2  # the first model is wrong only where it is unsure
    >>> found = cascade([np.array(sure + unsure), np.array([[0.8, 0.2]] * 10)], [0] * 10, members=[0, 1], cost=[1, 9],
    ...     rules=["confidence"], test_fraction=0)
    >>> found.members, found.rule, found.asked, found.score, found.cost
    ([0, 1], 'confidence', [1.0, 0.2], 1.0, 2.8)
    """
    return Search(given, labels, **options).cascade(
        steps, members=members, cost=cost, rules=rules, loss=loss, budget=budget, resamples=resamples
    )
