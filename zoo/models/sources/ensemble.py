"""Ensembles: cards that name other models, their shares and their temperatures; and, of a cascade, when to stop."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zoo.cards.card import Card
from zoo.core import typed
from zoo.core.stop_rules import Stopping
from zoo.errors import InputError
from zoo.models.sources.base import Source

if TYPE_CHECKING:
    from zoo.models.model import Model
    from zoo.models.sources.assembly import Request


class Ensemble(Source):
    def parts(self, card: Card) -> Sequence[str]:
        return [member.name for member in card.members]

    def prepare(self, card: Card, pretrained: bool) -> None:
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
        stopping = _stopping(card)
        if stopping is not None and len(stopping.thresholds) != len(card.members) - 1:
            raise InputError(
                f"{name}: a cascade of {len(card.members)} members needs {len(card.members) - 1} thresholds, "
                f"one between each two, its card has {len(stopping.thresholds)}"
            )

    def load(self, request: "Request") -> "Model":
        from zoo.models.sources.averaging import average
        from zoo.models.sources.cascading import cascade

        if request.classes is not None:
            raise InputError(f"{request.card.name}: an ensemble's classes are those of its members")
        stopping = _stopping(request.card)
        return average(request.card, request.parts) if stopping is None else cascade(request.card, request.parts, stopping)


def _stopping(card: Card) -> Stopping | None:
    found = card.details.get("cascade")
    return None if found is None else typed.build(Stopping, found, card.name, "zoo.details.cascade")


SOURCE = Ensemble()
