"""`Plan`: everything that training one model needs, from its name, the spec of a dataset and changed settings."""

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

PATTERN_ARCHITECTURES = (*SMALL_ARCHITECTURES, "resnet50", "inception_v3")  # which a pattern is matched against
NOT_SETTINGS = frozenset({"name", "data", "seed", "save_as"})  # parameters of `plan` other than settings
_OTHER_NAME = "Choose another name with {save_as=NAME}"


@dataclass(frozen=True)
class Plan:
    """One model to train."""

    name: str  # of the trained model
    architecture: str
    objective: str
    hyperparameters: dict[str, float]  # of the objective
    dataset: str  # canonical name
    data: str  # spec of the training images
    test: str | None  # spec of the test images; None if the dataset has none
    recipe: Recipe
    changed: dict[str, Any]  # the settings that differ from the default recipe

    @property
    def parts(self) -> RecipeName:
        """The name of the default recipe that this plan follows or changes."""
        return RecipeName(self.architecture, self.objective, self.recipe.seed, self.dataset)

    @property
    def command(self) -> str:
        """The command that trains this model."""
        start = str(self.parts)
        if self.data != f"{self.dataset}:train":
            start = f"{dataclasses.replace(self.parts, dataset=None)} --data {shlex.quote(self.data)}"
        words = ["zoo train", start, *(f"--set {key}={value}" for key, value in self.changed.items())]
        return " ".join([*words, *([f"--name {self.name}"] if self.name != str(self.parts) else [])])


def plan(
    name: str, data: str | None = None, seed: int | None = None, epochs: int | None = None, save_as: str | None = None,
    **changes: Any,
) -> Plan:  # fmt: skip
    """Return the plan of a model, without training it.

    A recipe's name stands for its default settings and the whole training split. With other settings or images, the model
    needs another name (`save_as`). The precision may differ: like the processor, it changes the rounding only.

    Args:
        name: a recipe, `ARCHITECTURE-OBJECTIVE[-sSEED][.DATASET]`.
        data: spec of the training images; default: the training split of the name's dataset.
        seed: random seed; default: the name's, else 0.
        epochs: number of epochs; default: the recipe's. If its warm-up is at least as long, the warm-up becomes a tenth of
            the epochs.
        save_as: name of the trained model; default: the recipe's full name.
        changes: settings of the recipe and hyper-parameters of the objective.

    >>> planned = plan("resnet8-cosine", data="digits", seed=2)
    >>> planned.name, planned.hyperparameters, planned.data
    ('resnet8-cosine-s2.digits', {'tau': 0.15}, 'digits:train')
    >>> plan("resnet8-cosine", tau=0.1, save_as="sharp").command
    'zoo train resnet8-cosine.digits --set tau=0.1 --name sharp'
    """
    parts = _parse(name)
    if seed is not None and parts.seed and seed != parts.seed:
        raise InputError(where=name, argument="seed", expected=f"left out, or {parts.seed} as in the name", found=seed)
    spec = _training_spec(data or parts.dataset or default_dataset())
    dataset = dataset_name(str(spec))
    if data is not None and parts.dataset is not None and parts.dataset != dataset:
        raise InputError(where=name, argument="data", expected=f"left out, or {parts.dataset} as in the name", found=data)
    parts = dataclasses.replace(parts, seed=parts.seed if seed is None else seed, dataset=dataset)
    if epochs is not None:
        changes["epochs"] = epochs

    defaults: dict[str, Any] = recipe_cards.objective_settings(parts.objective, dataset, parts.architecture)
    options = objectives.options(parts.objective)
    for key in changes:
        if key not in options and key not in setting_names():
            raise UnknownName(
                kind="setting", name=key, where=name, suggestions=similar(key, [*options, *setting_names()]),
                hint=f"The objective has {', '.join(options) or 'none'}, the recipe {', '.join(sorted(setting_names()))}",
            )  # fmt: skip
    objective = objectives.get(parts.objective, **defaults | {k: v for k, v in changes.items() if k in options})
    default_recipe = published_recipe(parts.architecture, parts.objective, dataset).change(seed=parts.seed)
    recipe = default_recipe
    if isinstance(epochs, int) and 0 < epochs <= recipe.warmup_epochs:
        recipe = recipe.change(warmup_epochs=epochs / 10)
    recipe = recipe.change(**{key: value for key, value in changes.items() if key not in options})

    test = dataclasses.replace(spec, split="test", rows=None) if spec.kind == "digits" else None
    if spec.kind in KNOWN:
        test = dataclasses.replace(spec, split=KNOWN[spec.kind].default, rows=None)
    planned = Plan(
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
    if save_as is not None and save_as != planned.name:
        planned = dataclasses.replace(planned, name=check_user_name(save_as, "save_as"))
        _check_not_shipped(planned)
    elif recipe.change(precision=default_recipe.precision) != default_recipe or objective.hyperparameters != defaults:
        settings = ", ".join(f"{key}={value}" for key, value in changes.items())
        problem = f"this name stands for the default settings, not for {settings}"
        raise InputError(problem, where=planned.name, hint=_OTHER_NAME)
    elif planned.data != f"{dataset}:train":
        problem = f"this name stands for training on {dataset}:train, not on {planned.data}"
        raise InputError(problem, where=planned.name, hint=_OTHER_NAME)
    # With the name in the recipe, initial weights and batch order derive from the model's name and seed.
    return dataclasses.replace(planned, recipe=recipe.change(name=planned.name))


def expand(models: str | Sequence[str]) -> list[str]:
    """Return recipe names, with patterns replaced by every recipe they match; a name without a dataset keeps none.

    >>> expand(["resnet8-*o*", "resnet50-cosine"])[:3]
    ['resnet8-softmax', 'resnet8-label-smoothing', 'resnet8-dropout']
    """
    found: dict[str, None] = {}
    for entry in [models] if isinstance(models, str) else models:
        stem, _, dataset = entry.partition(".") if is_pattern(entry) else (entry, "", "")
        matching = select(stem, _pattern_recipes(), what="recipe") if is_pattern(entry) else [entry]
        found |= dict.fromkeys(f"{name}.{dataset}" if dataset else name for name in matching)
    return list(found)


def _pattern_recipes() -> list[str]:
    return [f"{architecture}-{objective}" for architecture in PATTERN_ARCHITECTURES for objective in objectives.list()]


def _parse(name: str) -> RecipeName:
    check_safe(name)
    parts = parse_recipe(name)
    if parts is None:
        raise UnknownName(
            "is not of the form ARCHITECTURE-OBJECTIVE[-sSEED][.DATASET] with an objective of "
            f"{', '.join([*objectives.list(), *FRAMEWORKS])}",
            kind="recipe", name=name, where=name, suggestions=similar(name, _pattern_recipes()),
        )  # fmt: skip
    recipe_cards.check_architecture(parts.architecture, name)
    return parts


def _check_not_shipped(planned: Plan) -> None:
    """Raise an error if a shipped model has the plan's name, unless the same command trained it."""
    shipped = {name.lower(): card for name, card in card_index.shipped().items()}.get(planned.name.lower())
    if shipped is None:
        return
    words = shipped.details.get("command", "").replace(" --as ", " --name ").split()  # `--as`: before version 0.2
    if sorted(words) != sorted(planned.command.split()):
        raise InputError(argument="save_as", expected="a name that no shipped model has", found=planned.name)


def _training_spec(text: str) -> Spec:
    """Return the spec of the training images: the split `train`, unless the text names a split or a folder or file."""
    spec = parse(text)
    bare = text.partition("[")[0]
    names_split = bare.count(":") > (1 if spec.kind == "hf" else 0)
    return spec if spec.kind in ("folder", "parquet") or names_split else dataclasses.replace(spec, split="train")
