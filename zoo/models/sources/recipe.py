"""Networks of training recipes, whose weights are shipped next to their card or trained on this machine."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.cards import card_index
from zoo.cards.card import Card
from zoo.cards.names import parse_recipe, split_snapshot
from zoo.core import hooks, settings
from zoo.errors import InputError, MissingWeights
from zoo.models import recipe_cards, trained
from zoo.models.sources.base import Availability, Source
from zoo.models.weights import verify_shipped

if TYPE_CHECKING:
    from torch import Tensor

    from zoo.models.model import Model
    from zoo.models.sources.assembly import Request


class Recipe(Source):
    def files(self, card: Card) -> Sequence[Path]:
        return (_shipped(card), trained.path(card.name))

    def present(self, card: Card) -> Availability:
        if _shipped(card).exists():
            return "shipped"
        return "local" if trained.path(card.name).exists() else "to train"

    def prepare(self, card: Card, pretrained: bool) -> None:
        """Train missing weights of the embedded dataset; for any other dataset raise an error that names the command."""
        if not pretrained or self.present(card) != "to train":
            return
        parts = parse_recipe(card.name)
        if parts is not None and parts.dataset == recipe_cards.EMBEDDED_DATASET and settings.autotrain():
            hooks.train_missing(card.name)
            return
        model, epoch = split_snapshot(card.name)
        recipe = model if parse_recipe(model) else f"ARCHITECTURE-OBJECTIVE --data SPEC --name {model}"
        command = f"zoo train {recipe}" + (f" --snapshots-every {epoch}" if epoch else "")
        raise MissingWeights(
            f"there are no trained weights at {trained.path(card.name)}",
            where=card.name,
            hint=f"Train them with `{command}`, or pass {{pretrained=False}} for random weights",
        )

    def load(self, request: "Request") -> "Model":
        from zoo.models.sources.assembly import assemble, card_classes, fit
        from zoo.networks import build

        card, classes = request.card, card_classes(request.card)
        size = card.input_size or (3, 224, 224)
        with request.initialising():
            network = build(card.architecture, len(classes), card.objective, card.hyperparameters, size)
        digest = None
        if request.pretrained:
            path, state, digest = _read(card)
            fit(card.name, network, state, str(path))
        return assemble(request, network, digest, classes)


SOURCE = Recipe()


def _shipped(card: Card) -> Path:
    """Return the path that shipped weights have or would have, in float32 or, to save space, in float16."""
    return card_index.shipped_folder() / f"{card.name}.safetensors"


def _read(card: Card) -> "tuple[Path, dict[str, Tensor], str]":
    """Return the weights file, its state dictionary and its hash."""
    from zoo.core import state_dicts

    path = _shipped(card)
    if path.exists():
        digest = verify_shipped(card, path)
        return path, state_dicts.read(path, card.name), digest
    path = trained.path(card.name)
    record, tensors, digest = trained.read(path)
    changed = trained.changes(record.card.training, card.training)
    if changed:
        raise InputError(
            f"was trained by another recipe ({'; '.join(changed[:3])})",
            where=f"{card.name}: {path}",
            hint="Train it again with `zoo train --restart`",
        )
    return path, state_dicts.as_torch(tensors), digest
