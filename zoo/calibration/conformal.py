"""Split-conformal prediction sets: sets of classes that hold the true one with a chosen probability.

A score measures how badly a class fits an example. The quantile of the true classes' scores on calibration examples is the
threshold: a set holds every class whose score is at most that. If calibration and test examples are exchangeable, a new set
covers the true class with probability at least 1 - alpha, whatever the model. Over calibration sets of size n the coverage
is distributed as Beta(k, n + 1 - k) with k = ceil((n + 1)(1 - alpha)).

The calibration examples must not have chosen the ensemble, nor fitted its temperature.
"""

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

import numpy as np
import torch
from torch import Tensor

from zoo.core import arrays
from zoo.core.arrays import Array
from zoo.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

Method = Literal["lac", "aps", "raps"]
Conditioning = Literal["marginal", "class", "cluster"]
MIN_PER_CLUSTER = 20  # calibration examples of a class that is clustered on its own quantiles; rarer classes share one


@dataclass(frozen=True)
class ConformalPredictor:
    """A fitted threshold per class, and the score it applies to."""

    method: Method
    alpha: float
    thresholds: np.ndarray  # [K]; equal for all classes if marginal; infinity where a class has too few examples
    conditioning: Conditioning
    calibration_examples: int
    penalty: float = 0.0  # RAPS: added for each class beyond `free`
    free: int = 0
    randomised: bool = True

    def predict_sets(self, probabilities: Array, seed: int = 0) -> np.ndarray:
        """Return the prediction sets as a boolean array [N, K].

        Args:
            probabilities: [N, K].
            seed: of the randomisation of APS and RAPS, which makes coverage exact rather than conservative.
        """
        p = _probabilities(probabilities)
        if p.shape[1] != len(self.thresholds):
            raise InputError(argument="probabilities", expected=f"{len(self.thresholds)} columns", found=p.shape[1])
        sets: list[np.ndarray] = []
        rng = np.random.default_rng(arrays.seed(seed))
        for part in p.split(max(1, 2**22 // p.shape[1])):
            draws = rng.random(len(part)) if self.randomised else np.ones(len(part))
            scores = _scores(part, self.method, self.penalty, self.free, draws)
            sets.append(arrays.to_numpy(scores) <= self.thresholds)
        return np.concatenate(sets)

    def evaluate(self, probabilities: Array, labels: Array, seed: int = 0) -> "SetReport":
        """Return coverage and size of the sets on labelled examples that were not used for calibration."""
        y = arrays.to_numpy(arrays.labels(labels, len(self.thresholds)))
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
        penalty: of RAPS, for each class after the first `free` ones.
        free: number of classes without a penalty.
        randomised: whether APS and RAPS randomise the last class of a set.
        seed: of the randomisation and of the clustering.

    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet(np.ones(4), 2000)
    >>> y = np.array([rng.choice(4, p=row) for row in p])
    >>> sets = fit_conformal(p[:1000], y[:1000], alpha=0.2).predict_sets(p[1000:])
    >>> round(float(sets[np.arange(1000), y[1000:]].mean()), 1)
    0.8
    """
    if not 0 < alpha < 1:
        raise InputError(argument="alpha", expected="between 0 and 1", found=alpha)
    if method not in get_args(Method):
        raise InputError(argument="method", expected=" or ".join(get_args(Method)), found=method)
    if conditioning not in get_args(Conditioning):
        raise InputError(argument="conditioning", expected=" or ".join(get_args(Conditioning)), found=conditioning)
    p = _probabilities(probabilities)
    y = arrays.labels(labels, p.shape[1], len(p)).to(p.device)
    penalty, free = (penalty, free) if method == "raps" else (0.0, 0)
    randomised = randomised and method != "lac"
    draws = np.random.default_rng(arrays.seed(seed)).random(len(p)) if randomised else np.ones(len(p))
    parts, step = [], max(1, 2**22 // p.shape[1])
    for start in range(0, len(p), step):
        rows = slice(start, start + step)
        scores = _scores(p[rows], method, penalty, free, draws[rows])
        parts.append(scores.gather(1, y[rows, None])[:, 0])
    own, classes = arrays.to_numpy(torch.cat(parts)), arrays.to_numpy(y)
    groups = _groups(own, classes, p.shape[1], conditioning, alpha, seed)
    by_group = {group: quantile(own[groups[classes] == group], alpha) for group in np.unique(groups)}
    thresholds = np.array([by_group[group] for group in groups])
    return ConformalPredictor(method, alpha, thresholds, conditioning, len(p), penalty, free, randomised)


def quantile(scores: np.ndarray, alpha: float) -> float:
    """Return the ceil((n + 1)(1 - alpha))-th smallest score; infinity if there are too few, so that sets hold every class.

    >>> quantile(np.arange(1.0, 10.0), 0.2), quantile(np.arange(3.0), 0.1)
    (8.0, inf)
    """
    rank = math.ceil((len(scores) + 1) * (1 - alpha) - 1e-9)
    return float(np.partition(scores, rank - 1)[rank - 1]) if rank <= len(scores) else math.inf


@dataclass(frozen=True)
class SetReport:
    """How often prediction sets hold the true class, and how large they are."""

    coverage: float
    expected: tuple[float, float]  # 95% of such coverages lie in this interval if the sets are valid (beta-binomial)
    mean_size: float
    empty: float  # fraction of empty sets
    by_size: "pd.DataFrame"  # size, examples, coverage
    worst_class: tuple[int, float]  # class with the lowest coverage, and that coverage
    examples: int

    @property
    def size_stratified_coverage(self) -> float:
        """The lowest coverage over groups of set sizes with at least 20 examples."""
        large = self.by_size[self.by_size["examples"] >= MIN_PER_CLUSTER]
        return float(large["coverage"].min()) if len(large) else float("nan")


def evaluate_sets(sets: np.ndarray, labels: np.ndarray, alpha: float, calibration_examples: int) -> SetReport:
    """Return coverage and sizes of prediction sets [N, K] against labels [N]."""
    import pandas as pd

    covered = sets[np.arange(len(labels)), labels]
    sizes = sets.sum(1)
    frame = pd.DataFrame({"size": _size_bins(sizes), "covered": covered})
    by_size = frame.groupby("size", sort=True)["covered"].agg(examples="size", coverage="mean").reset_index()
    hits, counts = np.bincount(labels, covered), np.bincount(labels)
    per_class = np.where(counts > 0, hits / np.maximum(counts, 1), np.inf)
    worst = int(per_class.argmin())
    return SetReport(
        coverage=float(covered.mean()),
        expected=coverage_interval(calibration_examples, len(labels), alpha),
        mean_size=float(sizes.mean()),
        empty=float((sizes == 0).mean()),
        by_size=by_size,
        worst_class=(worst, float(per_class[worst])),
        examples=len(labels),
    )


def coverage_interval(calibration: int, test: int, alpha: float, level: float = 0.95) -> tuple[float, float]:
    """Return the central interval of the coverage on `test` examples over calibration sets of a size (beta-binomial).

    >>> [round(end, 3) for end in coverage_interval(1000, 1000, 0.1)]
    [0.873, 0.925]
    """
    from scipy.stats import betabinom

    rank = math.ceil((calibration + 1) * (1 - alpha) - 1e-9)
    if rank > calibration:
        return 1.0, 1.0
    tail = (1 - level) / 2
    low, high = betabinom.ppf([tail, 1 - tail], test, rank, calibration + 1 - rank)
    return float(low) / test, float(high) / test


def _probabilities(values: Array) -> Tensor:
    p = arrays.probabilities(values)
    return p if p.dtype == torch.float64 else p.float()


def _scores(p: Tensor, method: Method, penalty: float, free: int, draws: np.ndarray) -> Tensor:
    """[N, K] how badly each class fits each example."""
    if method == "lac":
        return 1 - p
    order = p.argsort(dim=1, descending=True, stable=True)
    ranked = p.gather(1, order)
    u = torch.as_tensor(draws, dtype=p.dtype, device=p.device)[:, None]
    # The probability of the classes before this one, and a random fraction of its own.
    cumulative = ranked.cumsum(1) - ranked + u * ranked
    if penalty:
        rank = torch.arange(1, p.shape[1] + 1, device=p.device, dtype=p.dtype)
        cumulative = cumulative + penalty * (rank - free).clamp(min=0)
    return torch.empty_like(p).scatter_(1, order, cumulative)


def _groups(
    scores: np.ndarray, labels: np.ndarray, num_classes: int, conditioning: Conditioning, alpha: float, seed: int
) -> np.ndarray:
    """[K] the group of classes that share a threshold."""
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
    """Sizes up to 4 as they are, larger ones by the power of two at or below them."""
    return np.where(sizes <= 4, sizes, 2 ** np.floor(np.log2(np.maximum(sizes, 1)))).astype(int)
