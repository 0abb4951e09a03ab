"""Models made by `zoo.Model.of` from a user's code: their outputs can be stored, but only that code can load them."""

from zoo.cards.card import Card
from zoo.errors import MissingWeights
from zoo.models.sources.base import Availability, Source


class Own(Source):
    def present(self, card: Card) -> Availability:
        return "never published"

    def prepare(self, card: Card, pretrained: bool) -> None:
        hint = "Create the model with zoo.Model.of and pass it instead of its name"
        raise MissingWeights("only the code that created this model can load it", where=card.name, hint=hint)


SOURCE = Own()
