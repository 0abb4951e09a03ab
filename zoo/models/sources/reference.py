"""Models that were never published: their cards hold the results of a paper."""

from zoo.cards.card import Card
from zoo.errors import MissingWeights
from zoo.models.sources.base import Availability, Source


class Reference(Source):
    def present(self, card: Card) -> Availability:
        return "never published"

    def prepare(self, card: Card, pretrained: bool) -> None:
        results = "; ".join(f"{row.paper}, {row.place}: {row.row}" for row in card.reference)
        raise MissingWeights(
            f"this model was never published; its card has the results of {results or 'its paper'}",
            where=card.name,
            hint=f"See them with `zoo show {card.name}`",
        )


SOURCE = Reference()
