"""Networks trained by our own recipes."""

import dataclasses

from zoo import checkpoints, recipes, weights
from zoo.architectures import build
from zoo.cards import Card
from zoo.errors import UnknownName
from zoo.model import Model, Network
from zoo.sources.assembly import Request, assemble, card_classes, fit


def load(request: Request) -> Model:
    """The model of a recipe: its weights are in `<home>/weights/NAME`."""
    request = with_transform(request)
    card, classes = request.card, classes_of(request.card)
    with request.beginning():
        network = untrained(card, len(classes))
    if not request.weights:
        return assemble(request, network, None, classes)
    path = recipes.weights_path(card.name)
    digest = weights.verify(card, path)
    fit(card.name, network, checkpoints.read(path, card.name), str(path))
    return assemble(request, network, digest, classes)


def untrained(card: Card, num_classes: int) -> Network:
    """The network of a recipe with random weights."""
    size = card.input_size or (3, 224, 224)
    return build(card.architecture, num_classes, card.objective, card.hyperparameters, size)


def classes_of(card: Card) -> tuple[str, ...]:
    """The class names a card was trained on: its own, else its dataset's."""
    try:
        return tuple(card_classes(card))
    except UnknownName:
        from zoo import datasets

        return tuple(datasets.load(card.dataset).classes)


def with_transform(request: Request) -> Request:
    """The request with its recipe's own transform where the card names none."""
    card = request.card
    if card.transform is not None:
        return request
    from zoo.training.published import recipe

    transform = recipe(card.architecture, card.objective, recipes.short_name(card.dataset)).transform
    return dataclasses.replace(request, card=dataclasses.replace(card, transform=transform))
