"""Members seen through their cards."""

from collections.abc import Sequence

from ensembles.library import Name
from zoo.outputs import Runs


def categories(members: Sequence[Name], runs: Runs | None) -> list[str | None]:
    """The category of each member against the first: the outermost difference in how the two were trained."""
    from diversity.categories import category

    cards = [None if runs is None else runs[str(name)].card for name in members]
    first = cards[0]
    return [
        None if card is None or first is None or position == 0 else category(first, card)
        for position, card in enumerate(cards)
    ]
