"""Putting predictions together: mean of probabilities, mean of logits, modal vote; weighted or not."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
import torch

from ensembles._library import answers
from ensembles._scores import top_class
from zoo._numbers import arrays
from zoo._numbers.arrays import Array
from zoo.errors import InputError
from zoo.outputs import Outputs, Runs

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
    return members.give_back(_sum(members, parts) / math.fsum(parts))


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
    return members.give_back(_sum(members, parts, divisors.tolist()) / math.fsum(parts))


def vote(preds: Any, num_classes: int | None = None, weights: Any = None) -> Array:
    """The class [N] that most members predict, from predictions [M, N] (or Runs); of equal counts the lowest class.

    A prediction of -1, none of the classes, is no vote; where nobody votes the result is -1.

    >>> vote(np.array([[0, 2, -1], [1, 2, -1], [1, 0, 1]]))
    array([1, 2, 1])
    """
    members = Members.of(preds, "predictions")
    return members.give_back(_modal(members, members.weights(weights), num_classes))


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
            return arrays.tensor(value.predictions(), where)
        if self.kind == "probabilities":
            return arrays.probabilities(value.probabilities(), where)
        from zoo._numbers.links import log_probabilities

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
        given = arrays.host(arrays.tensor(weights, "weights")).astype(np.float64)
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

    def give_back(self, result: torch.Tensor) -> Array:
        """The result in the caller's own kind of array, in float64 only where a member is."""
        if result.is_floating_point() and not any(self._is_double(value) for value in self.values):
            result = result.float()
        return arrays.give_back(result, self.given)

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
        total = torch.zeros_like(part, dtype=arrays.wide(part.device)) if total is None else total
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
    weight = torch.tensor(weights, dtype=arrays.wide(votes.device)).to(votes.device)
    winners = []
    for part in votes.split(max(1, VOTE_ELEMENTS // classes), 1):
        counts = torch.zeros((part.shape[1], classes + 1), dtype=weight.dtype, device=part.device)
        counts.scatter_add_(1, part.T, weight[None].expand(part.T.shape))
        # The order weights are added in shows in the last places; rounded to single precision it cannot decide a tie.
        shares = counts[:, :classes].float()
        winners.append(torch.where(shares.amax(1) > 0, top_class(shares), -1))
    return torch.cat(winners)
