"""When a cascade stops: how certain the mean prediction of the members evaluated so far is.

Both the search that fits the thresholds and the cascade itself use this module, so that both stop at the same examples.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

if TYPE_CHECKING:
    from torch import Tensor

Rule: TypeAlias = Literal["confidence", "margin", "agreement"]
RULES: tuple[Rule, ...] = get_args(Rule)
NEVER = 2.0  # a threshold above every certainty


@dataclass(frozen=True)
class Stopping:
    """A stop rule: after member i, examples with a certainty of at least `thresholds[i]` stop; after the last, all do."""

    rule: Rule
    thresholds: list[float]


def certainties(total: "Tensor", top: "Tensor", votes: "Tensor", members: int, weight: float) -> "dict[Rule, Tensor]":
    """Return the certainty [N] of the mean prediction by each rule, at most 1.

    confidence: mean probability of the predicted class. margin: confidence minus the mean probability of the second class.
    agreement: (votes - 1 + confidence) / members, so that votes decide and confidence breaks ties; for one member it equals
    the confidence.

    Args:
        total: [N, K] sum of the members' weighted probabilities. It is changed and restored.
        top: [N] class with the greatest sum.
        votes: [N] number of members that predict `top`.
        members: number of members.
        weight: sum of the members' weights.

    >>> import torch
    >>> found = certainties(torch.tensor([[1.4, 0.4, 0.2]]), torch.tensor([0]), torch.tensor([2]), members=2, weight=2)
    >>> {rule: round(float(value), 4) for rule, value in found.items()}
    {'confidence': 0.7, 'margin': 0.5, 'agreement': 0.85}
    """
    at = top[:, None]
    greatest = total.gather(1, at)
    second = total.scatter_(1, at, 0).amax(1)  # restored below: a copy would read every number again
    total.scatter_(1, at, greatest)
    confidence = greatest[:, 0] / weight
    agreement = (votes - 1 + confidence) / members
    return {"confidence": confidence, "margin": confidence - second / weight, "agreement": agreement}
