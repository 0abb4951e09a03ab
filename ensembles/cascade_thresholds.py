"""Stages of a cascade and the certainty thresholds at which it stops.

A stage is a number of members after which the cascade may stop. Let c_j be the cost that stage j adds, and e_j whether the
mean of its members is wrong. The thresholds minimise, over N examples,

    sum_i  e_{s(i)}(i) + r (c_1 + ... + c_{s(i)}),    s(i) the stage at which example i stops,

for a rate r at which cost is exchanged for errors. As in QWYC (Wang, Gupta and You 2018), one threshold at a time is exact.
With the others fixed, stopping an example at j instead of going on saves a known amount. So the best t_j maximises the total
saving of the examples that are at least that certain. The thresholds are fitted from the last stage to the first; a second
sweep takes the earlier thresholds into account. Only certainties [S, N] are kept in memory.
"""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch

from ensembles.model_library import ModelLibrary
from ensembles.scores import top_class
from zoo.core import arrays
from zoo.core.stop_rules import RULES, Rule, Stopping, certainties

MAX_THRESHOLDS = 1024  # tried per stage, at quantiles of its certainties
SWEEPS = 2


@dataclass(frozen=True, eq=False)
class Stages:
    """Predictions and certainties of the first 1, 2, ... members of an order of models, on N examples."""

    sizes: np.ndarray  # [S] numbers of members; the last is all of them
    correct: np.ndarray  # [S, N] bool
    certainty: Mapping[Rule, np.ndarray]  # [S, N] by rule

    def stopping_stage(self, rule: Rule, thresholds: Sequence[float]) -> np.ndarray:
        """Return the stage [N] at which each example stops. With T thresholds, stages above T are not reached."""
        return first_stop(self.certainty[rule][: len(thresholds)] >= np.asarray(thresholds, np.float64)[:, None])


def stage_sizes(members: int) -> np.ndarray:
    """Return the numbers of members after which a cascade may stop: all up to 10, then growing by a quarter, and the last.

    >>> stage_sizes(40).tolist()
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 13, 17, 22, 28, 36, 40]
    """
    sizes = [1]
    while sizes[-1] < members:
        sizes.append(min(members, sizes[-1] + (1 if sizes[-1] < 10 else sizes[-1] // 4 + 1)))
    return np.array(sizes)


def first_stop(certain: np.ndarray) -> np.ndarray:
    """Return the first of S - 1 stages at which an example is `certain` [S - 1, N], or the last stage, S - 1; [N].

    >>> first_stop(np.array([[True, False, False], [True, True, False]]))
    array([0, 1, 2])
    """
    return np.where(certain.any(0), certain.argmax(0), len(certain)) if len(certain) else np.zeros(certain.shape[1], int)


def read_stages(library: ModelLibrary, order: Sequence[int], check: bool = False) -> Stages:
    """Return the stages of models in this order, in one pass over the rows; `check` refuses rows that do not sum to one."""
    sizes = stage_sizes(len(order))
    shape = (len(sizes), len(library.labels))
    correct = np.empty(shape, bool)
    certainty: dict[Rule, np.ndarray] = {rule: np.empty(shape, np.float32) for rule in RULES}

    def fill(span: slice) -> None:
        labels = library.labels[span]
        total = torch.zeros(
            (len(labels), library.num_classes), dtype=arrays.accumulation_dtype(library.device), device=library.device
        )
        predictions = torch.empty((len(order), len(labels)), dtype=torch.long, device=library.device)
        stage = 0
        for size, model in enumerate(order, 1):
            p = library.rows(model, span)
            if check:
                library.check(model, p.sum(1), float(p.amin()), span.start)
            total += p
            predictions[size - 1] = top_class(p)
            if size < sizes[stage]:
                continue
            top = top_class(total)
            correct[stage, span] = arrays.to_numpy(top == labels)
            for rule, value in certainties(total, top, (predictions[:size] == top).sum(0), size, size).items():
                certainty[rule][stage, span] = arrays.to_numpy(value)
            stage += 1

    # Chunks are independent, and the NumPy part of each would keep only one core busy.
    with ThreadPoolExecutor(torch.get_num_threads()) as pool:
        for _ in pool.map(fill, library.chunks()):
            pass
    return Stages(sizes, correct, certainty)


def stopped_probabilities(library: ModelLibrary, members: Sequence[int], stopping: Stopping) -> torch.Tensor:
    """Return the mean probabilities [N, K] of the members that a cascade evaluates for each example."""
    mean = torch.empty((len(library.labels), library.num_classes), device=library.device)
    for span in library.chunks():
        remaining = torch.arange(span.start, span.start + len(mean[span]), device=library.device)
        total = torch.zeros(mean[span].shape, dtype=arrays.accumulation_dtype(library.device), device=library.device)
        predictions = remaining.new_empty(0, len(remaining))
        for size, model in enumerate(members, 1):
            p = library.rows(model, remaining)
            total += p
            mean[remaining] = (total / size).to(mean.dtype)
            if size > len(stopping.thresholds):
                break
            top, predictions = top_class(total), torch.cat([predictions, top_class(p)[None]])
            certainty = certainties(total, top, (predictions == top).sum(0), size, size)[stopping.rule]
            uncertain = certainty.float().double() < stopping.thresholds[size - 1]  # compared as in `read_stages`
            remaining, total, predictions = remaining[uncertain], total[uncertain], predictions[:, uncertain]
    return mean


def candidate_thresholds(certainty: np.ndarray) -> np.ndarray:
    """Return ascending thresholds between distinct certainties [N], at most `MAX_THRESHOLDS`, at their quantiles.

    >>> candidate_thresholds(np.array([0.5, 0.9, 0.5, 1.0])).tolist()
    [0.7, 0.95]
    """
    values = np.unique(certainty.astype(np.float64))
    ranks = np.searchsorted(np.sort(certainty), values)[1:]  # examples below each value except the lowest
    step = max(1, len(certainty) // MAX_THRESHOLDS)
    kept = np.flatnonzero(np.diff(ranks // step, prepend=-1)) + 1
    return (values[kept] + values[kept - 1]) / 2


def fit_cuts(bins: np.ndarray, wrong: np.ndarray, costs: np.ndarray, rate: float) -> np.ndarray:
    """Return the cut [S - 1] of each stage except the last: the lowest bin that stops there. Ties go to the lowest cut.

    A cut of 0 stops every example, and a cut above every bin stops none.

    Args:
        bins: [S - 1, N] bins of the certainties.
        wrong: [S, N] whether the prediction is wrong.
        costs: [S] cost that each stage adds.
        rate: errors to accept for one unit of cost.
    """
    cuts = np.zeros(len(bins), np.int64)
    width = int(bins.max(initial=0)) + 1
    reached = np.ones(bins.shape, bool)
    price = rate * costs
    for _ in range(SWEEPS):
        value = wrong[-1] + price[-1]  # what an example that reaches this stage costs from here on
        for stage in reversed(range(len(bins))):
            rows = reached[stage]
            saved = np.bincount(bins[stage][rows], (value - wrong[stage])[rows], width)
            # Rounded, so that totals that differ by rounding errors only are equal; argmax then returns the lowest cut.
            totals = np.append(saved[::-1].cumsum()[::-1], 0.0).round(9)
            cuts[stage] = totals.argmax()
            value = np.where(bins[stage] >= cuts[stage], wrong[stage], value) + price[stage]
        certain = bins >= cuts[:, None]
        reached = (
            np.vstack([np.ones_like(reached[:1]), ~np.logical_or.accumulate(certain, 0)[:-1]]) if len(bins) else reached
        )
    return cuts
