"""Objectives by name: the nine, a user's own, and combinations such as `sigmoid+dropout`."""

import builtins
import dataclasses
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from torch import Tensor

from zoo.cards import recipe_names
from zoo.cards.names import check_safe, near
from zoo.core.types import Link
from zoo.errors import InputError, UnknownName
from zoo.objectives import frameworks, losses
from zoo.objectives.base import Objective

_KINDS: dict[str, type[Objective]] = {
    kind.name: kind
    for kind in (
        losses.Softmax, losses.LabelSmoothing, losses.Dropout, losses.ExtraL2, losses.LogitPenalty, losses.LogitNorm,
        losses.Cosine, losses.Sigmoid, losses.SquaredError,
    )
}  # fmt: skip

_FRAMEWORKS: dict[str, type[Objective]] = {
    kind.name: kind for kind in (frameworks.SimCLR, frameworks.SupCon, frameworks.Rotation, frameworks.Distilled)
}

Kind = TypeVar("Kind", bound=type[Objective])


def list() -> builtins.list[str]:
    """The names of the objectives: the nine, then those registered here.

    >>> list()[:3]
    ['softmax', 'label-smoothing', 'dropout']
    """
    return [*_KINDS]


def get(name: str, **hyperparameters: Any) -> Objective:
    """The objective of that name; `a+b` combines several, each hyper-parameter going to the part that has it.

    >>> get("cosine", tau=0.07).hyperparameters
    {'tau': 0.07}
    >>> get("sigmoid+dropout", rho=0.9).link
    'sigmoid'
    """
    kinds = [_kind(part, name) for part in name.split("+")]
    owner = {field.name: kind for kind in kinds for field in dataclasses.fields(kind)}
    for key in hyperparameters:
        if key not in owner:
            known = f"it has {', '.join(owner)}" if owner else "it has none"
            raise InputError(f"objective {name}: unknown hyper-parameter {key!r}; {known}{near(key, owner)}")
    parts = [kind(**{key: value for key, value in hyperparameters.items() if owner[key] is kind}) for kind in kinds]
    return parts[0] if len(parts) == 1 else Combination(tuple(parts))


def pick(name: str, settings: Mapping[str, Any]) -> Objective:
    """The objective of that name with those of `settings` that are its own; the others belong to something else.

    >>> pick("cosine", {"tau": 0.07, "epochs": 90}).hyperparameters
    {'tau': 0.07}
    """
    return get(name, **{key: value for key, value in settings.items() if key in options(name)})


def options(name: str) -> builtins.list[str]:
    """The hyper-parameters that an objective, or a combination, can be given.

    >>> options("cosine+dropout")
    ['tau', 'scale_below', 'rho']
    """
    return [field.name for part in name.split("+") for field in dataclasses.fields(_kind(part, name))]


def register(name: str) -> Callable[[Kind], Kind]:
    """A decorator that makes an `Objective` subclass known by `name` to `get`, to recipes and to the command line.

    >>> @register("tempered")
    ... @dataclass(frozen=True)
    ... class Tempered(Objective):
    ...     tau: float = 1.0
    ...
    ...     def logits(self, x, W, b):
    ...         return super().logits(x, W, b) / self.tau
    >>> get("tempered+dropout", tau=0.5).hyperparameters
    {'tau': 0.5, 'rho': 0.7}
    >>> recipe_names.remove(_KINDS.pop("tempered").name)  # as the end of the process does
    """
    check_safe(name, "objective")
    if "+" in name:
        raise InputError(f"objective {name!r}: `+` joins the parts of a combination and cannot stand in a name")
    if name in _KINDS or name in _FRAMEWORKS:
        raise InputError(f"objective {name!r} is already registered")

    def add(kind: Kind) -> Kind:
        if not dataclasses.is_dataclass(kind):
            raise InputError(
                f"objective {name}: {kind.__name__} must be a frozen dataclass, its fields the hyper-parameters"
            )
        kind.name = name
        _KINDS[name] = kind
        recipe_names.add(name)
        return kind

    return add


def _kind(part: str, name: str) -> type[Objective]:
    known = _KINDS | (_FRAMEWORKS if part == name else {})  # another framework is no part of a combination
    if part not in known:
        of = "" if part == name else f" in {name!r}"
        raise UnknownName(f"unknown objective {part!r}{of}, expected one of {', '.join(known)}{near(part, known)}")
    return known[part]


@dataclass(frozen=True)
class Combination(Objective):
    """Several objectives as one: changes to features and targets in turn, penalties added, scales multiplied.

    At most one part may bring its own logits and at most one its own loss: `cosine+logit-norm` and
    `sigmoid+squared-error` have no meaning. A logit penalty beside logit-norm is the constant beta / tau^2.
    """

    parts: tuple[Objective, ...]

    def __post_init__(self) -> None:
        names = [part.name for part in self.parts]
        for part in self.parts:
            if names.count(part.name) > 1:
                raise InputError(f"objective {self.name}: {part.name} is named twice")
        for hook in ("logits", "losses"):
            rivals = [part.name for part in self.parts if _overrides(part, hook)]
            if len(rivals) > 1:
                raise InputError(f"objective {self.name}: {' and '.join(rivals)} each define the {hook}; name one of them")
        settings = [key for part in self.parts for key in part.hyperparameters]
        if len(settings) > len(set(settings)):
            raise InputError(f"objective {self.name}: two of its parts share the name of a hyper-parameter")

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
        product = 1.0
        for part in self.parts:
            product *= part.scale
        return product

    def init_bias(self, num_classes: int) -> float:
        return self._owner("losses").init_bias(num_classes)

    def _owner(self, hook: str) -> Objective:
        return next((part for part in self.parts if _overrides(part, hook)), self.parts[0])


def _overrides(part: Objective, hook: str) -> bool:
    return getattr(type(part), hook) is not getattr(Objective, hook)
