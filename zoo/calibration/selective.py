"""When to abstain: risk-coverage curves, their areas, and thresholds chosen on one split and evaluated on another.

A model that abstains on its least certain examples makes fewer errors on the rest. Coverage is the fraction of examples it
answers, risk the fraction of errors among these. Examples with equal scores are accepted in random order; the curves are the
expectation over that order, so they do not depend on the order of the rows.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from zoo.calibration.metrics import MIN_PROBABILITY
from zoo.core import arrays, checks
from zoo.core.arrays import Array
from zoo.core.backend import replaced
from zoo.core.prediction_sets import parts
from zoo.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

Score = Literal["confidence", "margin", "entropy", "disagreement"]


def certainty(probabilities: Array, score: Score = "confidence", members: Iterable[Array] | Array = ()) -> np.ndarray:
    """Return how certain a model is of each example [N]; larger is more certain.

    Args:
        probabilities: [N, K].
        score: `confidence`, the largest probability; `margin`, the largest less the second largest; `entropy`, minus the
            entropy; `disagreement`, minus the mutual information between the prediction and the member of an ensemble:
            minus (entropy of the mean - mean entropy of the members).
        members: [N, K] probabilities of each of an ensemble's members, for `disagreement`.
    """
    if score not in get_args(Score):
        raise InputError(argument="score", expected=" or ".join(get_args(Score)), found=score)
    if score == "disagreement":
        each = [_by_part(member, _entropy) for member in members]
        if not each:
            raise InputError("disagreement needs the probabilities of an ensemble's members", argument="members")
        return sum(each) / len(each) - _by_part(probabilities, _entropy)
    of_part = {"confidence": lambda p: p.max(1), "margin": _margin, "entropy": lambda p: -_entropy(p)}[score]
    return _by_part(probabilities, of_part)


def _by_part(probabilities: Array, of_part: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """Return a measure [N] of each row, computed a part of the rows at a time."""
    return np.concatenate([of_part(p) for _, p in parts(probabilities)])


def _margin(p: np.ndarray) -> np.ndarray:
    first = p.max(1)
    others = replaced(p, p.argmax(1), np.zeros_like(first))
    margin: np.ndarray = first - others.max(1)
    return margin


def _entropy(p: np.ndarray) -> np.ndarray:
    """Return the entropy of each row; a probability of 0 adds nothing."""
    entropy: np.ndarray = -(p * np.log(np.maximum(p, p.dtype.type(MIN_PROBABILITY)))).sum(1)
    return entropy


@dataclass(frozen=True)
class RiskCoverage:
    """The risk-coverage curve of one model, and its summaries.

    `aurc` is the mean risk over all coverages (Geifman & El-Yaniv 2017), `augrc` the mean of errors among the accepted as a
    fraction of all examples (Traub et al. 2024), `excess_aurc` is `aurc` minus the AURC of an oracle that accepts every
    correct example first.
    """

    coverage: np.ndarray  # [N] 1/N, 2/N, ..., 1
    risk: np.ndarray  # [N] fraction of errors among the accepted
    aurc: float
    augrc: float
    excess_aurc: float
    accuracy: float  # at full coverage
    intervals: dict[str, tuple[float, float]]  # 95% bootstrap intervals over examples, of aurc, augrc and excess_aurc

    def accuracy_at(self, coverage: float) -> float:
        """Return the accuracy on the most certain fraction of the examples."""
        if not 0 < coverage <= 1:
            raise InputError(argument="coverage", expected="above 0 and at most 1", found=coverage)
        row = max(0, int(np.ceil(coverage * len(self.risk) - 1e-9)) - 1)
        return float(1 - self.risk[row])

    def coverage_at(self, accuracy: float) -> float:
        """Return the largest coverage at which the accuracy is at least this; 0 if there is none."""
        reached = np.flatnonzero(1 - self.risk >= accuracy - 1e-12)
        return float(self.coverage[reached[-1]]) if len(reached) else 0.0

    def to_frame(self, points: int = 100) -> "pd.DataFrame":
        """Return about `points` rows of the curve: coverage, risk, accuracy."""
        import pandas as pd

        rows = np.unique(np.linspace(0, len(self.risk) - 1, min(points, len(self.risk))).round().astype(int))
        return pd.DataFrame({"coverage": self.coverage[rows], "risk": self.risk[rows], "accuracy": 1 - self.risk[rows]})


def risk_coverage(scores: Array, correct: Array, resamples: int = 200, seed: int = 0) -> RiskCoverage:
    """Return the risk-coverage curve of one model.

    Args:
        scores: [N] certainty of each prediction; larger is more certain.
        correct: [N] whether each prediction is right.
        resamples: bootstrap resamples for the intervals; 0 for none.
        seed: random seed of the bootstrap.

    >>> curve = risk_coverage(np.array([0.9, 0.8, 0.7, 0.6]), np.array([True, True, False, True]), resamples=0)
    >>> curve.risk.round(3).tolist(), round(curve.aurc, 4), curve.coverage_at(1.0)
    ([0.0, 0.0, 0.333, 0.25], 0.1458, 0.5)
    """
    score, errors = _checked(scores, correct)
    order = np.argsort(-score, kind="stable")
    ends = np.append(np.flatnonzero(np.diff(score[order]) != 0), len(score) - 1)  # last row of each run of equal scores
    wrong = np.cumsum(errors[order])[ends]
    sizes = np.diff(np.append(-1, ends))
    # Within a run of equal scores the expected number of errors grows linearly.
    slope = np.diff(np.append(0, wrong)) / sizes
    run = np.repeat(np.arange(len(ends)), sizes)
    position = np.arange(len(score)) - np.append(-1, ends[:-1])[run]
    accepted = np.arange(1, len(score) + 1)
    expected = np.append(0, wrong[:-1])[run] + slope[run] * position
    risk = expected / accepted
    aurc, augrc, error = float(risk.mean()), float((expected / len(score)).mean()), errors.mean()
    excess_aurc = aurc - oracle_aurc(error, len(score))
    intervals = _intervals(errors, order, run, resamples, seed)
    return RiskCoverage(accepted / len(score), risk, aurc, augrc, excess_aurc, float(1 - error), intervals)


def oracle_aurc(error: float, examples: int) -> float:
    """Return the AURC of an ordering that accepts every correct example before the first error."""
    wrong = round(error * examples)
    accepted = np.arange(examples - wrong + 1, examples + 1)
    return float(np.sum(np.arange(1, wrong + 1) / accepted) / examples)


def _intervals(
    errors: np.ndarray, order: np.ndarray, run: np.ndarray, resamples: int, seed: int
) -> dict[str, tuple[float, float]]:
    """Return percentile intervals of the areas over resampled examples.

    Examples are drawn in the order of the rows. If rounding on another processor exchanges two examples in the order of
    scores, the draws of all other examples stay the same.
    """
    if not resamples:
        return {}
    rng = np.random.default_rng(arrays.seed(seed))
    examples = len(errors)
    starts = np.flatnonzero(np.diff(run, prepend=-1))
    distinct = len(starts) == examples
    draws = []
    for _ in range(resamples):
        picked = np.bincount(rng.integers(0, examples, examples), minlength=examples)  # how often each example is drawn
        counts, wrong = picked[order], (picked * errors)[order]
        if not distinct:
            counts, wrong = np.add.reduceat(counts, starts), np.add.reduceat(wrong, starts)
        # The mean over a run of equal scores, at its middle: of accepted examples, and of the errors expected among them.
        accepted = np.cumsum(counts) - counts / 2 + 0.5
        expected = np.cumsum(wrong) - wrong / 2 + 0.5 * wrong / np.maximum(counts, 1)
        aurc = float((expected / np.maximum(accepted, 1) * counts).sum() / examples)
        augrc = float((expected * counts).sum() / examples**2)
        draws.append((aurc, augrc, aurc - oracle_aurc(wrong.sum() / examples, examples)))
    low, high = np.percentile(np.array(draws), [2.5, 97.5], axis=0)
    return {name: (float(low[i]), float(high[i])) for i, name in enumerate(("aurc", "augrc", "excess_aurc"))}


@dataclass(frozen=True)
class Threshold:
    """A threshold on the certainty, chosen on some examples and evaluated on others."""

    value: float
    coverage: float  # fraction of the evaluated examples that are accepted
    accuracy: float  # of the accepted examples; NaN if none is accepted
    accuracy_interval: tuple[float, float]  # 95% Clopper-Pearson
    accepted: int
    examples: int


def choose_threshold(
    scores: Array, correct: Array, *, coverage: float | None = None, accuracy: float | None = None
) -> float:
    """Return the threshold that accepts a fraction of the examples, or as many as possible at an accuracy.

    Args:
        scores: [N] certainty.
        correct: [N] whether each prediction is right.
        coverage: fraction of examples to accept.
        accuracy: minimum accuracy of the accepted examples. If no coverage reaches it, the threshold is infinite.
    """
    if (coverage is None) == (accuracy is None):
        raise InputError("choose a threshold by either coverage or accuracy", argument="coverage", found=coverage)
    if accuracy is not None and not 0 <= accuracy <= 1:
        raise InputError(argument="accuracy", expected="between 0 and 1", found=accuracy)
    score, _ = _checked(scores, correct)
    curve = risk_coverage(score, as_booleans(correct), resamples=0)
    if coverage is None:
        coverage = curve.coverage_at(float(accuracy or 0))
        if coverage == 0:
            return float("inf")
    elif not 0 < coverage <= 1:
        raise InputError(argument="coverage", expected="above 0 and at most 1", found=coverage)
    rank = max(1, int(np.floor(coverage * len(score) + 1e-9)))
    return float(np.sort(score)[::-1][rank - 1])


def judge_threshold(threshold: float, scores: Array, correct: Array) -> Threshold:
    """Return coverage and accuracy of a threshold on examples that were not used to choose it."""
    score, errors = _checked(scores, correct)
    accepted = score >= threshold
    count, right = int(accepted.sum()), int((~errors[accepted]).sum())
    return Threshold(
        value=threshold,
        coverage=float(accepted.mean()),
        accuracy=right / count if count else float("nan"),
        accuracy_interval=binomial_interval(right, count),
        accepted=count,
        examples=len(score),
    )


def binomial_interval(successes: int, trials: int, level: float = 0.95) -> tuple[float, float]:
    """Return the exact (Clopper-Pearson) interval of a binomial proportion.

    >>> [round(end, 4) for end in binomial_interval(8, 10)]
    [0.4439, 0.9748]
    """
    from scipy.special import betaincinv  # the quantile of a beta distribution

    if trials == 0:
        return 0.0, 1.0
    tail = (1 - level) / 2
    low = float(betaincinv(successes, trials - successes + 1, tail)) if successes else 0.0
    high = float(betaincinv(successes + 1, trials - successes, 1 - tail)) if successes < trials else 1.0
    return low, high


def as_booleans(values: Any) -> np.ndarray:
    """Return a boolean array [N], or raise an error for anything else."""
    found = arrays.to_numpy(checks.array(values, "correct"))
    if found.ndim != 1 or found.dtype != bool:
        raise InputError(argument="correct", expected="booleans of shape [N]", found=f"{found.dtype} {list(found.shape)}")
    return found


def _checked(scores: Array, correct: Array) -> tuple[np.ndarray, np.ndarray]:
    right = as_booleans(correct)
    score = arrays.to_numpy(checks.array(scores, "scores")).astype(np.float64)
    if score.shape != right.shape or not len(score):
        raise InputError(argument="scores", expected=f"of shape [{len(right)}], one per example", found=list(score.shape))
    if not np.isfinite(score).all():
        row = int(np.flatnonzero(~np.isfinite(score))[0])
        raise InputError(f"row {row} is not finite", argument="scores", found=float(score[row]))
    return score, ~right
