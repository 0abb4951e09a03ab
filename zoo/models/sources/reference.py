"""Models that were never published: their cards keep a paper's figures."""

from zoo.cards.card import Card
from zoo.errors import MissingWeights
from zoo.models.sources.base import Availability, Source


class Reference(Source):
    def present(self, card: Card) -> Availability:
        return "never published"

    def prepare(self, card: Card, pretrained: bool) -> None:
        figures = "; ".join(f"{row.paper}, {row.place}: {row.row}" for row in card.reference)
        raise MissingWeights(
            f"{card.name}: this model was never published, so there is nothing to load; its card keeps the figures of "
            f"{figures or 'its paper'} (`zoo show {card.name}`)"
        )


SOURCE = Reference()
