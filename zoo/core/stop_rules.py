"""When a cascade stops: how certain the mean of the members asked so far is of its class.

Shared by the search that fits the thresholds and by the model that obeys them, so that both stop at the same examples.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

if TYPE_CHECKING:
    from torch import Tensor

Rule: TypeAlias = Literal["confidence", "margin", "agreement"]
RULES: tuple[Rule, ...] = get_args(Rule)
NEVER = 2.0  # a threshold that no certainty reaches


@dataclass(frozen=True)
class Stopping:
    """After member i the examples stop whose certainty by the rule is at least `thresholds[i]`; after the last, all do."""

    rule: Rule
    thresholds: list[float]


def certainties(total: "Tensor", top: "Tensor", votes: "Tensor", members: int, weight: float) -> "dict[Rule, Tensor]":
    """[N] by rule, at most 1 each, of `members` distributions whose sum [N, K], of this `weight`, is greatest at `top` [N].

    confidence: the mean's probability of its class. margin: how far that is above the second class's. agreement: how many
    members have this class first, `votes` [N], and by confidence among equals, (votes - 1 + confidence) / members; of
    one member it is the confidence.

    >>> import torch
    >>> found = certainties(torch.tensor([[1.4, 0.4, 0.2]]), torch.tensor([0]), torch.tensor([2]), members=2, weight=2)
    >>> {rule: round(float(value), 4) for rule, value in found.items()}
    {'confidence': 0.7, 'margin': 0.5, 'agreement': 0.85}
    """
    at = top[:, None]
    greatest = total.gather(1, at)
    second = total.scatter_(1, at, 0).amax(1)  # put back below: a copy would be another look at every number
    total.scatter_(1, at, greatest)
    confidence = greatest[:, 0] / weight
    agreement = (votes - 1 + confidence) / members
    return {"confidence": confidence, "margin": confidence - second / weight, "agreement": agreement}
