"""The base class of training objectives, and the final layer that computes an objective's logits and loss.

The base class is softmax cross-entropy. Every other objective overrides one or two of its methods, as a custom one can:

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
import operator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo.core import arrays
from zoo.core.arrays import Array
from zoo.core.types import Link
from zoo.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike

_COMPARISONS = {"above": operator.gt, "at least": operator.ge, "below": operator.lt, "at most": operator.le}


def bounded(
    default: float,
    *,
    above: float | None = None,
    at_least: float | None = None,
    below: float | None = None,
    at_most: float | None = None,
) -> Any:
    """Declare a hyper-parameter of an objective: its default and the range it must be in.

    >>> @dataclass(frozen=True)
    ... class Sharp(Objective):
    ...     name = "sharp"
    ...     tau: float = bounded(0.05, above=0)
    >>> Sharp().hyperparameters
    {'tau': 0.05}
    >>> Sharp(tau=0)
    Traceback (most recent call last):
    ...
    zoo.errors.InputError: objective sharp: tau must be a finite number above 0 (got 0)
    """
    bounds = {"above": above, "at least": at_least, "below": below, "at most": at_most}
    return dataclasses.field(default=default, metadata={side: bound for side, bound in bounds.items() if bound is not None})


@dataclass(frozen=True)
class Objective:
    """Softmax cross-entropy (Kornblith et al. 2021, eq. 1), and the methods that other objectives override.

    Calling an objective with features x [N, D], weights W [K, D], biases b [K] and targets returns the mean training loss

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
    link: ClassVar[Link] = "softmax"  # how predictions turn the logits into probabilities

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value = getattr(self, field.name)
            bounds = field.metadata.items()
            number = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
            if not number or not all(_COMPARISONS[side](value, bound) for side, bound in bounds):
                ranges = " and ".join(f"{side} {bound:g}" for side, bound in bounds)
                expected = f"a finite number {ranges}".rstrip()
                raise InputError(where=f"objective {self.name}", argument=field.name, expected=expected, found=value)

    @property
    def hyperparameters(self) -> dict[str, float]:
        """The hyper-parameters by name, such as `{"tau": 0.05}`."""
        return {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}

    def features(self, x: Tensor) -> Tensor:
        """Return the features [N, D] that the logits are computed from in training; prediction uses x itself."""
        return x

    def logits(self, x: Tensor, W: Tensor, b: Tensor) -> Tensor:
        """Return the logits [N, K], in training and prediction alike."""
        return functional.linear(x, W, b)

    def targets(self, t: Tensor) -> Tensor:
        """Return the targets [N, K] that the loss uses instead of t."""
        return t

    def losses(self, z: Tensor, t: Tensor) -> Tensor:
        """Return the loss [N] of each example; eq. 1."""
        return functional.cross_entropy(z, t, reduction="none")

    def penalty(self, z: Tensor, W: Tensor) -> Tensor | float:
        """Return the penalty that is added to the scaled mean loss."""
        return 0.0

    @property
    def scale(self) -> float:
        """The factor of the mean loss."""
        return 1.0

    def init_bias(self, num_classes: int) -> float:
        """Return the initial value of each class's bias."""
        return 0.0

    def loss(self, x: Tensor, W: Tensor, b: Tensor, t: Tensor, training: bool = True) -> Tensor:
        """Return the mean loss of tensors that are checked already; t is [N, K]."""
        z = self.logits(self.features(x) if training else x, W, b)
        return self.scale * self.losses(z, self.targets(t)).mean() + self.penalty(z, W)

    def __call__(
        self,
        x: "ArrayLike | Array",
        W: "ArrayLike | Array",
        b: "ArrayLike | Array",
        y: "ArrayLike | Array",
        training: bool = True,
    ) -> Any:
        """Return the mean loss: a tensor with gradients for tensors, a NumPy scalar for NumPy arrays.

        Args:
            x: [N, D] features.
            W: [K, D] class weights.
            b: [K] biases.
            y: [N] class indices, or [N, K] weights in 0..1.
            training: whether `features` is applied, as dropout is in training.

        >>> import torch
        >>> x, W, b = torch.eye(2), torch.eye(2), torch.zeros(2)
        >>> Objective()(x, W, b, torch.tensor([0, 1]))
        tensor(0.3133)
        """
        where = f"objective {self.name}"
        features, weights, biases = (_float(value, name, where) for value, name in ((x, "x"), (W, "W"), (b, "b")))
        if features.ndim != 2 or not len(features):
            raise InputError(where=where, argument="x", expected="of shape [N, D]", found=list(features.shape))
        width = features.shape[1]
        if weights.ndim != 2 or weights.shape[1] != width:
            raise InputError(where=where, argument="W", expected=f"of shape [K, {width}]", found=list(weights.shape))
        if biases.shape != weights.shape[:1]:
            raise InputError(where=where, argument="b", expected=f"of shape [{len(weights)}]", found=list(biases.shape))
        t = _targets(y, len(features), len(weights), where).to(features)
        return arrays.like_input(self.loss(features, weights, biases, t, training), x)


def _targets(y: Any, rows: int, num_classes: int, where: str) -> Tensor:
    """Return targets [N, K] from class indices [N] or from [N, K] weights in 0..1."""
    values = y if isinstance(y, Tensor) else arrays.tensor(y, "y")
    if values.ndim != 2:
        return functional.one_hot(arrays.labels(values, num_classes, rows, "y"), num_classes)
    if values.shape != (rows, num_classes) or not values.is_floating_point():
        raise InputError(
            where=where,
            argument="y",
            expected=f"class indices [{rows}] or floating-point weights [{rows}, {num_classes}]",
            found=f"{list(values.shape)} of {values.dtype}",
        )
    bad = ~((values >= 0) & (values <= 1)).all(1)
    if bad.any():
        raise InputError("has a weight outside 0..1", where=f"{where}: row {int(bad.nonzero()[0])}", argument="y")
    return values


def _float(values: Any, name: str, where: str) -> Tensor:
    result = values if isinstance(values, Tensor) else arrays.tensor(values, name)
    if not result.is_floating_point():
        raise InputError(where=where, argument=name, expected="floating-point numbers", found=result.dtype)
    return result


def _without_autocast(x: Tensor) -> AbstractContextManager[Any]:
    """Return a context that turns autocast off on x's device, so that operations keep the precision of their operands."""
    device = x.device.type  # the `meta` device has no autocast
    return torch.autocast(device, enabled=False) if torch.amp.is_autocast_available(device) else nullcontext()


class ObjectiveHead(nn.Module):
    """The final layer: weights W [K, D] and biases b [K] with the logits and the loss of an objective.

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
        """Return logits [N, K] for features [N, D]."""
        with _without_autocast(x):
            return self.objective.logits(x.to(self.weight.dtype), self.weight, self.bias)

    def loss(self, x: Tensor, t: Tensor) -> Tensor:
        """Return the mean loss for features [N, D] and targets [N, K], computed in the precision of the weights."""
        with _without_autocast(x):
            return self.objective.loss(x.to(self.weight.dtype), self.weight, self.bias, t, self.training)
