"""An ensemble as a model: a card that names its members, with their temperatures, their shares, and how it was found."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from zoo import files, settings
from zoo.cards import Card, EnsembleMember, Framework, Training, read, write
from zoo.errors import InputError
from zoo.names import check_own
from zoo.outputs import Outputs
from zoo.registry import known_models

if TYPE_CHECKING:
    from ensembles.path import Path


def save_path(path: "Path", name: str, title: str = "", overwrite: bool = False) -> Card:
    """Write the best ensemble of a path to the user's cards, `<home>/cards/NAME.md`, and return its card."""
    check_own(name, "ensemble name")
    runs, weights = path.runs, path.weights
    if runs is None or isinstance(weights, np.ndarray):
        raise InputError(f"{name}: the members are arrays, not models; search Runs to save an ensemble that can be loaded")
    outputs = [runs[member] for member in weights]
    cards = [_card(one, name) for one in outputs]
    if name in weights:
        raise InputError(f"{name}: an ensemble cannot be called like one of its members")
    taken = {known.lower(): card for known, card in known_models().items()}.get(name.lower())
    own = taken is not None and bool(taken.members) and taken.name == name
    if taken is not None and not (own and overwrite):
        hint = ", or pass overwrite=True" if own else ""
        raise InputError(f"{name}: a model called {taken.name} exists already; choose another name{hint}")
    card = Card(
        name=name,
        source="ensemble",
        family="ensemble",
        architecture="ensemble",
        labels=_label_set(cards, name),
        link="softmax",
        head="trained",
        training=Training(
            dataset=_shared((card.dataset for card in cards), "unknown"),
            framework=_framework(cards),
            objective=_shared((card.objective for card in cards), "mixed"),
            hyperparameters={"members": sorted(weights)},
        ),
        license=_shared((card.license for card in cards), "other"),
        members=[EnsembleMember(one.name, weights[one.name], one.temperature or 1.0) for one in outputs],
        details=_record(path, outputs[0]),
        title=title or f"Ensemble of {len(weights)} models",
    )
    target = settings.home() / "cards" / f"{name}.md"
    files.make_folder(target.parent)
    files.write(target, write(card).encode())
    return read(target)


def _record(path: "Path", first: Outputs) -> dict[str, Any]:
    """How the ensemble was found and what it scored, for the card."""
    return {
        "found_on": first.dataset or "unnamed",
        "objective": path.objective,
        "selection_score": path.best_score,
        "test_score": path.best_test_score,
        "test_gain": path.gain,
        "test_gain_interval": None if path.interval is None else list(path.interval),
        "picks": list(path.members[: path.best]),
        "search": {key: value for key, value in path.settings.items() if value is not None},
    }


def _card(outputs: Outputs, name: str) -> Card:
    if outputs.card is None:
        raise InputError(f"{name}: its member {outputs.name} has no card, so it could not be loaded again")
    return outputs.card


def _label_set(cards: Iterable[Card], name: str) -> str:
    found = sorted({card.labels for card in cards})
    if len(found) != 1:
        raise InputError(f"{name}: members predict different label sets, {' and '.join(found)}; expected one")
    return found[0]


def _framework(cards: Iterable[Card]) -> Framework:
    found = {card.training.framework for card in cards}
    return found.pop() if len(found) == 1 else "unknown"


def _shared(values: Iterable[str], otherwise: str) -> str:
    found = set(values)
    return found.pop() if len(found) == 1 else otherwise
