"""What the members of a cascade say together, one after the other, and the certainties at which to stop.

With c_j the members' costs and e_j whether the mean of the first j is wrong, thresholds minimise, over N examples,

    sum_i  e_{s(i)}(i) + r (c_1 + ... + c_{s(i)}),    s(i) the member after which example i stops,

for a rate r at which cost is exchanged for errors. As in QWYC (Wang, Gupta and You 2018) one threshold at a time is exact:
with the others held, stopping at j changes the sum by what each example that gets so far would have cost from there on, so
the best t_j is where the running total, in the order of certainty, is greatest. Going backwards the later thresholds are
known; a second sweep knows the earlier ones. Nothing but [L, N] certainties is kept of the probabilities.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ensembles._library import Library
from ensembles._scores import top_class
from zoo._numbers import arrays
from zoo._numbers.stopping import RULES, Rule, certainties

# Thresholds that are tried for a member: so many quantiles of its certainties.
BINS = 1024
SWEEPS = 2


@dataclass(frozen=True, eq=False)
class Stages:
    """What the first 1, 2, ..., L members of an order say together about N examples, [L, N] each."""

    right: np.ndarray
    certainty: Mapping[Rule, np.ndarray]

    def stops(self, rule: Rule, thresholds: Sequence[float]) -> np.ndarray:
        """[N] after how many members beside the first each example stops; members behind the thresholds are not asked."""
        return first_stop(self.certainty[rule][: len(thresholds)] >= np.asarray(thresholds, np.float64)[:, None])


def first_stop(certain: np.ndarray) -> np.ndarray:
    """[N] the first of L - 1 stages at which an example is certain [L - 1, N], or the last, L - 1.

    >>> first_stop(np.array([[True, False, False], [True, True, False]]))
    array([0, 1, 2])
    """
    return np.where(certain.any(0), certain.argmax(0), len(certain)) if len(certain) else np.zeros(certain.shape[1], int)


def stages(library: Library, order: Sequence[int], check: bool = False) -> Stages:
    """The stages of models in this order, streamed; `check`: whether rows are to be seen to be distributions."""
    shape = (len(order), len(library.labels))
    right = np.empty(shape, bool)
    found: dict[Rule, np.ndarray] = {rule: np.empty(shape, np.float32) for rule in RULES}
    for span in library.spans():
        labels = library.labels[span]
        total = torch.zeros((len(labels), library.num_classes), dtype=arrays.wide(library.device), device=library.device)
        first = torch.empty((len(order), len(labels)), dtype=torch.long, device=library.device)
        for stage, model in enumerate(order):
            p = library.read(model, span)
            if check:
                library.check(model, p.sum(1), float(p.amin()), span.start)
            total += p
            top, first[stage] = top_class(total), top_class(p)
            votes = (first[: stage + 1] == top).sum(0)
            right[stage, span] = arrays.host(top == labels)
            for rule, value in certainties(total, top, votes, stage + 1, stage + 1).items():
                found[rule][stage, span] = arrays.host(value)
    return Stages(right, found)


def edges(certainty: np.ndarray) -> np.ndarray:
    """Rising thresholds between certainties [N] that differ, at most `BINS`, at their quantiles.

    >>> edges(np.array([0.5, 0.9, 0.5, 1.0])).tolist()
    [0.7, 0.95]
    """
    values = np.unique(certainty.astype(np.float64))
    ranks = np.searchsorted(np.sort(certainty), values)[1:]  # examples below each value but the least
    step = max(1, len(certainty) // BINS)
    kept = np.flatnonzero(np.diff(ranks // step, prepend=-1)) + 1
    return (values[kept] + values[kept - 1]) / 2


def fit_cuts(bins: np.ndarray, wrong: np.ndarray, costs: np.ndarray, rate: float) -> np.ndarray:
    """[L - 1] the least bin that stops after each member but the last, from bins [L - 1, N] and errors [L, N].

    A cut of 0 stops everything, one above every bin nothing. Of equally good cuts the one that stops most.
    """
    cuts = np.zeros(len(bins), np.int64)
    width = int(bins.max(initial=0)) + 1
    reached = np.ones(bins.shape, bool)
    price = rate * costs
    for _ in range(SWEEPS):
        value = wrong[-1] + price[-1]  # what an example that gets so far costs from here on
        for stage in reversed(range(len(bins))):
            rows = reached[stage]
            saved = np.bincount(bins[stage][rows], (value - wrong[stage])[rows], width)
            # Equal but for rounding is equal: then the lowest cut.
            totals = np.append(saved[::-1].cumsum()[::-1], 0.0).round(9)
            cuts[stage] = totals.argmax()
            value = np.where(bins[stage] >= cuts[stage], wrong[stage], value) + price[stage]
        certain = bins >= cuts[:, None]
        reached = (
            np.vstack([np.ones_like(reached[:1]), ~np.logical_or.accumulate(certain, 0)[:-1]]) if len(bins) else reached
        )
    return cuts
