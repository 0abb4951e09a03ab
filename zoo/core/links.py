"""From logits to probabilities: the link a model was trained with, at a temperature."""

import math
from collections.abc import Sequence
from typing import Any, get_args

import torch

from zoo.core import arrays
from zoo.core.arrays import Array
from zoo.core.types import Link, TemperatureSpace
from zoo.errors import InputError


def to_probabilities(
    logits: Array,
    temperature: float = 1.0,
    link: Link = "softmax",
    *,
    temperature_space: TemperatureSpace = "logits",
    name: str = "logits",
    ids: Sequence[Any] | None = None,
) -> Array:
    """Probabilities [N, K] of logits [N, K] divided by `temperature`, through the model's link.

    `softmax`: exp(z/T) over its sum. `sigmoid`: sigmoid(z/T) over its sum across classes, for models trained with one
    binary loss per class; or sigmoid(z)^(1/T) over its sum, where `temperature_space` is `distribution`. Half precision comes back as
    float32; minus infinity is a masked class and gets probability 0. A row that is not finite is an error, which says `name`
    and, where there are any, the row's id.

    >>> to_probabilities(torch.tensor([[0.0, 2.0]]), temperature=2.0)
    tensor([[0.2689, 0.7311]])
    """
    z = arrays.tensor(logits, name)
    check_finite(z, name, ids)
    if distributed(link, temperature_space):
        z, link = log_sigmoid(z), "softmax"
    return arrays.like_input(torch.softmax(_exponents(z, temperature, link), -1), logits)


def log_probabilities(logits: torch.Tensor, temperature: float = 1.0, link: Link = "softmax") -> torch.Tensor:
    """The logarithm of `to_probabilities`, exact where the probability itself underflows."""
    return torch.log_softmax(_exponents(logits, temperature, link), -1)


def _exponents(logits: torch.Tensor, temperature: float, link: Link) -> torch.Tensor:
    """What the probabilities are the softmax of."""
    check_temperature(temperature)
    z = logits if logits.dtype in (torch.float32, torch.float64) else logits.float()
    if link == "softmax":
        # The row's maximum goes first, so that a large logit over a small temperature cannot overflow.
        return (z - z.amax(-1, keepdim=True)).div_(temperature)
    if link == "sigmoid":
        # softmax(log s) = s / sum(s): sigmoids that all underflow still have the right ratio.
        return torch.nn.functional.logsigmoid(z / temperature)
    raise InputError(f"link: expected softmax or sigmoid, found {link!r}")


def distributed(link: Link, temperature_space: TemperatureSpace) -> bool:
    """Whether a temperature is to act on the sigmoids' distribution: on `log_sigmoid` of the logits, through a softmax."""
    if temperature_space not in get_args(TemperatureSpace):
        raise InputError(
            f"temperature_space: expected {' or '.join(get_args(TemperatureSpace))}, found {temperature_space!r}"
        )
    return link == "sigmoid" and temperature_space == "distribution"


def log_sigmoid(logits: torch.Tensor) -> torch.Tensor:
    """What the softmax gives the sigmoids' distribution of: p up to a factor per row is exp of it."""
    return torch.nn.functional.logsigmoid(logits if logits.dtype == torch.float64 else logits.float())


def check_finite(logits: torch.Tensor, name: str = "logits", ids: Sequence[Any] | None = None) -> None:
    """An error that names the first row with NaN, plus infinity, or every class masked."""
    bad = ~torch.isfinite(logits.amax(-1))
    if bad.any():
        row = int(bad.reshape(-1).nonzero()[0])
        which = f"row {row}" if ids is None else f"example {str(ids[row])!r}"
        raise InputError(
            f"{name}: {which} has NaN, +inf or no finite value ({int(bad.sum())} such rows); expected finite logits"
        )


def check_temperature(temperature: Any) -> None:
    """An error unless the temperature is a positive finite number."""
    if not (isinstance(temperature, (int, float)) and math.isfinite(temperature) and temperature > 0):
        raise InputError(f"temperature: expected a positive finite number, found {temperature!r}")
