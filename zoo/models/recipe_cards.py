"""The card of a recipe, from its full name alone: `arch-objective[-sSEED].dataset`.

A shipped card is the recipe of its paper with seed 0. Another seed gives the same card with that seed. Any other recipe (a
combination of objectives, another dataset, any architecture of timm) has the settings that `zoo train` uses. The card never
depends on what was trained, loaded or saved on this machine. Torch is not loaded for the papers' architectures on datasets
with settings of their own.
"""

import dataclasses

from zoo.cards import card_index
from zoo.cards.card import Card, Training, Transform
from zoo.cards.names import RecipeName, label_set, unknown
from zoo.cards.published import recipe as published_recipe
from zoo.cards.recipe_names import DATASETS, FRAMEWORKS, OBJECTIVES, framework, small_family
from zoo.cards.tuned import defaults
from zoo.core.types import Link
from zoo.errors import UnknownName

EMBEDDED_DATASET = "digits"  # ships inside scikit-learn


def card(parts: RecipeName) -> Card:
    """Return the card of a recipe; raise an error if its architecture or dataset is unknown."""
    name, shipped = str(parts), card_index.shipped()
    if name in shipped:
        return shipped[name]
    first = shipped.get(str(dataclasses.replace(parts, seed=0)))
    if first is not None and first.sha256 is None:  # a card with a hash describes shipped weights, not the recipe
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
    """Return the card of a recipe from its settings, ignoring shipped cards."""
    dataset = parts.dataset or ""
    check_dataset(dataset, str(parts))
    check_architecture(parts.architecture, str(parts))
    recipe = published_recipe(parts.architecture, parts.objective, dataset)
    settings = objective_settings(parts.objective, dataset, parts.architecture) | recipe.settings
    return describe(parts, settings, recipe.transform)


def describe(parts: RecipeName, hyperparameters: dict[str, object], transform: Transform, command: str = "") -> Card:
    """Return the card of a model trained with these hyper-parameters.

    Args:
        parts: the parsed name.
        hyperparameters: settings of the training and of the objective.
        transform: preprocessing of the images.
        command: the command that trains the model; default: `zoo train NAME`.
    """
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


def objective_settings(objective: str, dataset: str, architecture: str) -> dict[str, object]:
    """Return an objective's hyper-parameters: those tuned for the dataset, or the defaults of a registered objective."""
    tuned = defaults(objective, dataset, architecture)
    if all(part in OBJECTIVES for part in objective.split("+")):
        return {**tuned}
    from zoo.objectives import get

    return {**get(objective, **tuned).hyperparameters}


def check_architecture(architecture: str, name: str) -> None:
    """Raise an error that suggests similar names unless the architecture is one of ours or of timm."""
    if small_family(architecture) or _same_architecture(architecture) is not None:
        return
    from zoo.networks import check  # imports timm, which takes seconds, so only for an architecture that no card mentions

    try:
        check(architecture)
    except UnknownName as error:
        error.inside(f"model {name}")
        raise


def check_dataset(dataset: str, name: str) -> None:
    """Raise an error that suggests similar names unless the dataset is known by name and has a training split."""
    if dataset in DATASETS:
        return
    from zoo.datasets.known import KNOWN

    trainable = [*DATASETS, *(known for known, about in KNOWN.items() if "train" in about.splits and known not in DATASETS)]
    if dataset not in trainable:
        hint = "For your own images run `zoo train ARCHITECTURE-OBJECTIVE --data SPEC --name NAME`"
        raise unknown("training dataset", dataset, trainable, list_known=True, where=f"model {name}", hint=hint)


def _same_architecture(architecture: str) -> Card | None:
    """Return a shipped recipe of the same architecture."""
    return next((c for c in card_index.shipped().values() if c.source == "recipe" and c.architecture == architecture), None)


def _family(architecture: str) -> str:
    shipped = _same_architecture(architecture)
    family = small_family(architecture) or (shipped and shipped.family)
    if family:
        return family
    from zoo.models.sources import tags

    return tags.family(architecture)


def _link(objective: str) -> Link:
    parts = objective.split("+")
    if all(part in (*OBJECTIVES, *FRAMEWORKS) for part in parts):
        return "sigmoid" if "sigmoid" in parts else "softmax"
    from zoo.objectives import get

    return get(objective).link
