"""What the members of a cascade say together, one after the other, and the certainties at which to stop.

A stage is a number of members after which one may stop. With c_j what stage j adds to the cost and e_j whether the mean of
its members is wrong, thresholds minimise, over N examples,

    sum_i  e_{s(i)}(i) + r (c_1 + ... + c_{s(i)}),    s(i) the stage at which example i stops,

for a rate r at which cost is exchanged for errors. As in QWYC (Wang, Gupta and You 2018) one threshold at a time is exact:
with the others held, stopping at j changes the sum by what each example that gets so far would have cost from there on, so
the best t_j is where the running total, in the order of certainty, is greatest. Going backwards the later thresholds are
known; a second sweep knows the earlier ones. Nothing but [S, N] certainties is kept of the probabilities.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch

from ensembles._library import Library
from ensembles._scores import top_class
from zoo.core import arrays
from zoo.core.stop_rules import RULES, Rule, certainties

# Thresholds that are tried for a member: so many quantiles of its certainties.
BINS = 1024
SWEEPS = 2


@dataclass(frozen=True, eq=False)
class Stages:
    """What growing beginnings of an order of models say together about N examples, [S, N] each.

    `ends` [S] are their numbers of members, the last being all. `certainty` is by rule.
    """

    ends: np.ndarray
    right: np.ndarray
    certainty: Mapping[Rule, np.ndarray]

    def stops(self, rule: Rule, thresholds: Sequence[float]) -> np.ndarray:
        """[N] the stage at which each example stops; stages behind the thresholds and one more are not reached."""
        return first_stop(self.certainty[rule][: len(thresholds)] >= np.asarray(thresholds, np.float64)[:, None])


def stage_ends(members: int) -> np.ndarray:
    """After how many members one may stop: any number up to 10, then steps that grow by a quarter, and all.

    >>> stage_ends(40).tolist()
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 17, 22, 28, 36, 40]
    """
    ends = [1]
    while ends[-1] < members:
        ends.append(min(members, ends[-1] + (1 if ends[-1] < 10 else ends[-1] // 4 + 1)))
    return np.array(ends)


def first_stop(certain: np.ndarray) -> np.ndarray:
    """[N] the first of S - 1 stages at which an example is certain [S - 1, N], or the last, S - 1.

    >>> first_stop(np.array([[True, False, False], [True, True, False]]))
    array([0, 1, 2])
    """
    return np.where(certain.any(0), certain.argmax(0), len(certain)) if len(certain) else np.zeros(certain.shape[1], int)


def stages(library: Library, order: Sequence[int], check: bool = False) -> Stages:
    """The stages of models in this order, streamed; `check`: whether rows are to be seen to be distributions."""
    ends = stage_ends(len(order))
    shape = (len(ends), len(library.labels))
    right = np.empty(shape, bool)
    found: dict[Rule, np.ndarray] = {rule: np.empty(shape, np.float32) for rule in RULES}

    def fill(span: slice) -> None:
        labels = library.labels[span]
        total = torch.zeros(
            (len(labels), library.num_classes), dtype=arrays.accumulation_dtype(library.device), device=library.device
        )
        first = torch.empty((len(order), len(labels)), dtype=torch.long, device=library.device)
        stage = 0
        for asked, model in enumerate(order, 1):
            p = library.read(model, span)
            if check:
                library.check(model, p.sum(1), float(p.amin()), span.start)
            total += p
            first[asked - 1] = top_class(p)
            if asked < ends[stage]:
                continue
            top = top_class(total)
            right[stage, span] = arrays.to_numpy(top == labels)
            for rule, value in certainties(total, top, (first[:asked] == top).sum(0), asked, asked).items():
                found[rule][stage, span] = arrays.to_numpy(value)
            stage += 1

    # Spans have nothing in common, and of what is done to one NumPy's part would else keep one core busy.
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        for _ in pool.map(fill, library.spans()):
            pass
    return Stages(ends, right, found)


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
    """[S - 1] the least bin that stops at each stage but the last, from bins [S - 1, N], errors [S, N] and costs [S].

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
