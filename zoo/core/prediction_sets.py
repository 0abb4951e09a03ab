"""Prediction sets: the classes whose nonconformity score is at most a threshold.

`zoo.calibration.conformal` fits thresholds, and models whose cards have a `SetRule` apply them. Both compute scores here.

The score of LAC is 1 - p. APS and RAPS sort the classes by decreasing probability, ties by class index. With one random
number u per example, the score of a class is

    sum of p over the classes before it + u p + penalty max(0, rank - free).
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from zoo.core import arrays, checks, typed
from zoo.core.arrays import Array
from zoo.core.backend import single_or_double
from zoo.errors import InputError

Method = Literal["lac", "aps", "raps"]
Conditioning = Literal["marginal", "class", "cluster"]
_PART = 2**19  # numbers that are scored at once, few enough for the processor's cache
_FIRST = 64  # classes that are scored first: few sets are larger


class LabelPlaces(NamedTuple):
    """The position of each example's label among the classes in order of decreasing probability."""

    probability: np.ndarray  # [N]
    before: np.ndarray  # [N] sum of the probabilities of the classes before it
    rank: np.ndarray  # [N] 1 for the first class


def label_places(p: np.ndarray, labels: np.ndarray) -> LabelPlaces:
    """Return the positions of labels [N] among probabilities [N, K], without sorting."""
    own = p[np.arange(len(p)), labels]
    above = p > own[:, None]
    before, rank = np.einsum("nk,nk->n", p, above), count_true(above) + 1
    tied = np.flatnonzero(count_true(p == own[:, None]) > 1)
    first = count_true((p[tied] == own[tied, None]) & (np.arange(p.shape[1]) < labels[tied, None]))
    before[tied] += first.astype(p.dtype) * own[tied]
    rank[tied] += first
    return LabelPlaces(own, before, rank)


@dataclass(frozen=True)
class Score:
    """A nonconformity score: how badly a class fits an example."""

    method: Method
    penalty: float = 0.0  # RAPS: added for each class beyond `free`
    free: int = 0

    def of_classes(self, p: np.ndarray, draws: np.ndarray) -> np.ndarray:
        """Return the score [N, K] of every class, given probabilities [N, K] and u [N]."""
        if self.method == "lac":
            return 1 - p
        order = np.argsort(-p, 1, kind="stable")
        ranked, scores = np.take_along_axis(p, order, 1), np.empty_like(p)
        np.put_along_axis(scores, order, self.at(ranked, *_before(ranked), draws[:, None]), 1)
        return scores

    def of_labels(self, places: LabelPlaces, draws: np.ndarray) -> np.ndarray:
        """Return the scores [N] of labels."""
        return self.at(places.probability, places.before, places.rank, draws)

    def sets(self, p: np.ndarray, threshold: float, draws: np.ndarray) -> np.ndarray:
        """Return the sets [N, K] for one threshold. It sorts probabilities, which is faster than sorting class indices."""
        ascending = np.sort(p, 1)
        size = set_sizes(ascending, [(self, threshold)], draws)[0]
        least = ascending[np.arange(len(size)), -np.maximum(size, 1)]
        sets: np.ndarray = p >= np.where(size > 0, least, np.inf)[:, None]
        tied = np.flatnonzero(count_true(sets) > size)
        if len(tied):
            sets[tied] = self.of_classes(p[tied], draws[tied]) <= threshold
        return sets

    def at(self, p: np.ndarray, before: np.ndarray, rank: np.ndarray, draws: np.ndarray) -> np.ndarray:
        """Return the scores of classes from their probabilities, the sums of those before them, and their ranks."""
        if self.method == "lac":
            return 1 - p
        scores: np.ndarray = before + draws.astype(p.dtype) * p
        if self.penalty:
            scores += p.dtype.type(self.penalty) * np.maximum(rank - self.free, 0).astype(p.dtype)
        return scores


def set_sizes(ascending: np.ndarray, scores: Sequence[tuple[Score, float]], draws: np.ndarray) -> np.ndarray:
    """Return the sizes [S, N] of the sets of S scores with their thresholds.

    A set consists of the most probable classes, because no class has a lower score than a more probable one.

    Args:
        ascending: [N, K] the probabilities of each row in ascending order.
        scores: scores and their thresholds.
        draws: [N] random numbers u.
    """

    def count(ascending: np.ndarray, draws: np.ndarray) -> np.ndarray:
        ranked = ascending[:, ::-1]
        before, rank = _before(ranked)
        return np.stack([count_true(one.at(ranked, before, rank, draws[:, None]) <= limit) for one, limit in scores])

    sizes = count(ascending[:, -_FIRST:], draws)
    longer = np.flatnonzero((sizes == _FIRST).any(0))
    sizes[:, longer] = count(ascending[longer], draws[longer])
    return sizes


def _before(ranked: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the summed probability [N, K] before each class and the ranks [K], for probabilities in descending order."""
    sums = ranked.cumsum(1, dtype=np.float64).astype(ranked.dtype)
    return sums - ranked, np.arange(1, ranked.shape[1] + 1)


@dataclass(frozen=True)
class SetRule:
    """Fitted thresholds and the score they apply to. The fields are those of `details.sets` on a card."""

    method: Method
    alpha: float  # accepted probability that a set misses the true class
    thresholds: list[float | None]  # one for all classes, or one per class; None: every set holds the class
    classes: int
    conditioning: Conditioning
    calibration_examples: int
    penalty: float = 0.0
    free: int = 0
    randomised: bool = True
    fitted_on: str = ""  # which examples, in words

    def __post_init__(self) -> None:
        if not 0 < self.alpha < 1:
            raise InputError(argument="alpha", expected="between 0 and 1", found=self.alpha)
        if len(self.thresholds) not in (1, self.classes):
            expected = f"one number, or one for each of {self.classes} classes"
            raise InputError(argument="thresholds", expected=expected, found=len(self.thresholds))

    @property
    def score(self) -> Score:
        return Score(self.method, self.penalty, self.free)

    @property
    def limits(self) -> np.ndarray:
        """The thresholds, infinite where every set holds the class."""
        return np.array([np.inf if one is None else one for one in self.thresholds])

    def predict_sets(self, probabilities: Array, seed: int = 0) -> np.ndarray:
        """Return the prediction sets as a boolean array [N, K].

        Args:
            probabilities: [N, K].
            seed: of the randomisation of APS and RAPS, which makes coverage exact rather than conservative.
        """
        shape = checks.matrix(probabilities, "probabilities").shape
        if shape[1] != self.classes:
            raise InputError(argument="probabilities", expected=f"{self.classes} columns", found=shape[1])
        limits = self.limits
        rng = np.random.default_rng(arrays.seed(seed))
        sets = np.empty(tuple(shape), bool)
        for rows, p in parts(probabilities):
            draws = rng.random(len(p)) if self.randomised else np.ones(len(p))
            if len(limits) == 1:
                sets[rows] = self.score.sets(p, float(limits[0]), draws)
            else:
                sets[rows] = self.score.of_classes(p, draws) <= limits
        return sets

    def __str__(self) -> str:
        by = {"marginal": "", "class": ", a threshold per class", "cluster": ", a threshold per cluster of classes"}
        examples = self.fitted_on or f"{self.calibration_examples:,} examples"
        return f"{100 * (1 - self.alpha):g}% coverage by {self.method.upper()}{by[self.conditioning]}, fitted on {examples}"


def read_rule(details: Mapping[str, Any], where: str) -> SetRule | None:
    """Return the rule in a card's details, None if there is none; `where` names the card in errors."""
    found = details.get("sets")
    return None if found is None else typed.build(SetRule, found, where, "zoo.details.sets")


def parts(probabilities: Array, rows: np.ndarray | None = None) -> Iterator[tuple[slice, np.ndarray]]:
    """Yield blocks of rows, as a slice and the checked probabilities in float32 or float64 on the CPU.

    Args:
        probabilities: [N, K].
        rows: [n] the rows to read, in this order; default: all. The slices then refer to these n rows.
    """
    p = checks.matrix(probabilities, "probabilities")
    p = arrays.by_size(p, math.prod(p.shape))  # torch converts float16 many times as fast as NumPy
    step = max(1, _PART // p.shape[1])
    for start in range(0, len(p) if rows is None else len(rows), step):
        span = slice(start, start + step)
        part = arrays.to_numpy(single_or_double(p[span if rows is None else rows[span]]))
        if not _are_distributions(part):
            checks.probabilities(p)  # raises an error that names the row
        yield span, part


def _are_distributions(p: np.ndarray) -> bool:
    """Return whether no probability is negative and every row sums to one, by two fast passes."""
    sums = p @ np.ones(p.shape[1], p.dtype)
    return bool(p.min() >= 0 and (np.abs(sums - 1) <= arrays.SUM_TOLERANCE).all())


def count_true(values: np.ndarray) -> np.ndarray:
    """Return how many values of each row [N, K] are true, several times as fast as NumPy counts booleans."""
    return values.view(np.uint8).sum(1, dtype=np.uint32).astype(np.int64)
