"""What is written down about a model trained here."""

import dataclasses

from zoo import labels
from zoo._registry import recipes
from zoo._registry.trained import Record
from zoo.cards import Card
from zoo.datasets import Dataset
from zoo.errors import UnknownName
from zoo.training.planning import Plan


def describe(made: Plan, train_set: Dataset) -> Card:
    """The card of a planned model: its recipe's, or one of its own with the settings and the classes it really has."""
    if made.name == str(made.parts):
        card = recipes.card(made.parts)
        return card if card.sha256 is None else recipes.made(made.parts)  # the card of shipped weights describes those alone
    settings = {**made.hyperparameters, **made.recipe.settings}
    card = recipes.describe(made.parts, settings, made.recipe.transform, made.command)
    label_set, details = _classes(train_set, card.labels)
    return dataclasses.replace(card, name=made.name, labels=label_set, details=details)


def record(made: Plan, train_set: Dataset, card: Card, epoch: int, steps: int, results: dict[str, float]) -> Record:
    """How a model was made, to be kept with its weights."""
    return Record(
        card=dataclasses.replace(card, path=None),
        data=made.data,
        fingerprint=train_set.fingerprint,
        command=made.command,
        epoch=epoch,
        steps=steps,
        results=results,
    )


def _classes(train_set: Dataset, name: str) -> tuple[str, dict[str, object]]:
    """The label set, and the class names where no label set of that name has just these."""
    name = train_set.label_set or name
    try:
        known = labels.classes(name) == train_set.classes
    except UnknownName:
        known = False
    return name, {} if known else {"classes": list(train_set.classes)}
