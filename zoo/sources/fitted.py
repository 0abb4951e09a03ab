"""Linear heads fitted here on the embeddings of another model; `zoo.heads.save_linear` writes their cards."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.cards import Card
from zoo.sources.base import Availability, Source, head_file

if TYPE_CHECKING:
    from zoo.model import Model
    from zoo.sources.assembly import Request


class Fitted(Source):
    def parts(self, card: Card) -> Sequence[str]:
        return (card.details["base"],)

    def files(self, card: Card) -> Sequence[Path]:
        return (head_file(card),)

    def present(self, card: Card) -> Availability:
        return "here" if head_file(card).exists() else "to train"

    def load(self, request: "Request") -> "Model":
        from zoo.heads.linear import on_base

        (base,) = request.parts
        return on_base(request.card, base, request.weights)


SOURCE = Fitted()
