"""Linear heads on the embeddings of another model: shipped next to their card, or fitted on this machine by `zoo head`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.cards.card import Card
from zoo.models.sources.base import Availability, Source
from zoo.models.trained import head_file, local_head, shipped_head

if TYPE_CHECKING:
    from zoo.models.model import Model
    from zoo.models.sources.assembly import Request


class Fitted(Source):
    def parts(self, card: Card) -> Sequence[str]:
        return (card.details["base"],)

    def files(self, card: Card) -> Sequence[Path]:
        return (head_file(card),)

    def present(self, card: Card) -> Availability:
        if shipped_head(card).exists():
            return "shipped"
        return "local" if local_head(card).exists() else "to train"

    def load(self, request: "Request") -> "Model":
        from zoo.models.heads.linear import on_base

        (base,) = request.parts
        return on_base(request.card, base, request.pretrained)


SOURCE = Fitted()
