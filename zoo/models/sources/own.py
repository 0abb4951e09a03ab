"""Models of one's own code (`zoo.Model.of`): their outputs are kept, the model itself only that code can make again."""

from zoo.cards.card import Card
from zoo.errors import MissingWeights
from zoo.models.sources.base import Availability, Source


class Own(Source):
    def present(self, card: Card) -> Availability:
        return "never published"

    def prepare(self, card: Card, pretrained: bool) -> None:
        raise MissingWeights(f"{card.name}: was made by a program with zoo.Model.of; make it there again and pass the model")


SOURCE = Own()
