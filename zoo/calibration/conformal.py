"""Split-conformal prediction sets: sets of classes that hold the true one with a chosen probability.

A score measures how badly a class fits an example. The quantile of the true classes' scores on calibration examples is the
threshold: a set holds every class whose score is at most that. If calibration and test examples are exchangeable, a new set
covers the true class with probability at least 1 - alpha, whatever the model. Over calibration sets of size n the coverage
is distributed as Beta(k, n + 1 - k) with k = ceil((n + 1)(1 - alpha)).

The calibration examples must not have been used to choose the ensemble or to fit its temperature.
"""

import functools
import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, get_args

import numpy as np

from zoo.core import arrays, checks
from zoo.core.arrays import Array
from zoo.core.prediction_sets import (
    Conditioning,
    LabelPlaces,
    Method,
    Score,
    SetRule,
    count_true,
    label_places,
    parts,
    set_sizes,
)
from zoo.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

SCORES = (Score("lac"), Score("aps"), Score("raps", penalty=0.01, free=1))
MIN_PER_CLUSTER = 20  # calibration examples that a class needs to be clustered by its scores; rarer classes share a group


class ConformalPredictor(SetRule):
    """Fitted prediction sets, which can be evaluated."""

    def evaluate(self, probabilities: Array, labels: Array, seed: int = 0) -> "SetReport":
        """Return coverage and size of the sets on labelled examples that were not used for calibration."""
        y = arrays.to_numpy(checks.labels(labels, self.classes))
        return evaluate_sets(self.predict_sets(probabilities, seed), y, self.alpha, self.calibration_examples)


def fit_conformal(
    probabilities: Array,
    labels: Array,
    alpha: float = 0.1,
    method: Method = "lac",
    conditioning: Conditioning = "marginal",
    penalty: float = 0.01,
    free: int = 1,
    randomised: bool = True,
    seed: int = 0,
) -> ConformalPredictor:
    """Fit prediction sets on calibration examples.

    Args:
        probabilities: [N, K] on calibration examples.
        labels: [N].
        alpha: accepted probability that a set misses the true class.
        method: `lac` (Sadinle et al. 2019: smallest sets), `aps` (Romano et al. 2020: adapts to the example), `raps`
            (Angelopoulos et al. 2021: APS with a penalty on large sets).
        conditioning: `marginal`, one threshold; `class`, one per class (Mondrian); `cluster`, one per group of classes with
            similar scores (Ding et al. 2023).
        penalty: penalty of RAPS for each class after the first `free` ones.
        free: number of classes without a penalty.
        randomised: whether APS and RAPS randomise the last class of a set.
        seed: random seed of the randomisation and of the clustering.

    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet(np.ones(4), 2000)
    >>> y = np.array([rng.choice(4, p=row) for row in p])
    >>> sets = fit_conformal(p[:1000], y[:1000], alpha=0.2).predict_sets(p[1000:])
    >>> round(float(sets[np.arange(1000), y[1000:]].mean()), 1)
    0.8
    """
    if method not in get_args(Method):
        raise InputError(argument="method", expected=" or ".join(get_args(Method)), found=method)
    if conditioning not in get_args(Conditioning):
        raise InputError(argument="conditioning", expected=" or ".join(get_args(Conditioning)), found=conditioning)
    shape = checks.matrix(probabilities, "probabilities").shape
    y = arrays.to_numpy(checks.labels(labels, shape[1], shape[0]))
    score = Score(method, penalty, free) if method == "raps" else Score(method)
    places = _places(probabilities, y, np.arange(len(y)))
    return _fit(score, places, y, shape[1], alpha, conditioning, randomised and method != "lac", seed)


def fit_and_evaluate(
    probabilities: Array,
    labels: Array,
    fitted: np.ndarray,
    alpha: float = 0.1,
    seed: int = 0,
    conditioning: Conditioning = "marginal",
) -> "dict[Method, SetReport]":
    """Fit the sets of all `SCORES` on some examples and evaluate them on the others.

    The results equal `fit_conformal` and `evaluate` for each score. Marginal sets take one pass over the data: each example
    is sorted once for all scores.

    Args:
        probabilities: [N, K].
        labels: [N].
        fitted: [N] mask of the calibration examples.
        alpha: accepted probability that a set misses the true class.
        seed: random seed of the randomisation and of the clustering.
        conditioning: which classes share a threshold, as in `fit_conformal`.
    """
    shape = checks.matrix(probabilities, "probabilities").shape
    y = arrays.to_numpy(checks.labels(labels, shape[1], shape[0]))
    calibration, test = np.flatnonzero(fitted), np.flatnonzero(~fitted)
    places = _places(probabilities, y[calibration], calibration)
    rules = [
        _fit(score, places, y[calibration], shape[1], alpha, conditioning, score.method != "lac", seed) for score in SCORES
    ]
    if conditioning != "marginal":
        others = checks.matrix(probabilities, "probabilities")[test]
        return {rule.method: rule.evaluate(others, y[test], seed) for rule in rules}
    sizes, rank = np.empty((len(rules), len(test)), np.int64), np.empty(len(test), np.int64)
    draws = np.random.default_rng(arrays.seed(seed)).random(len(test))
    limits = [(rule.score, float(rule.limits[0])) for rule in rules]
    for rows, p in parts(probabilities, test):
        rank[rows] = label_places(p, y[test[rows]]).rank
        sizes[:, rows] = set_sizes(np.sort(p, 1), limits, draws[rows])
    covered = rank <= sizes  # a set holds the first classes by probability
    return {
        rule.method: _report(size, inside, y[test], alpha, len(calibration))
        for rule, size, inside in zip(rules, sizes, covered, strict=True)
    }


def _places(probabilities: Array, labels: np.ndarray, rows: np.ndarray) -> LabelPlaces:
    """Return the places of labels [n] in rows [n] of probabilities [N, K]."""
    found = [label_places(p, labels[span]) for span, p in parts(probabilities, rows)]
    return LabelPlaces(*map(np.concatenate, zip(*found, strict=True)))


def _fit(
    score: Score,
    places: LabelPlaces,
    labels: np.ndarray,
    classes: int,
    alpha: float,
    conditioning: Conditioning,
    randomised: bool,
    seed: int,
) -> ConformalPredictor:
    """Return the predictor of labels [n] at places [n] of the calibration examples."""
    if not 0 < alpha < 1:
        raise InputError(argument="alpha", expected="between 0 and 1", found=alpha)
    rng = np.random.default_rng(arrays.seed(seed))
    own = score.of_labels(places, rng.random(len(labels)) if randomised else np.ones(len(labels)))
    groups = _groups(own, labels, classes, conditioning, alpha, seed)
    by_group = {group: quantile(own[groups[labels] == group], alpha) for group in np.unique(groups)}
    thresholds = [by_group[group] for group in (groups if conditioning != "marginal" else groups[:1])]
    return ConformalPredictor(
        method=score.method,
        alpha=alpha,
        thresholds=[None if math.isinf(one) else one for one in thresholds],
        classes=classes,
        conditioning=conditioning,
        calibration_examples=len(labels),
        randomised=randomised,
        penalty=score.penalty,
        free=score.free,
    )


def quantile(scores: np.ndarray, alpha: float) -> float:
    """Return the ceil((n + 1)(1 - alpha))-th smallest score; infinity if there are too few, so that sets hold every class.

    >>> quantile(np.arange(1.0, 10.0), 0.2), quantile(np.arange(3.0), 0.1)
    (8.0, inf)
    """
    rank = math.ceil((len(scores) + 1) * (1 - alpha) - 1e-9)
    return float(np.partition(scores, rank - 1)[rank - 1]) if rank <= len(scores) else math.inf


@dataclass(frozen=True, eq=False)
class SetReport:
    """How often prediction sets hold the true class, and how large they are."""

    coverage: float
    expected: tuple[float, float]  # 95% of such coverages lie in this interval if marginal sets are valid (beta-binomial)
    mean_size: float
    mean_size_interval: tuple[float, float]  # 95%, by the normal approximation; NaN for a single example
    empty: float  # fraction of empty sets
    by_size: "pd.DataFrame"  # size, examples, coverage
    worst_class: tuple[int, float]  # class with the lowest coverage, and that coverage
    examples: int
    covered: np.ndarray  # [N] whether the set of each example holds its label

    @property
    def size_stratified_coverage(self) -> float:
        """The lowest coverage over groups of set sizes with at least 20 examples. Empty sets are left out."""
        large = self.by_size[(self.by_size["examples"] >= MIN_PER_CLUSTER) & (self.by_size["size"] > 0)]
        return float(large["coverage"].min()) if len(large) else float("nan")


def evaluate_sets(sets: np.ndarray, labels: np.ndarray, alpha: float, calibration_examples: int) -> SetReport:
    """Return coverage and sizes of prediction sets [N, K] against labels [N]."""
    covered = sets[np.arange(len(labels)), labels]
    return _report(count_true(np.ascontiguousarray(sets)), covered, labels, alpha, calibration_examples)


def _report(
    sizes: np.ndarray, covered: np.ndarray, labels: np.ndarray, alpha: float, calibration_examples: int
) -> SetReport:
    """Return the report on sets of sizes [N] that cover the labels [N] or not [N]."""
    import pandas as pd

    frame = pd.DataFrame({"size": _size_bins(sizes), "covered": covered})
    by_size = frame.groupby("size", sort=True)["covered"].agg(examples="size", coverage="mean").reset_index()
    hits, counts = np.bincount(labels, covered), np.bincount(labels)
    per_class = np.where(counts > 0, hits / np.maximum(counts, 1), np.inf)
    worst = int(per_class.argmin())
    mean = float(sizes.mean())
    half = 1.96 * float(sizes.std(ddof=1)) / math.sqrt(len(sizes)) if len(sizes) > 1 else math.nan
    return SetReport(
        coverage=float(covered.mean()),
        expected=coverage_interval(calibration_examples, len(labels), alpha),
        mean_size=mean,
        mean_size_interval=(mean - half, mean + half),
        empty=float((sizes == 0).mean()),
        by_size=by_size,
        worst_class=(worst, float(per_class[worst])),
        examples=len(labels),
        covered=covered,
    )


@functools.cache  # the models of a study have the same numbers of examples
def coverage_interval(calibration: int, test: int, alpha: float, level: float = 0.95) -> tuple[float, float]:
    """Return the central interval of the coverage on `test` examples over calibration sets of one size (beta-binomial).

    >>> [round(end, 3) for end in coverage_interval(1000, 1000, 0.1)]
    [0.873, 0.925]
    """
    from scipy.special import betaln

    rank = math.ceil((calibration + 1) * (1 - alpha) - 1e-9)
    if rank > calibration:
        return 1.0, 1.0
    tail = (1 - level) / 2
    # n choose k has the logarithm -log(n + 1) - betaln(k + 1, n - k + 1).
    covered, misses = np.arange(test + 1), test - np.arange(test + 1)
    log_pmf = betaln(covered + rank, misses + calibration + 1 - rank) - betaln(covered + 1, misses + 1)
    log_pmf -= np.log(test + 1) + betaln(rank, calibration + 1 - rank)
    low, high = np.searchsorted(np.exp(log_pmf).cumsum(), [tail, 1 - tail])
    return float(low) / test, float(high) / test


def _groups(
    scores: np.ndarray, labels: np.ndarray, num_classes: int, conditioning: Conditioning, alpha: float, seed: int
) -> np.ndarray:
    """Return the group of each class [K]; the classes of a group share a threshold."""
    if conditioning == "marginal":
        return np.zeros(num_classes, int)
    if conditioning == "class":
        return np.arange(num_classes)
    counts = np.bincount(labels, minlength=num_classes)
    frequent = np.flatnonzero(counts >= max(MIN_PER_CLUSTER, math.ceil(1 / alpha) - 1))
    groups = np.zeros(num_classes, int)  # rare classes share group 0
    if len(frequent) < 2:
        return groups
    from sklearn.cluster import KMeans

    levels = [0.5, 0.6, 0.7, 0.8, 0.9, 1 - alpha]
    embedded = np.stack([np.quantile(scores[labels == k], levels) for k in frequent])
    clusters = max(1, min(len(frequent) // 2, int(counts[frequent].min() // MIN_PER_CLUSTER)))
    found = KMeans(clusters, n_init=10, random_state=seed).fit(embedded, sample_weight=np.sqrt(counts[frequent]))
    groups[frequent] = found.labels_ + 1
    return groups


def _size_bins(sizes: np.ndarray) -> np.ndarray:
    """Return set sizes, with those above 4 rounded down to a power of two."""
    return np.where(sizes <= 4, sizes, 2 ** np.floor(np.log2(np.maximum(sizes, 1)))).astype(int)
