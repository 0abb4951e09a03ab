"""Putting predictions together (mean of probabilities, mean of logits, modal vote; weighted or not) and what it gains.

Gontijo-Lopes et al. 2021, 4.2: members and their ensemble. Kornblith et al. 2021, Figs C.6 and C.7: ensembles over the seeds
of several training objectives. Is one objective's ensemble different from another's, and does mixing two of them help?
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import torch

from diversity.bootstrap import percentile_interval, resample
from diversity.ensembled import outcomes
from ensembles._library import answers
from ensembles._scores import top_class
from zoo.core import arrays
from zoo.core.arrays import Array
from zoo.errors import InputError
from zoo.outputs.outputs import Outputs, Runs

if TYPE_CHECKING:
    import pandas as pd

Kind: TypeAlias = Literal["probabilities", "logits", "predictions"]

# Votes counted at a time, examples times classes: bounds the memory where there are 21,000 classes.
VOTE_ELEMENTS = 2**24


def average(probs: Any, weights: Any = None) -> Array:
    """Weighted mean [N, K] of members' probabilities: [M, N, K], a list of [N, K], or Runs (calibrated probabilities).

    `weights` need not sum to one: a sequence [M], or a mapping by name (those not named get none). The mean of half
    precision is float32.

    >>> average(np.array([[[1.0, 0.0]], [[0.5, 0.5]]]), weights=[3, 1])
    array([[0.875, 0.125]])
    """
    members = Members.of(probs, "probabilities")
    parts = members.weights(weights)
    return members.like_input(_sum(members, parts) / math.fsum(parts))


def mean_logits(logits: Any, temperatures: Any = None, weights: Any = None) -> Array:
    """Weighted mean [N, K] of members' logits, each divided by its temperature; softmax of it is the ensemble.

    Of Runs, each model's log-probabilities at its own temperature and link, which differ from its calibrated logits by a
    constant per row and put softmax- and sigmoid-trained members on one scale. A class that any member with a share masks
    (minus infinity) stays masked.

    >>> mean_logits(np.array([[[2.0, 0.0]], [[0.0, 4.0]]]), temperatures=[1.0, 2.0])
    array([[1., 1.]])
    """
    members = Members.of(logits, "logits")
    if temperatures is None:
        divisors = np.ones(len(members.names))
    elif isinstance(members.values[0], Outputs):
        raise InputError("temperatures: outputs carry their own; calibrate them instead")
    else:
        divisors = np.asarray(temperatures, np.float64)
        if divisors.shape != (len(members.names),) or not (np.isfinite(divisors) & (divisors > 0)).all():
            raise InputError(f"temperatures: expected {len(members.names)} positive numbers, found {temperatures}")
    parts = members.weights(weights)
    return members.like_input(_sum(members, parts, divisors.tolist()) / math.fsum(parts))


def vote(preds: Any, num_classes: int | None = None, weights: Any = None) -> Array:
    """The class [N] that most members predict, from predictions [M, N] (or Runs); of equal counts the lowest class.

    A prediction of -1, none of the classes, is no vote; where nobody votes the result is -1.

    >>> vote(np.array([[0, 2, -1], [1, 2, -1], [1, 0, 1]]))
    array([1, 2, 1])
    """
    members = Members.of(preds, "predictions")
    return members.like_input(_modal(members, members.weights(weights), num_classes))


@dataclass(frozen=True, eq=False)
class Members:
    """What is to be combined: names, and as many arrays, tensors or outputs of one declared kind."""

    names: list[Any]
    values: list[Any]
    kind: Kind
    given: Any  # decides what the result is handed back as

    @classmethod
    def of(cls, given: Any, kind: Kind) -> "Members":
        """Members from one array [M, ...], a list, a mapping by name or Runs; outputs are aligned."""
        values = list(given.values()) if isinstance(given, Mapping) else given
        if isinstance(values, (list, tuple)):
            if not values:
                raise InputError(f"{kind}: expected at least one member, found none")
            if isinstance(values[0], Outputs):
                runs = Runs(values).aligned()
                return cls(runs.names, list(runs.values()), kind, None)
            names = list(given) if isinstance(given, Mapping) else list(range(len(values)))
            return cls(names, list(values), kind, values[0])
        whole = arrays.tensor(given, kind)
        wanted = "[M, N]" if kind == "predictions" else "[M, N, K]"
        if whole.ndim != len(wanted.split(",")) or not len(whole):
            raise InputError(f"{kind}: expected shape {wanted} with at least one member, found {list(whole.shape)}")
        return cls(list(range(len(whole))), list(whole.unbind(0)), kind, given)

    def tensor(self, member: int) -> torch.Tensor:
        """One member's [N, K] or, of predictions, [N], checked to be what was declared."""
        value, where = self.values[member], f"{self.kind} of {self.names[member]}"
        if not isinstance(value, Outputs):
            if self.kind == "predictions":
                return answers(value, None, where)
            return arrays.probabilities(value, where) if self.kind == "probabilities" else arrays.logits(value, where)
        if self.kind == "predictions":
            return arrays.tensor(value.predictions, where)
        if self.kind == "probabilities":
            return arrays.probabilities(value.probabilities, where)
        from zoo.core.links import log_probabilities

        link = value.link if value.kind == "logits" else "softmax"
        return log_probabilities(arrays.logits(value.logits, where), value.temperature or 1.0, link)

    def weights(self, weights: Any) -> list[float]:
        """One weight per member, checked; 1 each where none are given."""
        if weights is None:
            return [1.0] * len(self.names)
        if isinstance(weights, Mapping):
            unknown = [name for name in weights if name not in self.names]
            if unknown:
                raise InputError(f"weights: {unknown[0]!r} is not among the {len(self.names)} members")
            weights = [weights.get(name, 0.0) for name in self.names]
        given = arrays.to_numpy(arrays.tensor(weights, "weights")).astype(np.float64)
        if given.shape != (len(self.names),):
            raise InputError(f"weights: expected {len(self.names)}, one per member, found shape {list(given.shape)}")
        bad = np.flatnonzero(~(np.isfinite(given) & (given >= 0)))
        if len(bad):
            raise InputError(
                f"weights: that of {self.names[bad[0]]} is {given[bad[0]]}, expected a finite number, not negative"
            )
        if given.sum() == 0:
            raise InputError("weights: all are zero; give at least one member a share")
        return given.tolist()

    def like_input(self, result: torch.Tensor) -> Array:
        """The result in the caller's own kind of array, in float64 only where a member is."""
        if result.is_floating_point() and not any(self._is_double(value) for value in self.values):
            result = result.float()
        return arrays.like_input(result, self.given)

    @staticmethod
    def _is_double(value: Any) -> bool:
        return str(value.values.dtype if isinstance(value, Outputs) else getattr(value, "dtype", float)).endswith("float64")


@dataclass(frozen=True, eq=False)
class Combination:
    """An ensemble's predictions [N] beside its members' own."""

    predicted: torch.Tensor
    member_predictions: list[torch.Tensor]
    members: list[Any]


def combination(given: Any, kind: Kind, weights: Any = None) -> Combination:
    """The predictions of an ensemble by the mean of probabilities or logits, or by the vote of predictions."""
    members = Members.of(given, kind)
    own = [members.tensor(member) for member in range(len(members.names))]
    parts = members.weights(weights)
    if kind == "predictions":
        return Combination(_modal(members, parts, None), own, members.values)
    return Combination(top_class(_sum(members, parts)), [top_class(one) for one in own], members.values)


def _sum(members: Members, weights: Sequence[float], divisors: Sequence[float] | None = None) -> torch.Tensor:
    """The weighted sum of the members. It is divided after adding, so that sums which are equal remain so."""
    total: torch.Tensor | None = None
    for member, weight in enumerate(weights):
        part = members.tensor(member)
        if total is not None and part.shape != total.shape:
            raise InputError(
                f"{members.kind} of {members.names[member]}: shape {list(part.shape)}, expected {list(total.shape)}"
            )
        total = torch.zeros_like(part, dtype=arrays.accumulation_dtype(part.device)) if total is None else total
        if weight > 0:  # a member without a share has no say, not even NaN from nothing times a masked class
            total += part.to(total.dtype) * (weight if divisors is None else weight / divisors[member])
    assert total is not None  # there is at least one member
    return total


def _modal(members: Members, weights: Sequence[float], num_classes: int | None) -> torch.Tensor:
    rows = len(members.tensor(0))
    votes = torch.stack(
        [answers(members.tensor(m), num_classes, f"predictions of {name}", rows) for m, name in enumerate(members.names)]
    )
    if not rows:
        raise InputError("predictions: expected at least one example, found none")
    classes = num_classes or max(1, int(votes.max()) + 1)
    votes = torch.where(votes < 0, classes, votes)  # a column behind the classes, which is not looked at
    weight = torch.tensor(weights, dtype=arrays.accumulation_dtype(votes.device)).to(votes.device)
    winners = []
    for part in votes.split(max(1, VOTE_ELEMENTS // classes), 1):
        counts = torch.zeros((part.shape[1], classes + 1), dtype=weight.dtype, device=part.device)
        counts.scatter_add_(1, part.T, weight[None].expand(part.T.shape))
        # The order weights are added in shows in the last places; rounded to single precision it cannot decide a tie.
        shares = counts[:, :classes].float()
        winners.append(torch.where(shares.amax(1) > 0, top_class(shares), -1))
    return torch.cat(winners)


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
    right = arrays.to_numpy(combined.predicted == y)
    members = np.stack([arrays.to_numpy(p == y) for p in combined.member_predictions])
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
    y = arrays.to_numpy(arrays.labels(own_labels if labels is None else labels, rows=stacked.shape[2]))
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
            by_objective.setdefault(one.card.objective, []).append(one.predictions)
        return {name: np.stack(parts) for name, parts in by_objective.items()}, aligned.labels
    if not isinstance(groups, Mapping) or not groups:
        raise InputError("groups: expected predictions [seeds, N] by objective, or Runs")
    checked = {str(name): arrays.to_numpy(arrays.tensor(p, f"predictions of {name}")) for name, p in groups.items()}
    examples = {p.shape[-1] for p in checked.values()}
    for name, p in checked.items():
        if p.ndim != 2 or not p.size or len(examples) > 1:
            raise InputError(f"predictions of {name}: expected [seeds, N] with the same N for all, found {list(p.shape)}")
    return checked, None


def _square(values: np.ndarray, names: Mapping[str, Any]) -> "pd.DataFrame":
    import pandas as pd

    return pd.DataFrame(values, index=list(names), columns=list(names))
