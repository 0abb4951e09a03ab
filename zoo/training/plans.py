"""From a model's name and a dataset's spec to everything its training needs to know."""

import dataclasses
import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from zoo import objectives
from zoo.cards import card_index
from zoo.cards.names import (
    RecipeName,
    check_safe,
    check_user_name,
    dataset_name,
    default_dataset,
    near,
    parse_recipe,
    similar,
)
from zoo.cards.published import recipe as published_recipe
from zoo.cards.recipe_names import FRAMEWORKS, SMALL_ARCHITECTURES
from zoo.cards.recipes import Recipe, setting_names
from zoo.cards.selection import is_pattern, select
from zoo.datasets import KNOWN
from zoo.datasets.loading import Spec, parse
from zoo.errors import InputError, UnknownName
from zoo.models import recipe_cards

USUAL_ARCHITECTURES = (*SMALL_ARCHITECTURES, "resnet50", "inception_v3")  # those a pattern is matched against


@dataclass(frozen=True)
class Plan:
    """One model to be made."""

    name: str  # what it will be called
    architecture: str
    objective: str
    hyperparameters: dict[str, float]  # of the objective
    dataset: str  # by its short name
    data: str  # spec of the images to learn from
    test: str | None  # spec of the images results are reported on, where the dataset has any
    recipe: Recipe
    changed: dict[str, Any]  # the settings that are not the recipe's own

    @property
    def parts(self) -> RecipeName:
        """The recipe that this is, or that it starts from."""
        return RecipeName(self.architecture, self.objective, self.recipe.seed, self.dataset)

    @property
    def command(self) -> str:
        """The command that makes it again."""
        start = str(self.parts)
        if self.data != f"{self.dataset}:train":
            start = f"{dataclasses.replace(self.parts, dataset=None)} --data {shlex.quote(self.data)}"
        words = ["zoo train", start, *(f"--set {key}={value}" for key, value in self.changed.items())]
        return " ".join([*words, *([f"--as {self.name}"] if self.name != str(self.parts) else [])])


def plan(
    name: str, data: str | None = None, seed: int | None = None, epochs: int | None = None, save_as: str | None = None,
    **changes: Any,
) -> Plan:  # fmt: skip
    """What `zoo train NAME --data DATA` does, before it does it.

    A recipe's name means one recipe, so other settings or other images than its own need a name of their own (`save_as`).

    >>> made = plan("resnet8-cosine", data="digits", seed=2)
    >>> made.name, made.hyperparameters, made.data
    ('resnet8-cosine-s2.digits', {'tau': 0.15}, 'digits:train')
    >>> plan("resnet8-cosine", tau=0.1, save_as="sharp").command
    'zoo train resnet8-cosine.digits --set tau=0.1 --as sharp'
    """
    parts = _parse(name)
    if seed is not None and parts.seed and seed != parts.seed:
        raise InputError(f"{name}: the name says seed {parts.seed}, the argument {seed}; give one of them")
    spec = _training_spec(data or parts.dataset or default_dataset())
    dataset = dataset_name(str(spec))
    if data is not None and parts.dataset is not None and parts.dataset != dataset:
        raise InputError(f"{name}: the name says data {parts.dataset!r}, the argument {data!r}; give one of them")
    parts = dataclasses.replace(parts, seed=parts.seed if seed is None else seed, dataset=dataset)
    if epochs is not None:
        changes["epochs"] = epochs

    hyperparameters = recipe_cards.objective_settings(parts.objective, dataset)
    known = objectives.options(parts.objective)
    for key in changes:
        if key not in known and key not in setting_names():
            there = f"the objective has {', '.join(known) or 'none'}, the recipe {', '.join(sorted(setting_names()))}"
            raise InputError(f"{name}: unknown hyper-parameter {key!r}; {there}{near(key, [*known, *setting_names()])}")
    objective = objectives.get(parts.objective, **hyperparameters | {k: v for k, v in changes.items() if k in known})
    own = published_recipe(parts.architecture, parts.objective, dataset).change(seed=parts.seed)
    recipe = own
    if isinstance(epochs, int) and 0 < epochs <= recipe.warmup_epochs:  # a trial run: it warms up for a tenth of its time
        recipe = recipe.change(warmup_epochs=epochs / 10)
    recipe = recipe.change(**{key: value for key, value in changes.items() if key not in known})

    test = dataclasses.replace(spec, split="test", rows=None) if spec.kind == "digits" else None
    if spec.kind in KNOWN:
        test = dataclasses.replace(spec, split=KNOWN[spec.kind].default, rows=None)
    made = Plan(
        name=str(parts),
        architecture=parts.architecture,
        objective=parts.objective,
        hyperparameters=objective.hyperparameters,
        dataset=dataset,
        data=str(spec),
        test=None if test is None or test.split == spec.split else str(test),
        recipe=recipe,
        changed=changes,
    )
    if save_as is not None and save_as != made.name:
        return _named(_under_own_name(dataclasses.replace(made, name=check_user_name(save_as))))
    if recipe != own or objective.hyperparameters != hyperparameters:
        said = ", ".join(f"{key}={value}" for key, value in changes.items())
        raise InputError(f"{made.name}: is one recipe, and {said} is another; give the model a name of its own (--as NAME)")
    if made.data != f"{dataset}:train":
        raise InputError(
            f"{made.name}: is trained on all of {dataset}, and {made.data} is something else; give the model a name of its "
            "own (--as NAME)"
        )
    return _named(made)


def _named(made: Plan) -> Plan:
    """Return the plan with a recipe that derives initial weights and batch order from the model's name and seed."""
    return dataclasses.replace(made, recipe=made.recipe.change(name=made.name))


def expand(models: str | Sequence[str]) -> list[str]:
    """Return recipe names, with patterns replaced by every recipe they match; a name without a dataset keeps none.

    >>> expand(["resnet8-*o*", "resnet50-cosine"])[:3]
    ['resnet8-softmax', 'resnet8-label-smoothing', 'resnet8-dropout']
    """
    found: dict[str, None] = {}
    for entry in [models] if isinstance(models, str) else models:
        stem, _, dataset = entry.partition(".") if is_pattern(entry) else (entry, "", "")
        matching = select(stem, _usual_recipes(), what="recipe") if is_pattern(entry) else [entry]
        found |= dict.fromkeys(f"{name}.{dataset}" if dataset else name for name in matching)
    return list(found)


def _usual_recipes() -> list[str]:
    return [f"{architecture}-{objective}" for architecture in USUAL_ARCHITECTURES for objective in objectives.list()]


def _parse(name: str) -> RecipeName:
    check_safe(name)
    parts = parse_recipe(name)
    if parts is None:
        raise UnknownName(
            f"{name!r} is not a recipe; recipes are ARCHITECTURE-OBJECTIVE[-sSEED][.DATASET] with an objective of "
            f"{', '.join([*objectives.list(), *FRAMEWORKS])}",
            kind="recipe", name=name, suggestions=similar(name, _usual_recipes()),
        )  # fmt: skip
    recipe_cards.check_architecture(parts.architecture, name)
    return parts


def _under_own_name(made: Plan) -> Plan:
    """A model trained by settings of its own: no shipped model has its name, unless just this command made that one."""
    taken = {name.lower(): card for name, card in card_index.shipped().items()}.get(made.name.lower())
    if taken is not None and sorted(taken.details.get("command", "").split()) != sorted(made.command.split()):
        raise InputError(f"--as {made.name}: a model named {taken.name!r} exists already; choose another name")
    return made


def _training_spec(text: str) -> Spec:
    """The spec of the images to learn from: the training split, where the dataset has splits and none is named."""
    spec = parse(text)
    bare = text.partition("[")[0]
    named = bare.count(":") > (1 if spec.kind == "hf" else 0)
    return spec if spec.kind in ("folder", "parquet") or named else dataclasses.replace(spec, split="train")
