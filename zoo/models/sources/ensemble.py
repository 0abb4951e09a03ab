"""Ensembles: cards that list members with weights and temperatures.

A card may also have a temperature of the whole ensemble (`details.temperature`), the thresholds of its prediction sets
(`details.sets`) and, for a cascade, a stopping rule.
"""

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
        if not card.members:
            raise InputError(where=card.name, argument="members", expected="at least one model", found=0)
        for member in card.members:
            for field in ("weight", "temperature"):
                value = getattr(member, field)
                if not 0 < value < float("inf"):
                    where = f"{card.name}: member {member.name}"
                    raise InputError(where=where, argument=field, expected="a finite number above 0", found=value)
        if sum(member.weight for member in card.members) == float("inf"):
            raise InputError("the weights are too large to be added", where=card.name, argument="weight")
        temperature = card.details.get("temperature", 1.0)
        if not (isinstance(temperature, int | float) and 0 < temperature < float("inf")):
            where, expected = f"{card.name}: field 'zoo.details.temperature'", "a finite number above 0"
            raise InputError(where=where, argument="temperature", expected=expected, found=temperature)
        from zoo.core.prediction_sets import read_rule  # imports NumPy, which listing models does not need

        read_rule(card.details, card.name)  # raises an error if the rule is invalid
        stopping = stopping_of(card)
        if stopping is not None and len(stopping.thresholds) != len(card.members) - 1:
            raise InputError(
                where=card.name,
                argument="thresholds",
                expected=f"{len(card.members) - 1} numbers for a cascade of {len(card.members)} members",
                found=len(stopping.thresholds),
            )

    def load(self, request: "Request") -> "Model":
        from zoo.models.sources.ensemble_networks import average, cascade

        if request.classes is not None:
            raise InputError("an ensemble has the classes of its members", where=request.card.name, argument="classes")
        stopping = stopping_of(request.card)
        return average(request.card, request.parts) if stopping is None else cascade(request.card, request.parts, stopping)


def stopping_of(card: Card) -> Stopping | None:
    """Return when a cascade stops; None for any other ensemble."""
    found = card.details.get("cascade")
    return None if found is None else typed.build(Stopping, found, card.name, "zoo.details.cascade")


SOURCE = Ensemble()
