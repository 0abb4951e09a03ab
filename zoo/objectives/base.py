"""What an objective is: how logits come from penultimate features, what they cost, and what else is charged for.

Softmax cross-entropy is the base; every other objective overrides one or two of its hooks. A user's own does the same:

    @zoo.objectives.register("focal")
    @dataclass(frozen=True)
    class Focal(zoo.objectives.Objective):
        gamma: float = 2.0

        def losses(self, z, t):
            log_p = z.log_softmax(1)
            return -(t * (1 - log_p.exp()) ** self.gamma * log_p).sum(1)
"""

import dataclasses
import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo.core import arrays
from zoo.core.types import Link
from zoo.errors import InputError


def bounded(default: float, *, above: float | None = None, at_least: float | None = None,
            below: float | None = None, at_most: float | None = None) -> Any:  # fmt: skip
    """A hyper-parameter with a default and the range it must lie in.

    >>> @dataclass(frozen=True)
    ... class Sharp(Objective):
    ...     name = "sharp"
    ...     tau: float = bounded(0.05, above=0)
    >>> Sharp().hyperparameters
    {'tau': 0.05}
    >>> Sharp(tau=0)
    Traceback (most recent call last):
    ...
    zoo.errors.InputError: objective sharp: tau is 0, expected a finite number, above 0
    """
    bounds = {"above": above, "at least": at_least, "below": below, "at most": at_most}
    return dataclasses.field(default=default, metadata={k: v for k, v in bounds.items() if v is not None})


_HOLDS = {
    "above": lambda value, bound: value > bound,
    "at least": lambda value, bound: value >= bound,
    "below": lambda value, bound: value < bound,
    "at most": lambda value, bound: value <= bound,
}


@dataclass(frozen=True)
class Objective:
    """Softmax cross-entropy (Kornblith et al. 2021, eq. 1), and the hooks by which the other objectives differ from it.

    Called with features x [N, D], weights W [K, D], biases b [K] and targets y ([N] class indices, or [N, K] weights in
    0..1), it gives the mean training loss

        scale * mean_n losses(z, targets(t))_n + penalty(z, W),    z = logits(features(x), W, b).

    A subclass is a frozen dataclass whose fields are its hyper-parameters.

    >>> import torch
    >>> @dataclass(frozen=True)
    ... class Focal(Objective):
    ...     gamma: float = bounded(2.0, at_least=0)
    ...
    ...     def losses(self, z, t):
    ...         log_p = z.log_softmax(1)
    ...         return -(t * (1 - log_p.exp()) ** self.gamma * log_p).sum(1)
    >>> x, W, b, y = torch.eye(2), torch.eye(2), torch.zeros(2), torch.tensor([0, 1])
    >>> Objective()(x, W, b, y), Focal(gamma=0)(x, W, b, y), Focal()(x, W, b, y)
    (tensor(0.3133), tensor(0.3133), tensor(0.0227))
    """

    name: ClassVar[str] = "softmax"
    link: ClassVar[Link] = "softmax"  # how predictions turn its logits into probabilities

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            expected = "a finite number" + "".join(f", {side} {bound:g}" for side, bound in field.metadata.items())
            number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
            if not number or not all(_HOLDS[side](value, bound) for side, bound in field.metadata.items()):
                raise InputError(f"objective {self.name}: {field.name} is {value!r}, expected {expected}")

    @property
    def hyperparameters(self) -> dict[str, float]:
        """The named settings, e.g. `{"tau": 0.05}`."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def features(self, x: Tensor) -> Tensor:
        """What training does to the features [N, D] before the logits; prediction leaves them alone."""
        return x

    def logits(self, x: Tensor, W: Tensor, b: Tensor) -> Tensor:
        """This objective's own logits [N, K]; what it is trained on is also what it predicts with."""
        return functional.linear(x, W, b)

    def targets(self, t: Tensor) -> Tensor:
        """The targets [N, K] that the loss is given in place of t."""
        return t

    def losses(self, z: Tensor, t: Tensor) -> Tensor:
        """The loss [N] of each example; eq. 1."""
        return functional.cross_entropy(z, t, reduction="none")

    def penalty(self, z: Tensor, W: Tensor) -> Tensor | float:
        """What is added to the mean loss, unscaled."""
        return 0.0

    @property
    def scale(self) -> float:
        """The factor on the mean loss."""
        return 1.0

    def init_bias(self, num_classes: int) -> float:
        """Where each class's bias starts."""
        return 0.0

    def loss(self, x: Tensor, W: Tensor, b: Tensor, t: Tensor, training: bool = True) -> Tensor:
        """The mean loss for checked tensors; t is [N, K]."""
        z = self.logits(self.features(x) if training else x, W, b)
        return self.scale * self.losses(z, self.targets(t)).mean() + self.penalty(z, W)

    def __call__(self, x: Any, W: Any, b: Any, y: Any, training: bool = True) -> Any:
        """The mean loss, a scalar through which gradients flow; NumPy arrays give a NumPy scalar.

        >>> import torch
        >>> x, W, b = torch.eye(2), torch.eye(2), torch.zeros(2)
        >>> Objective()(x, W, b, torch.tensor([0, 1]))
        tensor(0.3133)
        """
        features, weights, biases = (_float(value, name) for value, name in ((x, "x"), (W, "W"), (b, "b")))
        if features.ndim != 2 or weights.ndim != 2 or features.shape[1] != weights.shape[1] or not len(features):
            raise InputError(
                f"objective {self.name}: expected features x [N, D] and weights W [K, D] of one width, "
                f"found {list(features.shape)} and {list(weights.shape)}"
            )
        if biases.shape != weights.shape[:1]:
            raise InputError(f"objective {self.name}: expected {len(weights)} biases, found shape {list(biases.shape)}")
        t = as_targets(y, len(features), len(weights)).to(features)
        return arrays.like_input(self.loss(features, weights, biases, t, training), x)


def as_targets(y: Any, rows: int, num_classes: int) -> Tensor:
    """Targets [N, K] from class indices [N] or from [N, K] weights in 0..1."""
    values = y if isinstance(y, Tensor) else arrays.tensor(y, "targets")
    if values.ndim != 2:
        return functional.one_hot(arrays.labels(values, num_classes, rows, "targets"), num_classes)
    if values.shape != (rows, num_classes) or not values.is_floating_point():
        raise InputError(
            f"targets: expected class indices [{rows}] or weights [{rows}, {num_classes}] in floating point, "
            f"found shape {list(values.shape)} of {values.dtype}"
        )
    bad = ~((values >= 0) & (values <= 1)).all(1)
    if bad.any():
        raise InputError(f"targets: row {int(bad.nonzero()[0])} has a weight that is not in 0..1")
    return values


def _float(values: Any, name: str) -> Tensor:
    result = values if isinstance(values, Tensor) else arrays.tensor(values, name)
    if not result.is_floating_point():
        raise InputError(f"{name}: expected floating-point numbers, found dtype {result.dtype}")
    return result


def _own_precision(x: Tensor) -> AbstractContextManager[Any]:
    """Computation in the precision of its operands, on devices that could choose another one."""
    device = x.device.type  # a `meta` tensor, which has a shape alone, has no precision to choose
    return torch.autocast(device, enabled=False) if torch.amp.is_autocast_available(device) else nullcontext()


class ObjectiveHead(nn.Module):
    """The final layer: W [K, D] and b [K] with an objective; features in, the objective's logits out, its loss beside them.

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
        with _own_precision(x):
            return self.objective.logits(x.to(self.weight.dtype), self.weight, self.bias)

    def loss(self, x: Tensor, t: Tensor) -> Tensor:
        """The mean loss for features [N, D] and targets [N, K], in the weights' precision whatever the body computed in."""
        with _own_precision(x):
            return self.objective.loss(x.to(self.weight.dtype), self.weight, self.bias, t, self.training)
