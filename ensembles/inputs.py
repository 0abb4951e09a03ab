"""Inputs of ensemble functions: outputs of M models on the same N examples, as arrays or as `Runs`.

`read_members` is the only reader. It takes Runs, a list of outputs, one array [M, ...], a list of arrays, or a mapping of
arrays by name.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from zoo.core import arrays
from zoo.core.arrays import Array
from zoo.core.links import log_probabilities
from zoo.errors import InputError
from zoo.outputs.outputs import Outputs, Runs

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

Name: TypeAlias = str | int  # an int is a position in an array [M, ...]
Kind: TypeAlias = Literal["probabilities", "logits", "predictions"]
EnsembleInput: TypeAlias = "Array | Sequence[Outputs | ArrayLike | Array] | Mapping[str, Outputs | ArrayLike | Array]"
Labels: TypeAlias = "ArrayLike | Array | None"


@dataclass(frozen=True, eq=False)
class Members:
    """M models: either aligned runs, or tensors of one shape on one device."""

    names: tuple[Name, ...]
    kind: Kind
    tensors: list[Tensor]  # [N, K] or [N] each; empty for runs
    runs: Runs | None = None
    array_like: Any = None  # an input array: results are returned in its type. None for runs: NumPy

    def read(self, member: int) -> Tensor:
        """Return one model's probabilities or logits [N, K], or predictions [N], after checking their values."""
        where = f"{self.kind} of {self.names[member]}"
        if self.runs is not None:
            return _read_outputs(self.runs[str(self.names[member])], self.kind, where)
        if self.kind == "predictions":
            return arrays.optional_predictions(self.tensors[member], name=where)
        check = arrays.probabilities if self.kind == "probabilities" else arrays.logits
        return check(self.tensors[member], where)


def read_members(runs: EnsembleInput, kind: Kind) -> Members:
    """Return the models of any ensemble input. Outputs are aligned; arrays must be of the declared kind.

    >>> read_members({"a": [[0.9, 0.1]], "b": [[0.4, 0.6]]}, "probabilities").names
    ('a', 'b')
    """
    values: Any = list(runs.values()) if isinstance(runs, Mapping) else runs
    shape = "[N]" if kind == "predictions" else "[N, K]"
    if isinstance(values, (list, tuple)):
        if not values:
            raise InputError(argument="runs", expected="outputs of at least one model", found=0)
        if isinstance(values[0], Outputs):
            aligned = (runs if isinstance(runs, Runs) else Runs(values)).aligned()
            return Members(tuple(aligned), kind, [], aligned)
        names: tuple[Name, ...] = tuple(map(str, runs)) if isinstance(runs, Mapping) else tuple(range(len(values)))
        tensors = [arrays.tensor(value, f"{kind} of {name}") for name, value in zip(names, values, strict=True)]
        array_like = values[0]
    else:
        stack = arrays.tensor(values, "runs")
        if stack.ndim != (2 if kind == "predictions" else 3) or 0 in stack.shape:
            expected = f"{kind} of shape [M, {shape[1:]}, with no dimension of size 0"
            raise InputError(argument="runs", expected=expected, found=list(stack.shape))
        tensors, array_like = list(stack.unbind(0)), values
        names = tuple(range(len(tensors)))
    for name, tensor in zip(names, tensors, strict=True):
        _check_tensor(tensor, tensors[0], kind, f"{kind} of {name}")
    return Members(names, kind, tensors, array_like=array_like)


def _check_tensor(tensor: Tensor, first: Tensor, kind: Kind, where: str) -> None:
    if tensor.ndim != (1 if kind == "predictions" else 2) or 0 in tensor.shape:
        expected = f"of shape {'[N]' if kind == 'predictions' else '[N, K]'}, with no dimension of size 0"
        raise InputError(where=where, argument="runs", expected=expected, found=list(tensor.shape))
    if tensor.shape != first.shape:
        expected = f"of the first model's shape {list(first.shape)}"
        raise InputError(where=where, argument="runs", expected=expected, found=list(tensor.shape))
    if kind != "predictions" and not tensor.is_floating_point():
        raise InputError(where=where, argument="runs", expected="floating-point numbers", found=tensor.dtype)
    if tensor.device != first.device:
        raise InputError(
            where=where, argument="runs", expected=f"on the first model's device {first.device}", found=tensor.device
        )


def _read_outputs(outputs: Outputs, kind: Kind, where: str) -> Tensor:
    if kind == "predictions":
        return torch.from_numpy(outputs.predictions)
    if kind == "probabilities":
        return arrays.probabilities(outputs.probabilities, where)
    # Calibrated logits up to a constant per row, which puts members trained with softmax and sigmoid on one scale.
    link = outputs.link if outputs.kind == "logits" else "softmax"
    return log_probabilities(arrays.logits(outputs.logits, where), outputs.temperature or 1.0, link)


def check_counts(minimum: int = 1, **values: int) -> None:
    """Raise an error that names the first argument that is not a whole number of at least `minimum`."""
    for argument, value in values.items():
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < minimum:
            raise InputError(argument=argument, expected=f"a whole number of at least {minimum}", found=value)
