"""The card of a recipe, from its full name alone: `arch-objective[-sSEED].dataset`.

A shipped card is the recipe as its paper gives it, from seed 0. Another seed is the same card with another seed; anything
else (a combination of objectives, another dataset, any architecture of timm's) has the settings that `zoo train` uses.
Nothing that was trained, loaded or saved here plays a part. None of this loads torch where a paper's architecture and one
of the known datasets are named.
"""

import dataclasses

from zoo.cards import card_index
from zoo.cards.card import Card, Training, Transform
from zoo.cards.names import RecipeName, label_set, near
from zoo.cards.published import recipe as published_recipe
from zoo.cards.recipe_names import DATASETS, FRAMEWORKS, OBJECTIVES, SMALL_ARCHITECTURES, framework, small_family
from zoo.cards.tuned import defaults
from zoo.core.types import Link
from zoo.errors import UnknownName

EMBEDDED_DATASET = "digits"  # ships inside scikit-learn


def card(parts: RecipeName) -> Card:
    """The card of a full name; an error where its architecture or its dataset is not known."""
    name, shipped = str(parts), card_index.shipped()
    if name in shipped:
        return shipped[name]
    first = shipped.get(str(dataclasses.replace(parts, seed=0)))
    if first is not None and first.sha256 is None:  # a card of weights speaks of these weights
        return dataclasses.replace(
            first,
            name=name,
            training=dataclasses.replace(first.training, seed=parts.seed),
            title=first.title.replace(first.name, name),
            body=first.body.replace(first.name, name),
            path=None,
        )
    return made(parts)


def made(parts: RecipeName) -> Card:
    """The card of a full name from the settings of its recipe, as if none were shipped."""
    dataset = parts.dataset or ""
    check_dataset(dataset, str(parts))
    check_architecture(parts.architecture, str(parts))
    recipe = published_recipe(parts.architecture, parts.objective, dataset)
    settings = objective_settings(parts.objective, dataset) | recipe.settings
    return describe(parts, settings, recipe.transform)


def describe(parts: RecipeName, hyperparameters: dict[str, object], transform: Transform, command: str = "") -> Card:
    """The card of a model trained by such settings."""
    title = f"{parts.architecture} trained with {parts.objective} on {parts.dataset}"
    return Card(
        name=str(parts),
        source="recipe",
        family=_family(parts.architecture),
        architecture=parts.architecture,
        labels=label_set(parts.dataset or ""),
        link=_link(parts.objective),
        head="trained",
        training=Training(
            dataset=label_set(parts.dataset or ""),
            framework=framework(parts.objective),
            objective=parts.objective,
            hyperparameters=hyperparameters,
            seed=parts.seed,
            initialisation="name and seed",
        ),
        transform=transform,
        license="apache-2.0",
        title=title,
        body=f"# {title}\n\n```\n{command or f'zoo train {parts}'}\n```",
    )


def objective_settings(objective: str, dataset: str) -> dict[str, object]:
    """The hyper-parameters of an objective on a dataset: the tuned ones, else those an objective of no tuning has."""
    tuned: dict[str, object] = {**defaults(objective, dataset)}
    if all(part in OBJECTIVES for part in objective.split("+")):
        return tuned
    from zoo.objectives import get

    return {**get(objective, **tuned).hyperparameters}


def check_architecture(architecture: str, name: str) -> None:
    """An error that offers the near ones, unless it is an architecture of ours or of timm's."""
    if small_family(architecture) or _relative(architecture) is not None:
        return
    import timm  # takes seconds, so only for an architecture that no card mentions

    if not timm.is_model(architecture):
        close = near(architecture, [*SMALL_ARCHITECTURES, *timm.list_models()])
        raise UnknownName(
            f"unknown model {name!r}: {architecture!r} is no architecture, expected {', '.join(SMALL_ARCHITECTURES)} or a "
            f"name of timm's{close}"
        )


def check_dataset(dataset: str, name: str) -> None:
    """An error that offers the near ones, unless it is a dataset known by name that has images to learn from."""
    if dataset in DATASETS:
        return
    from zoo.datasets.known import KNOWN

    trained = [*DATASETS, *(known for known, about in KNOWN.items() if "train" in about.splits and known not in DATASETS)]
    if dataset not in trained:
        raise UnknownName(
            f"unknown model {name!r}: {dataset!r} is no dataset to train on, expected {', '.join(trained)}"
            f"{near(dataset, trained)}; for images of your own: `zoo train ARCHITECTURE-OBJECTIVE --data SPEC --as NAME`"
        )


def _relative(architecture: str) -> Card | None:
    """A shipped recipe of the same architecture."""
    return next((c for c in card_index.shipped().values() if c.source == "recipe" and c.architecture == architecture), None)


def _family(architecture: str) -> str:
    relative = _relative(architecture)
    known = small_family(architecture) or (relative and relative.family)
    if known:
        return known
    from zoo.models.sources.tags import family

    return family(architecture)


def _link(objective: str) -> Link:
    if all(part in (*OBJECTIVES, *FRAMEWORKS) for part in objective.split("+")):
        return "sigmoid" if "sigmoid" in objective.split("+") else "softmax"
    from zoo.objectives import get

    return get(objective).link
