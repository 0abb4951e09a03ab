"""From logits to probabilities: the link a model was trained with, at a temperature."""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from zoo.core import arrays, backend, checks
from zoo.core.arrays import Array
from zoo.core.backend import single_or_double
from zoo.core.types import Link, TemperatureSpace
from zoo.errors import InputError

if TYPE_CHECKING:
    import torch


def to_probabilities(
    logits: Array,
    temperature: float = 1.0,
    link: Link = "softmax",
    *,
    temperature_space: TemperatureSpace = "logits",
    name: str = "logits",
    ids: Sequence[Any] | None = None,
) -> Array:
    """Return the probabilities [N, K] of logits at a temperature.

    Args:
        logits: [N, K]. Minus infinity marks a masked class, which gets probability 0. The result is at least float32.
        temperature: T, above 0.
        link: `softmax`: exp(z/T), normalised. `sigmoid`: sigmoid(z/T), normalised over classes, for a model that was trained
            with one binary loss per class.
        temperature_space: `distribution` gives sigmoid(z)^(1/T), normalised, for the link `sigmoid`.
        name: what errors call the logits.
        ids: [N] ids of the examples, for errors.

    >>> to_probabilities([[0.0, 2.0]], temperature=2.0).round(4)
    array([[0.2689, 0.7311]])
    """
    z = checks.array(logits, name)
    z = arrays.by_size(z, math.prod(z.shape))
    checks.check_finite(z, name, ids)
    if distributed(link, temperature_space):
        z, link = log_sigmoid(z), "softmax"
    return arrays.like_input(backend.softmax(_exponents(z, temperature, link)), logits)


def log_probabilities(logits: "torch.Tensor", temperature: float = 1.0, link: Link = "softmax") -> "torch.Tensor":
    """Return the logarithm of `to_probabilities`, accurate even if the probability itself underflows."""
    return _exponents(logits, temperature, link).log_softmax(-1)


def _exponents(logits: Any, temperature: float, link: Link) -> Any:
    """Return the values whose softmax is the probabilities."""
    check_temperature(temperature)
    z = single_or_double(logits)
    xp = backend.backend(z)
    limits = xp.finfo(z.dtype)
    temperature = min(max(temperature, float(limits.tiny)), float(limits.max))  # as a number of this dtype
    with np.errstate(over="ignore"):  # a difference that overflows is minus infinity: the probability is 0
        if link == "softmax":
            # The row's maximum is subtracted first, so that a large logit over a small temperature cannot overflow.
            exponents = z - xp.amax(z, -1)[..., None]
            exponents /= temperature
            return exponents
        if link == "sigmoid":
            # softmax(log s) = s / sum(s): the ratios are exact even if all sigmoids underflow. With z' = min(z, 0),
            # log s(z/T) = z'/T - log(1 + exp(-|z|/T)), from which the constant max(z')/T is subtracted, as above.
            low = z.clip(max=0)
            low = (low - xp.amax(low, -1)[..., None]) / temperature
            return low - xp.log1p(xp.exp(-abs(z) / temperature))
    raise InputError(argument="link", expected="softmax or sigmoid", found=link)


def distributed(link: Link, temperature_space: TemperatureSpace) -> bool:
    """Return whether a temperature divides the logarithm of the sigmoids' distribution instead of the logits.

    If so, `log_sigmoid` of the logits takes the place of the logits, and softmax the place of the link.
    """
    if temperature_space not in get_args(TemperatureSpace):
        expected = " or ".join(get_args(TemperatureSpace))
        raise InputError(argument="temperature_space", expected=expected, found=temperature_space)
    return link == "sigmoid" and temperature_space == "distribution"


def log_sigmoid(logits: Any) -> Any:
    """Return log(sigmoid(z)), whose softmax is the sigmoids divided by their sum."""
    return backend.log_sigmoid(single_or_double(logits))


def check_temperature(temperature: Any) -> None:
    """Raise an error unless the temperature is a finite number above 0."""
    if not (isinstance(temperature, (int, float)) and math.isfinite(temperature) and temperature > 0):
        raise InputError(argument="temperature", expected="a finite number above 0", found=temperature)
