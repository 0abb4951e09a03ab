"""Objectives by name: the nine of the paper, registered ones, and combinations such as `sigmoid+dropout`."""

import builtins
import dataclasses
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import Tensor

from zoo.cards import recipe_names
from zoo.cards.names import check_safe, unknown
from zoo.core.types import Link
from zoo.errors import InputError
from zoo.objectives import frameworks, losses
from zoo.objectives.base import Objective

# Objectives that can be combined. Users register theirs here.
_OBJECTIVES: dict[str, type[Objective]] = {
    kind.name: kind
    for kind in (
        losses.Softmax, losses.LabelSmoothing, losses.Dropout, losses.ExtraL2, losses.LogitPenalty, losses.LogitNorm,
        losses.Cosine, losses.Sigmoid, losses.SquaredError,
    )
}  # fmt: skip

# Objectives of other training frameworks, which cannot be combined.
_FRAMEWORKS: dict[str, type[Objective]] = {
    kind.name: kind for kind in (frameworks.SimCLR, frameworks.SupCon, frameworks.Rotation, frameworks.Distilled)
}

Kind = TypeVar("Kind", bound=type[Objective])


def list() -> builtins.list[str]:
    """Return the names of the supervised objectives: the nine of the paper, then registered ones.

    >>> list()[:3]
    ['softmax', 'label-smoothing', 'dropout']
    """
    return [*_OBJECTIVES]


def get(name: str, **hyperparameters: float) -> Objective:
    """Return an objective by name.

    Args:
        name: an objective, or several joined by `+`.
        hyperparameters: settings of the objective, or of whichever part of a combination has them.

    >>> get("cosine", tau=0.07).hyperparameters
    {'tau': 0.07}
    >>> get("sigmoid+dropout", rho=0.9).link
    'sigmoid'
    """
    kinds = [_kind(part, name) for part in name.split("+")]
    owner = {field.name: kind for kind in kinds for field in dataclasses.fields(kind)}
    for key in hyperparameters:
        if key not in owner:
            raise unknown("hyper-parameter", key, owner, list_known=True, where=f"objective {name}")
    parts = [kind(**{key: value for key, value in hyperparameters.items() if owner[key] is kind}) for kind in kinds]
    return parts[0] if len(parts) == 1 else Combination(tuple(parts))


def from_settings(name: str, settings: Mapping[str, Any]) -> Objective:
    """Return an objective with hyper-parameters from a training run's settings; other settings are ignored.

    >>> from_settings("cosine", {"tau": 0.07, "epochs": 90}).hyperparameters
    {'tau': 0.07}
    """
    return get(name, **{key: value for key, value in settings.items() if key in options(name)})


def options(name: str) -> builtins.list[str]:
    """Return the names of the hyper-parameters of an objective or a combination.

    >>> options("cosine+dropout")
    ['tau', 'scale_below', 'rho']
    """
    return [field.name for part in name.split("+") for field in dataclasses.fields(_kind(part, name))]


def register(name: str) -> Callable[[Kind], Kind]:
    """Return a decorator that registers an `Objective` subclass, for `get`, recipe names and the command line.

    >>> @register("tempered")
    ... @dataclass(frozen=True)
    ... class Tempered(Objective):
    ...     tau: float = 1.0
    ...
    ...     def logits(self, x, W, b):
    ...         return super().logits(x, W, b) / self.tau
    >>> get("tempered+dropout", tau=0.5).hyperparameters
    {'tau': 0.5, 'rho': 0.7}
    >>> recipe_names.remove(_OBJECTIVES.pop("tempered").name)  # as the end of the process does
    """
    check_safe(name, "objective")
    if "+" in name:
        raise InputError(argument="name", expected="without `+`, which joins the parts of a combination", found=name)
    if name in _OBJECTIVES or name in _FRAMEWORKS:
        raise InputError(f"an objective {name!r} is already registered", argument="name", found=name)

    def add(kind: Kind) -> Kind:
        if not dataclasses.is_dataclass(kind):
            raise InputError(
                f"{kind.__name__} is not a dataclass",
                where=f"objective {name}",
                hint="Make it a frozen dataclass whose fields are its hyper-parameters",
            )
        kind.name = name
        _OBJECTIVES[name] = kind
        recipe_names.add(name)
        return kind

    return add


def _kind(part: str, name: str) -> type[Objective]:
    known = _OBJECTIVES | (_FRAMEWORKS if part == name else {})
    if part not in known:
        where = None if part == name else f"objective {name}"
        raise unknown("objective", part, known, list_known=True, where=where)
    return known[part]


@dataclass(frozen=True)
class Combination(Objective):
    """Several objectives as one: changes of features and targets are chained, penalties added, scales multiplied.

    At most one part may define the logits and at most one the loss, so `cosine+logit-norm` and `sigmoid+squared-error` are
    refused. A logit penalty combined with logit-norm is the constant beta / tau^2.
    """

    parts: tuple[Objective, ...]

    def __post_init__(self) -> None:
        names = [part.name for part in self.parts]
        where = f"objective {self.name}"
        for name in names:
            if names.count(name) > 1:
                raise InputError(f"{name} occurs twice", where=where)
        for method in ("logits", "losses"):
            rivals = [part.name for part in self.parts if _overrides(part, method)]
            if len(rivals) > 1:
                raise InputError(f"{' and '.join(rivals)} each define the {method}", where=where, hint="Use one of them")
        settings = [key for part in self.parts for key in part.hyperparameters]
        if len(settings) > len(set(settings)):
            raise InputError("two parts have a hyper-parameter of the same name", where=where)

    @property
    def name(self) -> str:  # type: ignore[override]
        return "+".join(part.name for part in self.parts)

    @property
    def link(self) -> Link:  # type: ignore[override]
        return self._owner("losses").link

    @property
    def hyperparameters(self) -> dict[str, float]:
        return {key: value for part in self.parts for key, value in part.hyperparameters.items()}

    def features(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part.features(x)
        return x

    def logits(self, x: Tensor, W: Tensor, b: Tensor) -> Tensor:
        return self._owner("logits").logits(x, W, b)

    def targets(self, t: Tensor) -> Tensor:
        for part in self.parts:
            t = part.targets(t)
        return t

    def losses(self, z: Tensor, t: Tensor) -> Tensor:
        return self._owner("losses").losses(z, t)

    def penalty(self, z: Tensor, W: Tensor) -> Tensor | float:
        return sum(part.penalty(z, W) for part in self.parts)

    @property
    def scale(self) -> float:
        return math.prod(part.scale for part in self.parts)

    def init_bias(self, num_classes: int) -> float:
        return self._owner("losses").init_bias(num_classes)

    def _owner(self, method: str) -> Objective:
        return next((part for part in self.parts if _overrides(part, method)), self.parts[0])


def _overrides(part: Objective, method: str) -> bool:
    return getattr(type(part), method) is not getattr(Objective, method)
