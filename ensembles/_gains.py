"""What putting models together gains, and where the gain comes from.

Gontijo-Lopes et al. 2021, 4.2: members and their ensemble. Kornblith et al. 2021, Figs C.6 and C.7: ensembles over the seeds
of several training objectives. Is one objective's ensemble different from another's, and does mixing two of them help?
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from diversity.bootstrap import percentile_interval, resample
from diversity.ensembled import outcomes
from ensembles._combine import Kind, combination, vote
from zoo._numbers import arrays
from zoo.errors import InputError
from zoo.outputs import Outputs, Runs

if TYPE_CHECKING:
    import pandas as pd


@dataclass(frozen=True)
class Improvement:
    """An ensemble against its members, in the words of a pair's measures. Shares of an empty set of examples are NaN."""

    ensemble_accuracy: float
    accuracies: tuple[float, ...]  # the members' own
    gain_over_mean: float
    gain_over_best: float
    interval: tuple[float, float]  # 95% interval of the gain over the best member: paired bootstrap over examples
    inconsistency: float  # share of examples on which some members are right and some wrong
    conversion_rate: float  # share of those that the ensemble gets right
    all_right_lost: float  # share of the examples all members get right that the ensemble gets wrong
    all_wrong_gained: float  # share of the examples all members get wrong that the ensemble gets right


def improvement(
    given: Any, labels: Any = None, how: Kind = "probabilities", weights: Any = None, resamples: int = 1000, seed: int = 0
) -> Improvement:
    """What the ensemble of these members gains, and how.

    `how`: the mean of `probabilities` (given [M, N, K], a list of [N, K], or Runs), the mean of `logits`, or the modal vote
    of `predictions` [M, N]. Arrays must be of the kind named; Runs give any, calibrated, and bring their labels.

    >>> a, b = np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([[0.4, 0.6], [0.7, 0.3]])
    >>> found = improvement([a, b], [0, 0])
    >>> found.ensemble_accuracy, found.accuracies, found.conversion_rate
    (1.0, (1.0, 0.5), 1.0)
    """
    combined = combination(given, how, weights)
    first = combined.members[0]
    if labels is None and isinstance(first, Outputs):
        labels = first.require_labels()
    y = arrays.labels(labels, rows=len(combined.predicted)).to(combined.predicted.device)
    right = arrays.host(combined.predicted == y)
    members = np.stack([arrays.host(p == y) for p in combined.member_predictions])
    accuracies = members.mean(1)
    best = members[int(accuracies.argmax())]
    table = outcomes(right, members)
    # The gain over the best is a mean of -1, 0 and 1, so a resample is how often it takes each.
    draws = resample([(best & ~right).sum(), (best == right).sum(), (right & ~best).sum()], resamples, seed)
    low, high = percentile_interval((draws[:, 2] - draws[:, 0]) / len(right))
    return Improvement(
        ensemble_accuracy=float(right.mean()),
        accuracies=tuple(accuracies.tolist()),
        gain_over_mean=float(right.mean() - accuracies.mean()),
        gain_over_best=float(right.mean() - accuracies.max()),
        interval=(float(low), float(high)),
        inconsistency=float(table.inconsistency),
        conversion_rate=float(table.conversion_rate),
        all_right_lost=float(table.all_right_lost),
        all_wrong_gained=float(table.all_wrong_gained),
    )


def conversion_rate(probs_a: Any, probs_b: Any, labels: Any = None) -> float:
    """The share of examples that exactly one of two models gets right which the mean of both gets right.

    NaN where there are none. Probabilities [N, K] each, or outputs, which bring their labels.

    >>> conversion_rate(np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([[0.4, 0.6], [0.1, 0.9]]), [0, 0])
    0.5
    """
    return improvement([probs_a, probs_b], labels, resamples=1).conversion_rate


def ensemble_agreement(groups: Any) -> "pd.DataFrame":
    """[O, O] share of examples on which the votes of two objectives' seeds agree.

    `groups`: predictions [seeds, N] by objective, or Runs, grouped by their cards' objective.

    >>> float(ensemble_agreement({"softmax": [[0, 1], [0, 1]], "sigmoid": [[0, 0]]}).loc["softmax", "sigmoid"])
    0.5
    """
    predictions, _ = _grouped(groups)
    votes = np.stack([np.asarray(vote(p)) for p in predictions.values()])
    return _square((votes[:, None] == votes[None]).mean(2), predictions)


def half_and_half(groups: Any, labels: Any = None) -> "pd.DataFrame":
    """[O, O] accuracy of the vote of ensembles that take half their models from one objective and half from another.

    As many models in each, eight in Fig. C.7: the largest even number every objective has seeds for. The first half of
    one objective's seeds votes with the second half of the other's, and the other way round; the entry is the mean of both
    accuracies. On the diagonal all seeds of one objective vote. `groups` as in `ensemble_agreement`, `labels` [N]; Runs
    bring their own.

    >>> softmax, sigmoid = [[0, 1], [0, 2]] * 2, [[1, 0], [2, 0]] * 2  # each is wrong where the other is sure
    >>> half_and_half({"softmax": softmax, "sigmoid": sigmoid}, labels=[0, 0])
             softmax  sigmoid
    softmax      0.5      1.0
    sigmoid      1.0      0.5
    """
    predictions, own_labels = _grouped(groups)
    half = min(len(p) for p in predictions.values()) // 2
    if half == 0:
        few = next(name for name, p in predictions.items() if len(p) < 2)
        raise InputError(f"{few}: half and half needs at least 2 seeds of every objective, found {len(predictions[few])}")
    stacked = np.stack([p[: 2 * half] for p in predictions.values()])
    y = arrays.host(arrays.labels(own_labels if labels is None else labels, rows=stacked.shape[2]))
    accuracy = np.array(
        [[(np.asarray(vote(np.concatenate([a[:half], b[half:]]))) == y).mean() for b in stacked] for a in stacked]
    )
    return _square((accuracy + accuracy.T) / 2, predictions)


def _grouped(groups: Any) -> tuple[dict[str, np.ndarray], Any]:
    if isinstance(groups, Runs):
        aligned = groups.aligned()
        by_objective: dict[str, list[np.ndarray]] = {}
        for one in aligned.values():
            if one.card is None:
                raise InputError(f"{one.name}: no card says what it was trained with; pass predictions by objective")
            by_objective.setdefault(one.card.objective, []).append(one.predictions())
        return {name: np.stack(parts) for name, parts in by_objective.items()}, aligned.labels
    if not isinstance(groups, Mapping) or not groups:
        raise InputError("groups: expected predictions [seeds, N] by objective, or Runs")
    checked = {str(name): arrays.host(arrays.tensor(p, f"predictions of {name}")) for name, p in groups.items()}
    examples = {p.shape[-1] for p in checked.values()}
    for name, p in checked.items():
        if p.ndim != 2 or not p.size or len(examples) > 1:
            raise InputError(f"predictions of {name}: expected [seeds, N] with the same N for all, found {list(p.shape)}")
    return checked, None


def _square(values: np.ndarray, names: Mapping[str, Any]) -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame(values, index=list(names), columns=list(names))
