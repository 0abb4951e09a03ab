"""Many models from one file: the plan of a campaign, and how far it has come.

A plan is YAML, read from top to bottom:

    data: cifar10                      # of every model whose name or line has no other
    models:
    - resnet7-softmax                # a recipe by its name
    - {name: resnet7-cosine, seeds: 3}
    - {name: resnet7-softmax, set: {mixup: 0.2}, as: r7-mixup.cifar10}
    - resnet7-softmax.fashion-mnist
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from zoo.cards import card_index
from zoo.cards.names import parse_recipe
from zoo.errors import InputError
from zoo.models import trained
from zoo.training.plans import plan

State = Literal["shipped", "trained", "begun", "left"]
LARGEST = 2**20
_FIELDS = {"name": str, "data": str, "seeds": int, "set": dict, "as": str}


@dataclass(frozen=True)
class Entry:
    """One model of a plan: what it will be called, and the call of `zoo.train` that makes it."""

    name: str
    call: dict[str, Any]

    @property
    def state(self) -> State:
        if (card_index.shipped_folder() / f"{self.name}.safetensors").exists():
            return "shipped"
        file = trained.path(self.name)
        if file.exists():
            return "trained"
        return "begun" if file.with_name("checkpoint.safetensors").exists() else "left"


def read(path: Path) -> list[Entry]:
    """The models of a plan, in its order; all are planned at once, so that a mistake in the last is found at the start."""
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
        value = yaml.safe_load(text) if len(text) <= LARGEST else None
    except (OSError, UnicodeDecodeError, yaml.YAMLError, RecursionError) as error:
        raise InputError(f"{path}: cannot be read as a plan: {error}") from error
    if not isinstance(value, dict) or set(value) - {"data", "models"} or not isinstance(value.get("models"), list):
        raise InputError(f"{path}: expected YAML with a list `models` and maybe `data`")
    found: dict[str, Entry] = {}
    for number, item in enumerate(value["models"], 1):
        for entry in _entries(item, value.get("data"), number, path):
            if entry.name in found:
                raise InputError(f"{path}: model {number}: {entry.name} stands there twice")
            found[entry.name] = entry
    return list(found.values())


def _entries(item: Any, data: str | None, number: int, path: Path) -> list[Entry]:
    fields: Mapping[str, Any] = {"name": item} if isinstance(item, str) else item
    wrong = not isinstance(fields, Mapping) or "name" not in fields
    wrong = wrong or any(not isinstance(value, _FIELDS.get(key, ())) for key, value in fields.items())
    if wrong:
        raise InputError(f"{path}: model {number} is {item!r}, expected a name, or a mapping of {', '.join(_FIELDS)}")
    parts = parse_recipe(fields["name"])
    named = parts is not None and parts.dataset is not None
    seeds = range(fields["seeds"]) if "seeds" in fields else [None]
    shared = {"data": fields.get("data", None if named else data), "save_as": fields.get("as"), **fields.get("set", {})}
    calls = [{"name": fields["name"], "seed": seed, **shared} for seed in seeds]
    return [Entry(plan(**call).name, call) for call in calls]
