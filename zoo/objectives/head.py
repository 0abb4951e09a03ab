"""The final layer of a network trained with an objective."""

import torch
from torch import Tensor, nn

from zoo.objectives.base import Objective


class ObjectiveHead(nn.Module):
    """W [K, D] and b [K] with an objective: features in, the objective's own logits out, its loss beside them.

    >>> from zoo import objectives
    >>> head = ObjectiveHead(4, 3, objectives.get("sigmoid"))
    >>> head(torch.zeros(2, 4)).shape, round(head.bias[0].exp().item(), 4)  # each class starts at about 1/K
    (torch.Size([2, 3]), 0.3333)
    """

    def __init__(self, num_features: int, num_classes: int, objective: Objective) -> None:
        super().__init__()
        linear = nn.Linear(num_features, num_classes)
        self.weight = linear.weight
        self.bias = nn.Parameter(torch.full((num_classes,), objective.init_bias(num_classes)))
        self.in_features, self.out_features = num_features, num_classes
        self.objective = objective

    def forward(self, x: Tensor) -> Tensor:
        """Logits [N, K] of features [N, D]."""
        with torch.autocast(x.device.type, enabled=False):
            return self.objective.logits(x.to(self.weight.dtype), self.weight, self.bias)

    def loss(self, x: Tensor, t: Tensor) -> Tensor:
        """The mean loss for features [N, D] and targets [N, K], in the weights' precision whatever the body computed in."""
        with torch.autocast(x.device.type, enabled=False):
            return self.objective.loss(x.to(self.weight.dtype), self.weight, self.bias, t, self.training)
