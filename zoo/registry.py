"""Models by name. The registry is the cards: those shipped, the user's own, and those registered in this process.

A name means, in this order: a card registered here, a card in `<home>/cards`, a shipped card (or a member of its sweep), a
recipe by its grammar (`resnet8-cosine-s3.cifar10`), or a model of some library (`timm:resnet18`). Names that differ only
by case would be one file on some systems, so they cannot both be registered.
"""

import builtins
import fnmatch
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo import cards, recipes, settings
from zoo.card_index import read as read_cards
from zoo.cards import FIELD_NAMES, Card
from zoo.errors import InputError, UnknownName
from zoo.names import check_safe, near

if TYPE_CHECKING:
    import torch

    from zoo.model import Model

PREFIXES = ("timm", "open_clip", "hf", "file")
_registered: dict[str, Card] = {}


def list(pattern: str | None = None, **fields: Any) -> builtins.list[str]:
    """The names of the models that match a pattern such as `resnet50-*` and whose cards have these values.

    A field is one of the card or its training (`objective="cosine"`), or a hyper-parameter (`tau=0.05`). For a number a
    pair means a range (`accuracy=(74, 78)`; None leaves a side open), and a list any of its values.

    >>> list("resnet50-*", objective="cosine")
    ['resnet50-cosine']
    """
    every = known_models()
    for field in fields:
        _check_field(field, every)
    return sorted(
        name
        for name, card in every.items()
        if (pattern is None or fnmatch.fnmatchcase(name, pattern))
        and all(_matches(card.value(field), wanted) for field, wanted in fields.items())
    )


def card(name: str) -> Card:
    """The card of a name.

    >>> card("resnet50-cosine").objective
    'cosine'
    """
    if not isinstance(name, str) or not name:
        raise InputError(f"name: expected a model's name, found {name!r}")
    if ":" in name:
        return _of_library(name)
    every = known_models()
    if name in every:
        return every[name]
    sweeps = _sweeps()
    if name in sweeps:
        return sweeps[name]
    check_safe(name)
    recipe = recipes.card(name, every)
    if recipe is not None:
        return recipe
    raise UnknownName(f"unknown model {name!r}; `zoo list` shows what there is{near(name, [*every, *sweeps])}")


def register(entry: Card | str | Path) -> Card:
    """Add a card, or the card in a file, for this process; `<home>/cards` is the place for one that is to stay.

    A name that is taken, in whatever case, is an error.

    >>> from dataclasses import replace
    >>> new = register(replace(card("resnet50-cosine"), name="my-own-resnet50"))
    >>> card("my-own-resnet50").objective
    'cosine'
    >>> del _registered["my-own-resnet50"]  # as the end of the process does
    >>> register(card("resnet50-cosine"))
    Traceback (most recent call last):
    ...
    zoo.errors.InputError: a model named 'resnet50-cosine' is registered already; give 'resnet50-cosine' another name
    """
    new = entry if isinstance(entry, Card) else cards.read(Path(entry))
    taken = {name.lower(): name for name in [*known_models(), *_sweeps()]}
    for member in new.expand():
        check_safe(member.name)
        if member.name.lower() in taken:
            other = taken[member.name.lower()]
            raise InputError(f"a model named {other!r} is registered already; give {member.name!r} another name")
    _registered.update({member.name: member for member in new.expand()})
    return new


def load(
    name: str,
    weights: bool = True,
    device: "str | torch.device | None" = None,
    classes: Sequence[str] | None = None,
) -> "Model":
    """The model of a name, ready to embed and predict.

    With `weights=False` its weights are random (the same for the same name) and nothing is downloaded. `device` is the
    fastest one here unless given. `classes` are the class names of a zero-shot head, where they are not the card's.

    >>> model = load("resnet8-cosine", weights=False, device="cpu")
    >>> model.classes[:3], model.transform.size
    (('0', '1', '2'), (3, 16, 16))
    >>> model.weights_hash == load("resnet8-cosine", weights=False, device="cpu").weights_hash
    True
    """
    from zoo.sources.loading import load as load_model

    return load_model(card(name), weights, device, None if classes is None else tuple(classes))


def known_models() -> dict[str, Card]:
    """Every model that has a card, by name, sweeps taken apart; the user's before those shipped."""
    found: dict[str, Card] = {}
    for entry in (*read_cards(shipped_folder()), *read_cards(settings.home() / "cards")):
        found.update({member.name: member for member in entry.expand()})
    folded: dict[str, str] = {}
    for name in found:
        if folded.setdefault(name.lower(), name) != name:
            raise InputError(f"the cards {folded[name.lower()]!r} and {name!r} differ only by case; rename yours")
    return found | _registered


def shipped_folder() -> Path:
    """The cards inside the installed package, or beside it in a checkout."""
    inside = Path(__file__).parent / "model_cards"
    return inside if inside.is_dir() else Path(__file__).parent.parent / "model_cards"


def _sweeps() -> dict[str, Card]:
    """Cards that stand for several models, by their own name."""
    folders = (shipped_folder(), settings.home() / "cards")
    return {entry.name: entry for folder in folders for entry in read_cards(folder) if entry.sweep}


def _of_library(name: str) -> Card:
    prefix, _, rest = name.partition(":")
    if prefix == "file":
        from zoo.sources.local import describe as describe_file

        return describe_file(rest)
    if prefix not in PREFIXES:
        raise UnknownName(f"unknown model {name!r}: before the colon expected one of {', '.join(PREFIXES)}"
                          f"{near(prefix, PREFIXES)}")  # fmt: skip
    from zoo.catalogue import describe

    return describe(name)


def _check_field(field: str, every: Mapping[str, Card]) -> None:
    if field in FIELD_NAMES:
        return
    known = FIELD_NAMES | {key for card in every.values() for key in card.hyperparameters}
    if field not in known:
        raise InputError(f"unknown field {field!r}{near(field, known) or '; fields: ' + ', '.join(sorted(FIELD_NAMES))}")


def _matches(found: Any, wanted: Any) -> bool:
    if isinstance(found, (int, float)) and isinstance(wanted, tuple) and len(wanted) == 2:
        low, high = wanted
        return (low is None or found >= low) and (high is None or found <= high)
    if isinstance(wanted, builtins.list) and not isinstance(found, builtins.list):
        return found in wanted
    return bool(found == wanted)
