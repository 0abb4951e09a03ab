"""From a model's name and a dataset's spec to everything its training needs to know."""

import dataclasses
import fnmatch
import re
import shlex
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from zoo import architectures, objectives, settings
from zoo.datasets import KNOWN
from zoo.datasets.loading import Spec, parse
from zoo.errors import InputError, UnknownName
from zoo.names import RecipeName, check_safe, near, parse_recipe
from zoo.objectives.names import FRAMEWORKS, SMALL_ARCHITECTURES
from zoo.training.published import recipe as published_recipe
from zoo.training.recipes import Recipe, setting_names

USUAL_ARCHITECTURES = (*SMALL_ARCHITECTURES, "resnet50", "inception_v3")  # those a pattern is matched against
_MANY = re.compile(r"[*?\[]")


@dataclass(frozen=True)
class Plan:
    """One model to be made."""

    name: str  # what it will be called
    architecture: str
    objective: str
    hyperparameters: dict[str, float]  # of the objective
    dataset: str  # by its short name
    data: str  # spec of the pictures to learn from
    test: str | None  # spec of the pictures results are reported on, where the dataset has any
    recipe: Recipe
    changed: dict[str, Any]  # the settings that are not the recipe's own

    @property
    def command(self) -> str:
        """The command that makes it again."""
        stem = str(RecipeName(self.architecture, self.objective, self.recipe.seed))
        data = self.data.removesuffix(":train") if self.data == f"{self.dataset}:train" else shlex.quote(self.data)
        words = ["zoo train", stem, f"--data {data}", *(f"--set {k}={v}" for k, v in self.changed.items())]
        usual = stem if self.dataset == settings.default_dataset() else f"{stem}.{self.dataset}"
        return " ".join([*words, *([f"--as {self.name}"] if self.name not in (usual, f"{stem}.{self.dataset}") else [])])


def plan(
    name: str, data: str | None = None, seed: int | None = None, epochs: int | None = None, save_as: str | None = None,
    **changes: Any,
) -> Plan:  # fmt: skip
    """What `zoo train NAME --data DATA` does, before it does it.

    >>> made = plan("resnet8-cosine", data="digits", seed=2, tau=0.1)
    >>> made.name, made.hyperparameters, made.data
    ('resnet8-cosine-s2', {'tau': 0.1}, 'digits:train')
    """
    parts = _parse(name)
    if seed is not None and parts.seed and seed != parts.seed:
        raise InputError(f"{name}: the name says seed {parts.seed}, the argument {seed}; give one of them")
    spec = _training_spec(data or parts.dataset or settings.default_dataset())
    dataset = _short_name(spec)
    if data is not None and parts.dataset is not None and parts.dataset != dataset:
        raise InputError(f"{name}: the name says data {parts.dataset!r}, the argument {data!r}; give one of them")
    if epochs is not None:
        changes["epochs"] = epochs

    hyperparameters = objectives.defaults(parts.objective, dataset)
    known = objectives.get(parts.objective).hyperparameters
    for key in changes:
        if key not in known and key not in setting_names():
            there = f"the objective has {', '.join(known) or 'none'}, the recipe {', '.join(sorted(setting_names()))}"
            raise InputError(f"{name}: unknown hyper-parameter {key!r}; {there}{near(key, [*known, *setting_names()])}")
    objective = objectives.get(parts.objective, **hyperparameters | {k: v for k, v in changes.items() if k in known})
    seed = parts.seed if seed is None else seed
    recipe = published_recipe(parts.architecture, parts.objective, dataset)
    if isinstance(epochs, int) and 0 < epochs <= recipe.warmup_epochs:  # a trial run: it warms up for a tenth of its time
        recipe = recipe.change(warmup_epochs=epochs / 10)
    recipe = recipe.change(seed=seed, **{key: value for key, value in changes.items() if key not in known})

    usual = RecipeName(parts.architecture, parts.objective, seed, parts.dataset)
    if parts.dataset is None and dataset != settings.default_dataset():
        usual = dataclasses.replace(usual, dataset=dataset)
    test = dataclasses.replace(spec, split="test", rows=None) if spec.kind == "digits" else None
    if spec.kind in KNOWN:
        test = dataclasses.replace(spec, split=KNOWN[spec.kind].default, rows=None)
    return Plan(
        name=check_safe(save_as or str(usual)),
        architecture=parts.architecture,
        objective=parts.objective,
        hyperparameters=objective.hyperparameters,
        dataset=dataset,
        data=str(spec),
        test=None if test is None or test.split == spec.split else str(test),
        recipe=recipe,
        changed=changes,
    )


def expand(patterns: Iterable[str]) -> list[str]:
    """Names as they are; patterns such as `resnet8-*` as every recipe they match.

    >>> expand(["resnet8-*o*", "resnet50-cosine"])[:3]
    ['resnet8-softmax', 'resnet8-label-smoothing', 'resnet8-dropout']
    """
    every = [f"{architecture}-{objective}" for architecture in USUAL_ARCHITECTURES for objective in objectives.list()]
    found: list[str] = []
    for pattern in patterns:
        matches = [name for name in every if fnmatch.fnmatchcase(name, pattern)] if _MANY.search(pattern) else [pattern]
        if not matches:
            raise UnknownName(
                f"{pattern!r} matches no recipe; they are ARCHITECTURE-OBJECTIVE, e.g. {every[0]}, {every[-1]}"
            )
        found += matches
    return list(dict.fromkeys(found))


def _parse(name: str) -> RecipeName:
    check_safe(name)
    parts = parse_recipe(name, None, [*objectives.list(), *FRAMEWORKS])
    if parts is None:
        every = [f"{architecture}-{objective}" for architecture in USUAL_ARCHITECTURES for objective in objectives.list()]
        raise UnknownName(
            f"{name!r} is no recipe, expected ARCHITECTURE-OBJECTIVE[-sSEED][.DATASET] with an objective of "
            f"{', '.join([*objectives.list(), *FRAMEWORKS])}{near(name, every)}"
        )
    architectures.check(parts.architecture)
    return parts


def _training_spec(text: str) -> Spec:
    """The spec of the pictures to learn from: the training split, where the dataset has splits and none is named."""
    spec = parse(text)
    bare = text.partition("[")[0]
    named = bare.count(":") > (1 if spec.kind == "hf" else 0)
    return spec if spec.kind in ("folder", "parquet") or named else dataclasses.replace(spec, split="train")


def _short_name(spec: Spec) -> str:
    """A name for the data that can stand in a model's: `cifar10`, or what a path or repository ends in."""
    if spec.kind not in ("folder", "parquet", "hf"):
        return spec.kind
    last = spec.place.rstrip("/").rpartition("/")[2].removesuffix(".parquet")
    return re.sub(r"[^a-z0-9]+", "-", last.lower()).strip("-") or spec.kind
