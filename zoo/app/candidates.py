"""Models that might be added to an ensemble, for `zoo recommend` and `zoo report`."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from zoo.app.terminal import note
from zoo.errors import InputError

if TYPE_CHECKING:
    from zoo.cards.card import Card
    from zoo.outputs.outputs import Runs


def candidate_cards(models: Sequence[str], runs: "Runs", base: str) -> "list[Card]":
    """Return the cards of models that predict the base's classes and have no outputs yet.

    Args:
        models: names, patterns, filters or sets.
        runs: outputs of the models that are known in full.
        base: the model they would be added to.
    """
    from zoo.models import registry
    from zoo.runs.resolver import resolve

    found = [registry.card(str(name)) for name in resolve(list(models))]
    new = [card for card in found if card.name not in runs.names]
    if len(new) < len(found):
        note(
            f"{len(found) - len(new)} candidates have outputs already and are learnt from; `zoo ensemble partners --base "
            f"{base}` measures their gain"
        )
    card = runs[base].card
    fitting = [other for other in new if card is None or other.labels == card.labels]
    if len(fitting) < len(new):
        note(f"skipped {len(new) - len(fitting)} candidates that predict other classes than {base}")
    if not fitting:
        raise InputError(
            argument="candidates",
            expected=f"models without outputs that predict the classes of {base}",
            found=", ".join(models),
        )
    return fitting
