"""Networks of our own recipes: weights in the box beside their card, or trained here."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.cards import card_index
from zoo.cards.card import Card
from zoo.cards.names import parse_recipe, split_snapshot
from zoo.core import files, hooks, settings, typed
from zoo.errors import CorruptFile, InputError, MissingWeights
from zoo.models import recipe_cards, trained
from zoo.models.sources.base import Availability, Source

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
        """Train a recipe of the embedded dataset whose weights are missing; of any other, say which command does."""
        if not pretrained or self.present(card) != "to train":
            return
        parts = parse_recipe(card.name)
        if parts is not None and parts.dataset == recipe_cards.EMBEDDED_DATASET and settings.autotrain():
            hooks.train_missing(card.name)
            return
        model, epoch = split_snapshot(card.name)
        told = model if parse_recipe(model) else f"ARCHITECTURE-OBJECTIVE --data SPEC --as {model}"
        command = f"zoo train {told}" + (f" --snapshots-every {epoch}" if epoch else "")
        raise MissingWeights(
            f"{card.name}: there are no trained weights at {trained.path(card.name)}; make them with `{command}`, "
            "or pass pretrained=False for random ones"
        )

    def load(self, request: "Request") -> "Model":
        from zoo.models.sources.assembly import assemble, card_classes, fit
        from zoo.networks import build

        card, classes = request.card, card_classes(request.card)
        size = card.input_size or (3, 224, 224)
        with request.beginning():
            network = build(card.architecture, len(classes), card.objective, card.hyperparameters, size)
        if not request.pretrained:
            return assemble(request, network, None, classes)
        path = _shipped(card)
        state, digest = _in_the_box(card, path) if path.exists() else _trained_here(card)
        fit(card.name, network, state, str(path if path.exists() else trained.path(card.name)))
        return assemble(request, network, digest, classes)


SOURCE = Recipe()


def _shipped(card: Card) -> Path:
    """Where weights that come with the package would be, in float32 or, to save room, in float16."""
    return card_index.shipped_folder() / f"{card.name}.safetensors"


def _in_the_box(card: Card, path: Path) -> "tuple[dict[str, Tensor], str]":
    from zoo.core import state_dicts

    found = files.sha256(path)
    if found != card.sha256:
        raise CorruptFile(
            f"{card.name}: {path} has the sha256 {found}, its card says {card.sha256 or 'none'}; install the package again"
        )
    return state_dicts.read(path, card.name), found


def _trained_here(card: Card) -> "tuple[dict[str, Tensor], str]":
    from zoo.core import state_dicts

    record, tensors, digest = trained.read(trained.path(card.name))
    changed = typed.differences(typed.plain(record.card.training), typed.plain(card.training))
    if changed:
        raise InputError(
            f"{card.name}: {trained.path(card.name)} was trained by another recipe ({'; '.join(changed[:3])}); train it "
            "again (`zoo train --restart`)"
        )
    return state_dicts.as_torch(tensors), digest
