"""From a card to a model. What can be said without torch, such as that weights are missing, is said before it loads."""

from importlib import import_module
from typing import TYPE_CHECKING

from zoo import recipes, registry, weights
from zoo.cards import Card
from zoo.errors import InputError, MissingWeights

if TYPE_CHECKING:
    import torch

    from zoo.model import Model


def load(
    card: Card, with_weights: bool, device: "str | torch.device | None", classes: tuple[str, ...] | None
) -> "Model":  # fmt: skip
    """The model of a card; see `zoo.load`."""
    if card.sweep:
        members = ", ".join(member.name for member in card.sweep)
        raise InputError(f"{card.name} stands for several models; load one of them: {members}")
    if card.source == "reference":
        figures = "; ".join(f"{row.paper}, Table {row.table}: {row.row}" for row in card.reference)
        raise MissingWeights(
            f"{card.name}: this model was never published, so there is nothing to load; its card keeps the figures of "
            f"{figures or 'its paper'} (`zoo show {card.name}`)"
        )
    if "base" in card.details and card.head == "linear":  # fitted here, on a model that has a name of its own
        base = registry.load(card.details["base"], with_weights, device)
        from zoo.heads.linear import on_base

        return on_base(card, base, with_weights)
    if with_weights:
        card = _with_weights_at_hand(card)
    from zoo.devices import choose
    from zoo.sources.assembly import Request

    source = import_module(f"zoo.sources.{card.source}")
    model: Model = source.load(Request(card, with_weights, choose(device), classes))
    return model


def _with_weights_at_hand(card: Card) -> Card:
    """The card of what will be loaded, once its weights are here; or an error that says how to get them."""
    if card.source == "recipe":
        if not recipes.weights_path(card.name).exists():
            recipes.make(card)
        return registry.card(card.name)
    if card.source in ("timm", "open_clip", "transformers"):
        weights.require_cached(card)
    return card
