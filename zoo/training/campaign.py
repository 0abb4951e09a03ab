"""Plan files: YAML that lists many models to train, and the state of each model.

data: cifar10                      # dataset of every model that names no other
models:
- resnet7-softmax                  # a recipe
- {name: resnet7-cosine, seeds: 3} # seeds 0, 1 and 2
- {name: resnet7-softmax, set: {mixup: 0.2}, as: r7-mixup.cifar10}
- resnet7-softmax.fashion-mnist
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from zoo.cards import card_index
from zoo.cards.card import parse_yaml
from zoo.cards.names import parse_recipe
from zoo.core import files, typed
from zoo.errors import InputError, UnknownName, ZooError
from zoo.models import trained
from zoo.training.plans import NOT_SETTINGS, plan

State = Literal["shipped", "trained", "begun", "left"]
MAX_BYTES = 2**20
MAX_SEEDS = 1000  # of one recipe
MAX_MODELS = 5000  # of a plan, every seed counted
_MAX_SHOWN = 200  # characters of an unknown field's name in a message
_FIELDS = {"name", "data", "seeds", "set", "as"}  # of an item of `models`


@dataclass(frozen=True)
class Entry:
    """One model of a plan file."""

    name: str  # of the trained model
    call: dict[str, Any]  # arguments of `zoo.train`

    @property
    def state(self) -> State:
        """Whether the model is shipped, trained on this machine, begun (a checkpoint exists), or left to train."""
        if (card_index.shipped_folder() / f"{self.name}.safetensors").exists():
            return "shipped"
        file = trained.path(self.name)
        if file.exists():
            return "trained"
        return "begun" if file.with_name("checkpoint.safetensors").exists() else "left"


@dataclass(frozen=True)
class _File:
    models: list[Any]
    data: str | None = None


@dataclass(frozen=True)
class _Item:
    """An item of the list `models`. Its field `as` in the file is a keyword in Python, hence `save_as`."""

    name: str
    data: str | None = None
    seeds: int | None = None
    set: dict[str, Any] = field(default_factory=dict)
    save_as: str | None = None

    def __post_init__(self) -> None:
        if self.seeds is not None and not 1 <= self.seeds <= MAX_SEEDS:
            raise InputError(where=".seeds", expected=f"from 1 to {MAX_SEEDS}", found=self.seeds)
        if self.save_as is not None and (self.seeds or 1) > 1:
            raise InputError(f"is one name for {self.seeds} seeds", where=".as", hint="Name each seed in an item of its own")
        for key, value in self.set.items():
            if key in NOT_SETTINGS:
                raise UnknownName(kind="setting", name=key, where=".set")
            if not isinstance(value, (str, int, float)):
                raise InputError(where=f".set.{key}", expected="a number, text, true or false", found=value)


def read(path: Path) -> list[Entry]:
    """Return the models of a plan file in its order. All are planned at once, so that errors appear before any training."""
    plan_file = typed.build(_File, _parse(path), str(path), "")
    items = [_item(value, f"models[{number}]", path) for number, value in enumerate(plan_file.models)]
    count = sum(item.seeds or 1 for item in items)
    if not 1 <= count <= MAX_MODELS:
        raise InputError(where=f"{path}: models", expected=f"from 1 to {MAX_MODELS} models, every seed counted", found=count)
    entries: dict[str, Entry] = {}
    for number, item in enumerate(items):
        try:
            for entry in _entries(item, plan_file.data):
                if (other := entries.get(entry.name.lower())) is not None:
                    hint = None if item.save_as is None else "Name every model of the plan differently in the field `as`"
                    raise InputError(f"a model named {other.name} is already planned", hint=hint)
                entries[entry.name.lower()] = entry  # folders may not distinguish case
        except ZooError as error:
            error.options = {"save_as": "as"}
            raise error.inside(f"{path}: models[{number}]")  # noqa: B904  # the same error
    return list(entries.values())


def _parse(path: Path) -> Mapping[str, Any]:
    try:
        text = files.read_text(path, MAX_BYTES)
    except ZooError as error:
        raise InputError(f"not a readable plan: {error.problem}", where=path, expected=error.expected) from error
    value = parse_yaml(text, str(path))
    if not isinstance(value, Mapping):
        raise InputError(where=path, expected="a mapping with a list `models` and optionally `data`", found=value)
    return value


def _item(value: Any, root: str, path: Path) -> _Item:
    fields = {"name": value} if isinstance(value, str) else value
    if isinstance(fields, Mapping):
        for key in set(fields) - _FIELDS:
            hint = f"Known fields: {', '.join(sorted(_FIELDS))}"
            raise InputError("unknown field", where=f"{path}: {root}.{str(key)[:_MAX_SHOWN]}", hint=hint)
        fields = {"save_as" if key == "as" else key: field for key, field in fields.items()}
    return typed.build(_Item, fields, str(path), root)


def _entries(item: _Item, default_data: str | None) -> list[Entry]:
    parts = parse_recipe(item.name)
    names_dataset = parts is not None and parts.dataset is not None
    shared = {"data": item.data or (None if names_dataset else default_data), "save_as": item.save_as, **item.set}
    seeds = [None] if item.seeds is None else range(item.seeds)
    calls = [{"name": item.name, "seed": seed, **shared} for seed in seeds]
    return [Entry(plan(**call).name, call) for call in calls]
