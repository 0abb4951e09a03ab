"""`Study`: the models and data that a figure is made from. Outputs are computed or read when first needed."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from diversity.training_curves import read_log
from zoo import calibration, datasets
from zoo.cards.card import Card
from zoo.cards.names import dataset_name, label_set
from zoo.cards.recipe_names import OBJECTIVES
from zoo.datasets.loading import holdout_spec
from zoo.errors import InputError, UnknownName
from zoo.models import registry, trained
from zoo.outputs.outputs import Runs
from zoo.runs import runner

RECIPE = "recipe"  # source of the models whose cards state every setting of their training


@dataclass(frozen=True, eq=False)
class Study:
    """Models that are compared on one dataset, and datasets that their embeddings are transferred to.

    Args:
        names: the models.
        data: spec of the dataset.
        transfer: specs of the test splits of other tasks.
        base: the model that others are compared with.
        temperatures_from: as in `zoo.calibrate`.
        seed: of all random draws.
        outputs: returns the Runs of models on a dataset, as `zoo.run` does.
    """

    names: Sequence[str]
    data: str
    transfer: Sequence[str] = ()
    base: str | None = None
    temperatures_from: str | float | None = None
    seed: int = 0
    outputs: Callable[..., Runs] = field(default=runner.run, repr=False)
    _tasks: dict[str, tuple[Runs, Runs]] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def cards(self) -> dict[str, Card | None]:
        """Cards by model; None for imported outputs without a card."""
        return {name: _card(name) for name in self.names}

    @cached_property
    def runs(self) -> Runs:
        """Aligned outputs on the dataset."""
        return self.outputs(list(self.names), data=self.data).aligned()

    @cached_property
    def calibrated(self) -> calibration.CalibratedRuns:
        """Outputs at each model's temperature, which was fitted on other examples."""
        return calibration.calibrate(self.runs, self.temperatures_from, self.seed)

    @cached_property
    def training_split(self) -> str:
        """Spec of the dataset's training set."""
        split = datasets.training_split(self.data)
        if split is None:
            raise InputError("has no training split, which this figure needs", where=self.data, argument="data")
        return split

    @cached_property
    def train(self) -> Runs:
        """Aligned outputs on the training images, without augmentation."""
        return self.outputs(list(self.names), data=self.training_split).aligned()

    def task(self, spec: str) -> tuple[Runs, Runs]:
        """Return outputs on the training and the test images of another task, resized as for transfer."""
        if spec not in self._tasks:
            training = datasets.training_split(spec)
            if training is None or training == spec:
                raise InputError(
                    argument="transfer", expected="the test split of a dataset that also has a training split", found=spec
                )
            train, test = (self.outputs(list(self.names), data=part, resize_mode="transfer") for part in (training, spec))
            self._tasks[spec] = train, test
        return self._tasks[spec]

    @cached_property
    def base_name(self) -> str | None:
        """Full name of the base, which must be one of the models; None without a base."""
        if self.base is None:
            return None
        full = registry.resolve(self.base)
        if full not in self.names:
            raise InputError(argument="base", expected=f"one of the models, {', '.join(self.names)}", found=self.base)
        return full

    @cached_property
    def rows(self) -> dict[str, str]:
        """The table row of each model, in the order of the objectives. Models that differ in the seed only share a row.

        A row is named after its objective, followed by the settings that distinguish it from rows of the same objective.
        """
        recipes = {name: _recipe(card) for name, card in self.cards.items() if card and card.source == RECIPE}
        row_of = {name: name for name in self.names}
        for name, recipe in recipes.items():
            same_objective = [other for other in recipes.values() if other["objective"] == recipe["objective"]]
            differing = [
                key for key in recipe if key != "objective" and any(o.get(key) != recipe[key] for o in same_objective)
            ]
            differing += ["architecture"] if len({o["architecture"] for o in recipes.values()}) > 1 else []
            parts = [recipe[k] if k in ("architecture", "dataset") else f"{k}={recipe[k]}" for k in dict.fromkeys(differing)]
            row_of[name] = " ".join([recipe["objective"], *parts])
        rank = {objective: number for number, objective in enumerate(OBJECTIVES)}
        ordered = sorted(row_of, key=lambda name: rank.get(self.objective(name), len(rank)))
        return {name: row_of[name] for name in ordered}

    @cached_property
    def objectives(self) -> dict[str, str]:
        """Objectives by model, in the order of the rows."""
        return {name: self.objective(name) for name in self.rows}

    def objective(self, name: str) -> str:
        """Return the training objective of a model; its name if it has no card."""
        card = self.cards[name]
        return name if card is None else card.objective

    def setting(self, name: str, key: str) -> Any:
        """Return a field of a model's card or a hyper-parameter of its training; None if it is unknown."""
        card = self.cards[name]
        return None if card is None else card.value(key)

    def of_objective(self, objective: str) -> "Study":
        """Return the study of the models of one objective."""
        return dataclasses.replace(self, names=[name for name in self.names if self.objective(name) == objective])

    @cached_property
    def members(self) -> dict[str, list[str]]:
        """The models of each row, in the order of the objectives."""
        members: dict[str, list[str]] = {}
        for name, row in self.rows.items():
            members.setdefault(row, []).append(name)
        return members

    @cached_property
    def logs(self) -> dict[str, list[dict[str, float]]]:
        """Training logs of locally trained models, one entry per epoch."""
        logs = {name: read_log(name) for name in self.names if ":" not in name}
        return {name: log for name, log in logs.items() if log}

    def holdout_spec(self, name: str) -> str | None:
        """Return the spec of the training images that a model was not trained on; None if it was trained on all of them."""
        path = trained.path(name)
        holdout = self.setting(name, "holdout") if path.is_file() else None
        if not holdout or trained.describe(path).data != datasets.training_split(self.data):
            return None
        return holdout_spec(self.data, int(holdout), self.setting(name, "seed") or 0)


def at_hand(data: str) -> list[str]:
    """Return the models of a dataset's classes whose weights are shipped or local."""
    known = {name: card for name, card in registry.known_models().items() if card.labels == label_set(dataset_name(data))}
    return [name for name, card in known.items() if registry.available(card) in ("shipped", "local")]


def _card(name: str) -> Card | None:
    try:
        return registry.card(name)
    except UnknownName:
        return None


def _recipe(card: Card) -> dict[str, str]:
    settings = {key: str(value) for key, value in card.training.hyperparameters.items() if key != "precision"}
    return {"objective": card.objective, "architecture": card.architecture, "dataset": card.training.dataset, **settings}
