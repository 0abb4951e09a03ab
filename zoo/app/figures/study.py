"""What a figure is made from: models, the data they are compared on, other tasks, and their outputs when first needed."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from zoo import calibration, datasets
from zoo.cards.card import Card
from zoo.cards.names import dataset_name, label_set
from zoo.cards.recipe_names import OBJECTIVES
from zoo.errors import InputError, UnknownName
from zoo.models import registry, trained
from zoo.outputs.outputs import Runs
from zoo.runs import runner

RECIPE = "recipe"  # the source of models whose cards say everything that their training depended on


@dataclass(frozen=True, eq=False)
class Study:
    """Models by name, compared on `data`; `transfer` are the test splits of other tasks, `base` the model to start from.

    `split` says where temperatures come from, as in `zoo calibrate`. `outputs` gives the outputs of models on a dataset.
    """

    names: Sequence[str]
    data: str
    transfer: Sequence[str] = ()
    base: str | None = None
    split: str | float | None = None
    seed: int = 0
    outputs: Callable[..., Runs] = field(default=runner.run, repr=False)
    _tasks: dict[str, tuple[Runs, Runs]] = field(default_factory=dict, init=False, repr=False)

    @cached_property
    def cards(self) -> dict[str, Card | None]:
        """By model; None for outputs that were imported under a name no model has."""
        return {name: _card(name) for name in self.names}

    @cached_property
    def runs(self) -> Runs:
        """Outputs on the data, in one order."""
        return self.outputs(list(self.names), data=self.data).aligned()

    @cached_property
    def calibrated(self) -> calibration.CalibratedRuns:
        """The same at each model's temperature, which was fitted on other examples."""
        return calibration.calibrate(self.runs, self.split, self.seed)

    @cached_property
    def training_split(self) -> str:
        """The images that models of these classes learn from."""
        found = datasets.training_split(self.data)
        if found is None:
            raise InputError(f"{self.data}: it has no training split, which this figure is about")
        return found

    @cached_property
    def train(self) -> Runs:
        """Outputs on the training images, as prediction sees them."""
        return self.outputs(list(self.names), data=self.training_split).aligned()

    def task(self, spec: str) -> tuple[Runs, Runs]:
        """Outputs on the training and on the test images of another task, each image framed as transfer asks for."""
        if spec not in self._tasks:
            learn = datasets.training_split(spec)
            if learn is None or learn == spec:
                raise InputError(f"--transfer {spec}: expected the test split of a dataset that also has a training split")
            train, test = (self.outputs(list(self.names), data=part, resize_mode="transfer") for part in (learn, spec))
            self._tasks[spec] = train, test
        return self._tasks[spec]

    @cached_property
    def base_name(self) -> str | None:
        """The full name of the base, which must be one of the models."""
        if self.base is None:
            return None
        full = registry.resolve(self.base)
        if full not in self.names:
            raise InputError(f"--base {self.base}: expected one of the models, {', '.join(self.names)}")
        return full

    @cached_property
    def rows(self) -> dict[str, str]:
        """By model, the row of a table that it belongs to: what was trained alike but for the seed shares one.

        A row is called by its objective; where that does not tell rows apart, by what else differs among them as well.
        """
        recipes = {name: _recipe(card) for name, card in self.cards.items() if card and card.source == RECIPE}
        found = {name: name for name in self.names}
        for name, recipe in recipes.items():
            alike = [other for other in recipes.values() if other["objective"] == recipe["objective"]]
            differing = [key for key in recipe if key != "objective" and any(o.get(key) != recipe[key] for o in alike)]
            differing += ["architecture"] if len({o["architecture"] for o in recipes.values()}) > 1 else []
            parts = [recipe[k] if k in ("architecture", "dataset") else f"{k}={recipe[k]}" for k in dict.fromkeys(differing)]
            found[name] = " ".join([recipe["objective"], *parts])
        rank = {objective: place for place, objective in enumerate(OBJECTIVES)}
        ordered = sorted(found, key=lambda name: rank.get(self.objective(name), len(rank)))
        return {name: found[name] for name in ordered}

    @cached_property
    def objectives(self) -> dict[str, str]:
        """By model, its objective alone, in the order of the rows."""
        return {name: self.objective(name) for name in self.rows}

    def objective(self, name: str) -> str:
        """What a model was trained with; of one without a card its name."""
        card = self.cards[name]
        return name if card is None else card.objective

    def of_objective(self, objective: str) -> "Study":
        """The same of the models of one objective."""
        return dataclasses.replace(self, names=[name for name in self.names if self.objective(name) == objective])

    @cached_property
    def members(self) -> dict[str, list[str]]:
        """The models of each row, in the order of the objectives."""
        found: dict[str, list[str]] = {}
        for name, row in self.rows.items():
            found.setdefault(row, []).append(name)
        return found

    @cached_property
    def logs(self) -> dict[str, list[dict[str, float]]]:
        """What each epoch of training came to, of the models trained here."""
        found = {name: trained.log(trained.path(name).parent) for name in self.names if ":" not in name}
        return {name: log for name, log in found.items() if log}


def at_hand(data: str) -> list[str]:
    """The models of a dataset's classes whose weights are here."""
    wanted = label_set(dataset_name(data))
    here = ("shipped", "local")
    return [
        name for name, card in registry.known_models().items() if card.labels == wanted and registry.available(card) in here
    ]


def _card(name: str) -> Card | None:
    try:
        return registry.card(name)
    except UnknownName:
        return None


def _recipe(card: Card) -> dict[str, str]:
    settings = {key: str(value) for key, value in card.training.hyperparameters.items() if key != "precision"}
    return {
        "objective": card.objective, "architecture": card.architecture, "dataset": card.training.dataset, **settings
    }  # fmt: skip
