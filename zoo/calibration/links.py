"""From logits to probabilities: the link a model was trained with, at a temperature."""

import math
from typing import Any

import torch

from zoo import arrays
from zoo.arrays import Array
from zoo.cards import Link
from zoo.errors import InputError


def to_probabilities(logits: Array, temperature: float = 1.0, link: Link = "softmax") -> Array:
    """Probabilities [N, K] of logits [N, K] divided by `temperature`, through the model's link.

    `softmax`: exp(z/T) over its sum. `sigmoid`: sigmoid(z/T) over its sum across classes, for models trained with one
    binary loss a class. Half precision comes back as float32; minus infinity is a masked class and gets probability 0.

    >>> to_probabilities(torch.tensor([[0.0, 2.0]]), temperature=2.0)
    tensor([[0.2689, 0.7311]])
    """
    z = arrays.tensor(logits, "logits")
    return arrays.give_back(log_probabilities(z, temperature, link).exp_(), logits)


def log_probabilities(logits: torch.Tensor, temperature: float = 1.0, link: Link = "softmax") -> torch.Tensor:
    """The logarithm of `to_probabilities`, exact where the probability itself underflows."""
    check_temperature(temperature)
    z = logits if logits.dtype in (torch.float32, torch.float64) else logits.float()
    if link == "softmax":
        # The row's maximum goes first, so that a large logit over a small temperature cannot overflow.
        return torch.log_softmax((z - z.amax(-1, keepdim=True)) / temperature, -1)
    if link == "sigmoid":
        # softmax(log s) = s / sum(s): sigmoids that all underflow still have the right ratio.
        return torch.log_softmax(torch.nn.functional.logsigmoid(z / temperature), -1)
    raise InputError(f"link: expected softmax or sigmoid, found {link!r}")


def check_temperature(temperature: Any) -> None:
    """An error unless the temperature is a positive finite number."""
    if not (isinstance(temperature, (int, float)) and math.isfinite(temperature) and temperature > 0):
        raise InputError(f"temperature: expected a positive finite number, found {temperature!r}")
