"""Ensembles: cards that name other models, their shares and their temperatures."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zoo.cards import Card
from zoo.errors import InputError
from zoo.sources.base import Source

if TYPE_CHECKING:
    from zoo.model import Model
    from zoo.sources.assembly import Request


class Ensemble(Source):
    def parts(self, card: Card) -> Sequence[str]:
        return [member.name for member in card.members]

    def prepare(self, card: Card, with_weights: bool) -> None:
        name = card.name
        if not card.members:
            raise InputError(f"{name}: an ensemble needs at least one member, its card has none")
        for member in card.members:
            if not 0 < member.weight < float("inf"):
                raise InputError(f"{name}: member {member.name} has the weight {member.weight}, expected a positive number")
            if not 0 < member.temperature < float("inf"):
                raise InputError(
                    f"{name}: member {member.name} has the temperature {member.temperature}, expected above zero"
                )

    def load(self, request: "Request") -> "Model":
        from zoo.sources.averaging import average

        if request.classes is not None:
            raise InputError(f"{request.card.name}: an ensemble's classes are those of its members")
        return average(request.card, request.parts)


SOURCE = Ensemble()
