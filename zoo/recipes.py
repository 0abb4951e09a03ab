"""Models trained by our own recipes, by name alone: `arch-objective[-sSEED][.dataset]`.

A shipped card is the recipe as its paper gives it. A name without a dataset means the default dataset, and what was trained
on this machine has a card of its own that goes before the shipped one. None of this loads torch.
"""

import dataclasses
from collections.abc import Mapping
from pathlib import Path

from zoo import settings
from zoo.cards import Card, Training
from zoo.errors import MissingWeights
from zoo.names import RecipeName, parse_recipe
from zoo.objectives.names import FRAMEWORKS, OBJECTIVES, framework, small_family
from zoo.objectives.tuned import defaults

EMBEDDED_DATASET = "digits"  # ships inside scikit-learn
_SHORT = {"imagenet-1k": "in1k"}


def parse(name: str, known: Mapping[str, Card]) -> RecipeName | None:
    """The parts of a recipe's name, or None where it is not one. Any architecture of timm's will do."""
    found = parse_recipe(name, None, (*OBJECTIVES, *FRAMEWORKS))
    trained_here = {card.architecture for card in known.values() if card.source == "recipe"}
    if found is None or small_family(found.architecture) or found.architecture in trained_here:
        return found
    import timm  # takes seconds, so only for an architecture that no card mentions

    return found if timm.is_model(found.architecture) else None


def card(name: str, known: Mapping[str, Card]) -> Card | None:
    """The card of a recipe that has no file: the shipped one of the same dataset under this name, else one made here."""
    found = parse(name, known)
    if found is None:
        return None
    dataset = found.dataset or settings.default_dataset()
    published = known.get(f"{found.architecture}-{found.objective}")
    if published is not None and short_name(published.dataset) == short_name(dataset):
        training = dataclasses.replace(published.training, seed=found.seed or published.seed)
        return dataclasses.replace(published, name=name, training=training)
    relative = next((other for other in known.values() if other.architecture == found.architecture), None)
    return Card(
        name=name,
        source="recipe",
        family=relative.family if relative else small_family(found.architecture) or _family(found.architecture),
        architecture=found.architecture,
        labels="imagenet-1k" if short_name(dataset) == "in1k" else dataset,
        link="sigmoid" if "sigmoid" in found.objective.split("+") else "softmax",
        head="trained",
        training=Training(
            dataset=dataset,
            framework=framework(found.objective),
            objective=found.objective,
            hyperparameters=dict(defaults(found.objective, short_name(dataset))),
            seed=found.seed,
        ),
        license="apache-2.0",
        title=name,
    )


def weights_path(name: str) -> Path:
    """Where the weights of a model trained here are."""
    return settings.home() / "weights" / name / "model.safetensors"


def make(card: Card) -> None:
    """Train a recipe of the embedded dataset whose weights are missing; of any other, say which command does."""
    found = parse_recipe(card.name, None, (*OBJECTIVES, *FRAMEWORKS))
    if found is None:  # saved under a name of its own
        command = card.details.get("command", f"zoo train NAME --data {short_name(card.dataset)} --as {card.name}")
    else:
        dataset = short_name(found.dataset or settings.default_dataset())
        if dataset == EMBEDDED_DATASET and settings.autotrain():
            from zoo.training import build

            return build(card.name)
        command = f"zoo train {dataclasses.replace(found, dataset=None)} --data {dataset}"
    raise MissingWeights(
        f"{card.name}: there are no trained weights at {weights_path(card.name)}; make them with `{command}`, "
        "or pass weights=False for random ones"
    )


def short_name(dataset: str) -> str:
    """A dataset as specs call it: `in1k` for `imagenet-1k`."""
    return _SHORT.get(dataset, dataset)


def _family(architecture: str) -> str:
    from zoo.catalogue.tags import family

    return family(architecture)
