"""What putting models together gains, and where the gain comes from (Gontijo-Lopes et al. 2021, 4.2)."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np

from ensembles.combine import Combination, combination
from ensembles.intervals import bootstrap_means
from zoo import arrays
from zoo.outputs import Outputs

How: TypeAlias = Literal["probabilities", "logits", "predictions"]


@dataclass(frozen=True)
class Improvement:
    """An ensemble against its members. Shares of an empty set of examples are NaN.

    Examples fall into three sets: all members right, all wrong, and the rest, on which their errors are inconsistent.
    """

    accuracy: float
    members: tuple[float, ...]  # their accuracies
    over_mean: float  # improvement over the mean member
    over_best: float  # and over the best one, with its 95% interval (paired bootstrap over examples)
    over_best_interval: tuple[float, float]
    inconsistent: float  # share of examples on which some members are right and some wrong
    conversion_rate: float  # share of those that the ensemble gets right
    right_lost: float  # share of the examples all members get right that the ensemble gets wrong
    wrong_gained: float  # share of the examples all members get wrong that the ensemble gets right


def improvement(
    given: Any, labels: Any = None, how: How = "probabilities", weights: Any = None, resamples: int = 1000, seed: int = 0
) -> Improvement:
    """What the ensemble of these members gains, and how.

    `how`: the mean of `probabilities` (given [M, N, K], a list of [N, K], or Runs), the mean of `logits`, or the modal vote
    of `predictions` [M, N]. Arrays must be of the kind named; Runs give any, calibrated, and bring their labels.

    >>> a, b = np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([[0.4, 0.6], [0.7, 0.3]])
    >>> found = improvement([a, b], [0, 0])
    >>> found.accuracy, found.members, found.conversion_rate
    (1.0, (1.0, 0.5), 1.0)
    """
    combined = combination(given, how, weights)
    if labels is None:
        labels = _own_labels(combined)
    y = arrays.labels(labels, rows=len(combined.predicted)).to(combined.predicted.device)
    right = arrays.host(combined.predicted == y)
    of_members = np.stack([arrays.host(p == y) for p in combined.member_predictions])
    accuracies = of_members.mean(1)
    counts = of_members.sum(0)
    all_right, all_wrong = counts == len(of_members), counts == 0
    best = of_members[int(accuracies.argmax())]
    low, high = bootstrap_means((right.astype(float) - best)[None], resamples=resamples, seed=seed)[0].tolist()
    return Improvement(
        accuracy=float(right.mean()),
        members=tuple(accuracies.tolist()),
        over_mean=float(right.mean() - accuracies.mean()),
        over_best=float(right.mean() - accuracies.max()),
        over_best_interval=(low, high),
        inconsistent=float((~all_right & ~all_wrong).mean()),
        conversion_rate=_share(right, ~all_right & ~all_wrong),
        right_lost=_share(~right, all_right),
        wrong_gained=_share(right, all_wrong),
    )


def conversion_rate(probs_a: Any, probs_b: Any, labels: Any = None) -> float:
    """The share of examples that exactly one of two models gets right which the mean of both gets right.

    NaN where there are none. Probabilities [N, K] each, or outputs, which bring their labels.

    >>> conversion_rate(np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([[0.4, 0.6], [0.1, 0.9]]), [0, 0])
    0.5
    """
    return improvement([probs_a, probs_b], labels, resamples=1).conversion_rate


def _share(hit: np.ndarray, among: np.ndarray) -> float:
    return float(hit[among].mean()) if among.any() else float("nan")


def _own_labels(combined: Combination) -> Any:
    first = combined.members[0]
    return first.require_labels() if isinstance(first, Outputs) else None
