"""Ensembles as models: the card that `zoo.load` builds an ensemble from."""

from collections.abc import Iterable, Mapping
from typing import Any, cast

from zoo.cards.card import Card, EnsembleMember, Framework, Training, read, write
from zoo.cards.names import check_user_name
from zoo.core import files, home
from zoo.errors import InputError
from zoo.models import membership, registry
from zoo.outputs.outputs import Outputs, Runs


def write_card(
    name: str,
    runs: Runs | None,
    weights: Mapping[str, float],
    details: Mapping[str, Any],
    title: str,
    overwrite: bool = False,
) -> Card:
    """Write the card of an ensemble to the user's cards, and return it.

    Args:
        name: the ensemble's name.
        runs: outputs of the members, with their cards and temperatures.
        weights: weight of each member, in the order of the members.
        details: how the ensemble was found; `temperature` is the ensemble's own temperature.
        title: the card's title.
        overwrite: whether to replace an ensemble of that name.
    """
    if runs is None:
        raise InputError("members are arrays, not models", where=name, hint="Search Runs to save an ensemble")
    check_user_name(name)
    outputs = [runs[member] for member in weights]
    cards = {one.name: _loadable_card(one, name) for one in outputs}
    _check_name(name, cards, overwrite)
    members = [
        EnsembleMember(
            one.name,
            weights[one.name],
            one.temperature or 1.0,
            one.details.get("calibration", {}).get("temperature_space", "logits"),
        )
        for one in outputs
    ]
    card = Card(
        name=name,
        source="ensemble",
        family="ensemble",
        architecture="ensemble",
        labels=_label_set(cards.values(), name),
        link="softmax",
        head="trained",
        training=Training(
            dataset=_common((card.dataset for card in cards.values()), "unknown"),
            framework=cast(Framework, _common((card.training.framework for card in cards.values()), "unknown")),
            objective=_common((card.objective for card in cards.values()), "mixed"),
            hyperparameters={"members": sorted(weights)},
        ),
        license=_common((card.license for card in cards.values()), "other"),
        members=members,
        details=dict(details),
        title=title,
    )
    path = home.folder("cards") / f"{name}.md"
    files.make_folder(path.parent)
    files.write(path, write(card).encode())
    return read(path)


def _check_name(name: str, cards: Mapping[str, Card], overwrite: bool) -> None:
    """Raise an error if a model has this name, or if the ensemble would contain itself."""
    existing = {known.lower(): card for known, card in registry.known_models().items()}.get(name.lower())
    replaceable = existing is not None and bool(existing.members) and existing.name == name
    membership.check(name, cards, lambda one: [m.name for m in cards[one].members] if one in cards else registry.parts(one))
    if existing is not None and not (replaceable and overwrite):
        hint = "Choose another name" + (", or pass {overwrite=True}" if replaceable else "")
        raise InputError(f"a model with the name {existing.name} exists", where=name, argument="name", found=name, hint=hint)


def _loadable_card(outputs: Outputs, name: str) -> Card:
    """Return a member's card, or raise an error if the member cannot be loaded."""
    where = f"{name}: member {outputs.name}"
    if outputs.card is None or registry.available(outputs.card) == "never published":
        raise InputError(
            "there is no model to load: its outputs were imported, or its weights were never published",
            where=where,
            hint="Average the outputs instead (ensembles.average), or choose members that can be loaded",
        )
    return outputs.card


def _label_set(cards: Iterable[Card], name: str) -> str:
    label_sets = sorted({card.labels for card in cards})
    if len(label_sets) != 1:
        raise InputError(
            f"members predict different label sets: {' and '.join(label_sets)}", where=name, expected="one label set"
        )
    return label_sets[0]


def _common(values: Iterable[str], otherwise: str) -> str:
    distinct = set(values)
    return distinct.pop() if len(distinct) == 1 else otherwise
