"""Combinations of models: mean of probabilities, mean of logits, majority vote; with or without weights."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
import torch

from ensembles.inputs import EnsembleInput, Kind, Members, Name, read_members
from ensembles.scores import top_class
from zoo.core import arrays, limits
from zoo.core.arrays import Array
from zoo.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Weights: TypeAlias = "ArrayLike | Array | Mapping[str, float] | None"

# Votes counted at a time, examples x classes; bounds the memory for 21,000 classes.
VOTE_ELEMENTS = 2**24


def average(runs: EnsembleInput, weights: Weights = None) -> Array:
    """Return the weighted mean [N, K] of the members' probabilities. Half precision gives float32.

    Args:
        runs: probabilities [M, N, K], a list of [N, K], or Runs, whose calibrated probabilities are used.
        weights: [M] numbers, or a mapping by name in which missing members have weight 0. They need not sum to 1.

    >>> average(np.array([[[1.0, 0.0]], [[0.5, 0.5]]]), weights=[3, 1])
    array([[0.875, 0.125]])
    """
    members = read_members(runs, "probabilities")
    numbers = _weights(members, weights)
    return _like_input(members, _sum(members, numbers) / math.fsum(numbers))


def mean_logits(runs: EnsembleInput, temperatures: "ArrayLike | None" = None, weights: Weights = None) -> Array:
    """Return the weighted mean [N, K] of the members' logits. Its softmax is the ensemble's probabilities.

    A class that any member with a positive weight masks (minus infinity) stays masked.

    Args:
        runs: logits [M, N, K], a list of [N, K], or Runs, whose calibrated log-probabilities are used. These differ from
            calibrated logits by a constant per row, and put softmax and sigmoid models on one scale.
        temperatures: [M] numbers that divide the logits; for arrays only.
        weights: as in `average`.

    >>> mean_logits(np.array([[[2.0, 0.0]], [[0.0, 4.0]]]), temperatures=[1.0, 2.0])
    array([[1., 1.]])
    """
    members = read_members(runs, "logits")
    count = len(members.names)
    if temperatures is not None and members.runs is not None:
        raise InputError("outputs have their own temperatures", argument="temperatures", hint="Calibrate the runs instead")
    divisors = np.ones(count) if temperatures is None else np.asarray(temperatures, np.float64)
    if divisors.shape != (count,) or not (np.isfinite(divisors) & (divisors > 0)).all():
        raise InputError(argument="temperatures", expected=f"{count} finite numbers above 0", found=temperatures)
    numbers = _weights(members, weights)
    return _like_input(members, _sum(members, numbers, divisors.tolist()) / math.fsum(numbers))


def vote(runs: EnsembleInput, num_classes: int | None = None, weights: Weights = None) -> Array:
    """Return the class [N] that most members predict; ties go to the lowest class.

    Args:
        runs: predictions [M, N] or Runs. A prediction of -1 is no vote; an example without votes gives -1.
        num_classes: number of classes; default: up to the highest class predicted.
        weights: as in `average`.

    >>> vote(np.array([[0, 2, -1], [1, 2, -1], [1, 0, 1]]))
    array([1, 2, 1])
    """
    members = read_members(runs, "predictions")
    return _like_input(members, _majority(members, _weights(members, weights), num_classes))


def combined_predictions(
    runs: EnsembleInput, kind: Kind, weights: Weights = None
) -> tuple[torch.Tensor, dict[Name, torch.Tensor], Members]:
    """Return an ensemble's predictions [N], its members' by name, and the members."""
    members = read_members(runs, kind)
    numbers = _weights(members, weights)
    values = {name: members.read(member) for member, name in enumerate(members.names)}
    if kind == "predictions":
        return _majority(members, numbers, None), values, members
    return top_class(_sum(members, numbers)), {name: top_class(each) for name, each in values.items()}, members


def _weights(members: Members, weights: Weights) -> list[float]:
    """Return one checked weight per member; 1 each by default."""
    names = members.names
    if weights is None:
        return [1.0] * len(names)
    if isinstance(weights, Mapping):
        by_name = {str(name): weight for name, weight in weights.items()}
        unknown = [name for name in by_name if name not in map(str, names)]
        if unknown:
            raise InputError(f"{unknown[0]!r} is not one of the {len(names)} members", argument="weights", found=unknown[0])
        weights = [by_name.get(str(name), 0.0) for name in names]
    numbers = arrays.to_numpy(arrays.tensor(weights, "weights")).astype(np.float64)
    if numbers.shape != (len(names),):
        raise InputError(argument="weights", expected=f"{len(names)} numbers, one per member", found=list(numbers.shape))
    bad = np.flatnonzero(~(np.isfinite(numbers) & (numbers >= 0)))
    if len(bad):
        where, found = f"member {names[bad[0]]}", float(numbers[bad[0]])
        raise InputError(where=where, argument="weights", expected="a finite number of at least 0", found=found)
    if numbers.sum() == 0:
        raise InputError(argument="weights", expected="above 0 for at least one member", found=0)
    return numbers.tolist()


def _sum(members: Members, weights: Sequence[float], divisors: Sequence[float] | None = None) -> torch.Tensor:
    """Return the weighted sum of the members. Callers divide the sum, so that equal sums stay equal."""
    total: torch.Tensor | None = None
    for member, weight in enumerate(weights):
        values = members.read(member)
        total = torch.zeros_like(values, dtype=arrays.accumulation_dtype(values.device)) if total is None else total
        if weight > 0:  # 0 times a masked class would be NaN
            total += values.to(total.dtype) * (weight if divisors is None else weight / divisors[member])
    assert total is not None  # there is at least one member
    return total


def _majority(members: Members, weights: Sequence[float], num_classes: int | None) -> torch.Tensor:
    votes = torch.stack(
        [
            arrays.optional_predictions(members.read(member), num_classes, name=f"predictions of {name}")
            for member, name in enumerate(members.names)
        ]
    )
    classes = num_classes or max(1, int(votes.max()) + 1)
    limits.check_classes(classes - 1, "predictions")
    votes = torch.where(votes < 0, classes, votes)  # an additional class, which is not counted
    weight = torch.tensor(weights, dtype=arrays.accumulation_dtype(votes.device)).to(votes.device)
    winners = []
    for part in votes.split(max(1, VOTE_ELEMENTS // classes), 1):
        counts = torch.zeros((part.shape[1], classes + 1), dtype=weight.dtype, device=part.device)
        counts.scatter_add_(1, part.T, weight[None].expand(part.T.shape))
        # Rounded, so that the order of addition cannot decide a tie.
        rounded = counts[:, :classes].float()
        winners.append(torch.where(rounded.amax(1) > 0, top_class(rounded), arrays.NO_PREDICTION))
    return torch.cat(winners)


def _like_input(members: Members, result: torch.Tensor) -> Array:
    """Return a result in the caller's type of array, in float64 only if a member is."""
    if members.runs is None:
        is_double = any(each.dtype == torch.float64 for each in members.tensors)
    else:
        is_double = any(str(one.values.dtype).endswith("float64") for one in members.runs.values())
    if result.is_floating_point() and not is_double:
        result = result.float()
    return arrays.like_input(result, members.array_like)
