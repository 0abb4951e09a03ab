"""Models by name. The registry is the cards: those shipped, the user's own, and those registered in this process.

What a person types is first turned into the full name of the model (`names.full`). A name means a shipped model, a
recipe by its grammar (`resnet8-cosine-s3.cifar10`), a model of some library (`timm:resnet18`), or else one of the user's
own: registered here, in `<home>/cards`, or trained under a name of its own. Nothing of the user's changes what one of the
others means. Names that differ only by case would be one file on some systems, so they cannot both be had.
"""

import dataclasses
import re
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.cards import card as cards
from zoo.cards import card_index, names, sources
from zoo.cards.card import Card
from zoo.cards.card_index import shipped_folder as shipped_folder
from zoo.cards.names import check_safe, check_user_name, default_dataset, near
from zoo.cards.selection import check_field, is_pattern, select, suggest
from zoo.core import files, home
from zoo.errors import InputError, UnknownName, ZooError, ZooWarning
from zoo.models import membership, recipe_cards, trained
from zoo.models.sources import source as source_of
from zoo.models.sources.base import Availability, furthest
from zoo.models.trained import head_file

if TYPE_CHECKING:
    import torch

    from zoo.models.model import Model
    from zoo.models.sources.hints import ModelHints

_registered: dict[str, Card] = {}
_told: set[str] = set()  # what was said once in this process


def matching(models: str | Sequence[str] = "*", **fields: Any) -> dict[str, Card]:
    """Return the cards of the models that selectors stand for and whose fields have these values, by name.

    A value is compared as in `zoo.list`. Nothing matching is no error.
    """
    selectors = [models] if isinstance(models, str) else [*models]
    every = dict(sorted(known_models().items()))
    for field, value in fields.items():
        check_field(field, value, every)
    if any(is_pattern(selector) and "@" in selector[1:] for selector in selectors):
        every |= {kept: card(kept) for name in trained.names() if name in every for kept in trained.snapshots(name)}
    try:
        chosen = select(selectors, every, unlisted=is_name)
    except UnknownName as error:
        if error.kind != "model":
            raise
        return {}
    found = {name: every[name] if name in every else card(name) for name in chosen}
    return {name: entry for name, entry in found.items() if entry.matches(**fields)}


def is_name(name: str) -> bool:
    """Return whether a full name means a model, listed or not: a recipe by its grammar, or a library's such as `timm:x`."""
    try:
        card(name)
    except UnknownName:
        return False
    except ZooError:  # the model is known, and something is wrong with it
        return True
    return True


def resolve(name: str) -> str:
    """The full name of what was typed.

    >>> resolve("resnet50-cosine"), resolve("resnet50-cosine.imagenet-1k"), resolve("clip-vit-b32")
    ('resnet50-cosine.digits', 'resnet50-cosine.in1k', 'clip-vit-b32')
    """
    if not isinstance(name, str) or not name:
        raise InputError(f"name: expected a model's name, found {name!r}")
    return names.full(name, default_dataset())


def card(name: str) -> Card:
    """The card of a name. The first shorthand of a process is explained in one line on standard error.

    >>> card("resnet50-cosine").name, card("resnet50-cosine.in1k").accuracy
    ('resnet50-cosine.digits', 77.9)
    """
    full = resolve(name)
    if ":" in full:
        return _of_library(full)
    model, epoch = names.split_snapshot(full)
    if epoch is not None:
        return trained.snapshot_card(card(model), epoch)
    check_safe(full)
    parts = names.parse_recipe(full)
    if parts is not None:
        found = recipe_cards.card(parts)
        _explain(name, full)
        return found
    every, sweeps = known_models(), _sweeps()
    own = every.get(full) or sweeps.get(full)
    if own is None:
        raise UnknownName(
            kind="model", name=name, suggestions=suggest(name, [*every, *sweeps]), hint="`zoo list` shows the known models"
        )
    return own


def register(entry: Card | str | Path, name: str | None = None, keep: bool = False, **hints: Any) -> Card:
    """Add a card, the card in a file, or with a `name` of its own any other model, for this process; with `keep`, for good.

    `told` is what a bare file does not say: `register("file:weights.pth", "mine", architecture="resnet18",
    classes=["cat", "dog"])`; `zoo.models.sources.hints.ModelHints` lists it. A card that is kept is `<home>/cards/NAME.md`, to be
    edited. A name that is taken, in whatever case, or that means a recipe, is an error.

    >>> from dataclasses import replace
    >>> new = register(replace(card("resnet50-cosine"), name="my-own-resnet50"))
    >>> card("my-own-resnet50").objective
    'cosine'
    >>> del _registered["my-own-resnet50"]  # as the end of the process does
    >>> register(card("clip-vit-b32"))
    Traceback (most recent call last):
    ...
    zoo.errors.InputError: a model named 'clip-vit-b32' is registered already; give 'clip-vit-b32' another name
    """
    from zoo.models.sources.hints import ModelHints

    if name is not None:
        new = described(entry, name, ModelHints.of(hints))
    elif hints:
        raise InputError(f"register: {', '.join(hints)} describe a model to be named; say its name too")
    else:
        new = entry if isinstance(entry, Card) else cards.read(Path(entry))
    taken = {name.lower(): name for name in [*known_models(), *_sweeps()]}
    for member in new.expand():
        check_safe(member.name)
        if member.name.lower() in taken:
            other = taken[member.name.lower()]
            raise InputError(f"a model named {other!r} is registered already; give {member.name!r} another name")
        check_user_name(member.name)
    if keep:
        new = _kept(new)
    else:
        _registered.update({member.name: member for member in new.expand()})
    return new


def described(entry: Card | str | Path, name: str, hints: "ModelHints") -> Card:
    """The card of any model under another name, with what is told of it."""
    check_user_name(name)
    if isinstance(entry, Card):
        found = entry
    else:
        prefix, colon, id = str(entry).partition(":")
        library = sources.of_prefix(prefix) if colon and id and hints.stated else None
        if library is None and hints.stated:
            raise InputError(f"{entry}: {', '.join(hints.stated)} can be told of file:PATH and onnx:PATH only")
        found = source_of(library).describe_with_hints(id, str(entry), hints) if library else card(str(entry))
    if found.source in ("recipe", "own") or found.sweep:
        raise InputError(f"{found.name}: cannot go by another name; `zoo train RECIPE --as {name}` trains one that does")
    body = found.body or f"# {name}\n\n{found.architecture} from {found.id}."
    return dataclasses.replace(found, name=name, title=name, body=re.sub(r"\A# .*", f"# {name}", body), path=None)


def _kept(new: Card) -> Card:
    path = files.make_folder(home.folder("cards")) / f"{new.name}.md"
    if path.exists():
        raise InputError(f"{path}: is there already; edit it, or remove it first")
    text = cards.write(new)
    cards.parse(text, str(path))
    files.write(path, text.encode())
    return dataclasses.replace(new, path=path)


def load(
    name: str,
    pretrained: bool = True,
    device: "str | torch.device | None" = None,
    classes: Sequence[str] | None = None,
) -> "Model":
    """The model of a name, ready to embed and predict.

    With `pretrained=False` its weights are random (the same for the same name) and nothing is downloaded. `device` is the
    fastest one here unless given. `classes` are the class names of a zero-shot head, where they are not the card's.

    >>> model = load("resnet8-cosine", pretrained=False, device="cpu")
    >>> model.name, model.classes[:3], model.transform.size
    ('resnet8-cosine.digits', ('0', '1', '2'), (3, 16, 16))
    >>> model.weights_hash == load("resnet8-cosine", pretrained=False, device="cpu").weights_hash
    True
    """
    entry = card(name)
    if within := parts(entry.name):
        membership.check(entry.name, within, parts)
    return _load(entry, pretrained, device, None if classes is None else tuple(classes))


def _load(
    entry: Card, pretrained: bool, device: "str | torch.device | None", classes: tuple[str, ...] | None = None
) -> "Model":
    """What can be said without torch, such as that weights are missing, is said before it loads."""
    if entry.sweep:
        members = ", ".join(member.name for member in entry.sweep)
        raise InputError(f"{entry.name} stands for several models; load one of them: {members}")
    source = source_of(entry.source)
    source.prepare(entry, pretrained)
    from zoo.core.devices import choose
    from zoo.models.sources.assembly import Request

    place = choose(device)
    made_from = tuple(_load(card(part), pretrained, place) for part in source.parts(entry))
    return source.load(Request(entry, pretrained, place, classes, made_from))


def parts(name: str) -> Sequence[str]:
    """The names of the models that a model is made of: an ensemble's members, the base of a head; of most models none."""
    entry = card(name)
    return source_of(entry.source).parts(entry)


def availability(name: str) -> Availability:
    """Where the weights of a model are: shipped, here, to download, to train, or never published. Loads no library.

    >>> availability("resnet50-cosine.in1k"), availability("simclr-resnet50")
    ('to train', 'never published')
    """
    return available(card(name))


def available(entry: Card) -> Availability:
    """The same for a card; a model made of others is as far away as the furthest of them."""
    source = source_of(entry.source)
    found = [source.present(entry)]
    if entry.head == "linear" and not head_file(entry).exists():
        found.append("to train")
    try:
        membership.check(entry.name, source.parts(entry), parts)
        found += [available(card(part)) for part in source.parts(entry)]
    except ZooError:  # a part is gone, or made of this one
        found.append("never published")
    return furthest(found)


def made_of(entry: Card) -> list[Card]:
    """The card, then those of all models it is made of."""
    within = source_of(entry.source).parts(entry)
    if within:
        membership.check(entry.name, within, parts)
    return [entry, *(below for part in within for below in made_of(card(part)))]


def known_models() -> dict[str, Card]:
    """Every model that has a card or was trained here, by name, sweeps taken apart."""
    found = card_index.shipped()
    folded = {name.lower(): name for name in (*found, *_sweeps(shipped_only=True))}
    for entry in card_index.read(home.folder("cards")):
        for member in entry.expand():
            _add_own(member, str(entry.path), found, folded)
    found |= _registered
    for name in trained.names():
        parts = names.parse_recipe(name)
        try:
            own = recipe_cards.card(parts) if parts else trained.describe(trained.path(name)).card
        except ZooError as error:
            _warn(f"{error}; {trained.path(name)} is left out")
            continue
        if parts:
            found.setdefault(name, own)
        elif name not in found:
            _add_own(own, str(trained.path(name)), found, folded)
    return found


def _same_command(card: Card, other: Card) -> bool:
    command = card.details.get("command")
    return command is not None and command == other.details.get("command")


def _add_own(member: Card, where: str, found: dict[str, Card], folded: dict[str, str]) -> None:
    """One of the user's own, unless its name is taken: it is then left out, with one warning that names it."""
    other = folded.get(member.name.lower())
    if other is not None and other in found and _same_command(member, found[other]):
        return  # the same model, which is shipped by now
    if other is not None:
        _warn(f"{where}: its name {member.name!r} is that of the model {other!r}, which it cannot replace; it is left out, "
              "rename it")  # fmt: skip
    elif names.parse_recipe(member.name) is not None:
        _warn(f"{where}: its name {member.name!r} means a recipe, which a card cannot replace; it is left out, rename it")
    else:
        folded[member.name.lower()] = member.name
        found[member.name] = member


def _explain(name: str, full: str) -> None:
    imagenet = names.full(name, "in1k")
    if full != imagenet and "shorthand" not in _told:
        _told.add("shorthand")
        print(f"zoo: {name} is short for {full}; the one of ImageNet is {imagenet}", file=sys.stderr, flush=True)


def _warn(message: str) -> None:
    """Said once in a process."""
    if message not in _told:
        _told.add(message)
        warnings.warn(message, ZooWarning, stacklevel=4)


def _sweeps(shipped_only: bool = False) -> dict[str, Card]:
    """Cards that stand for several models, by their own name; shipped ones before the user's."""
    folders = [home.folder("cards"), card_index.shipped_folder()][1 if shipped_only else 0 :]
    return {entry.name: entry for folder in folders for entry in card_index.read(folder) if entry.sweep}


def _of_library(name: str) -> Card:
    prefix, _, id = name.partition(":")
    source = sources.of_prefix(prefix)
    if source is None:
        known = sources.prefixes()
        raise UnknownName(
            f"unknown model {name!r}: before the colon expected one of {', '.join(known)}{near(prefix, known)}"
        )
    if not id:
        raise InputError(f"name {name!r}: expected a model after {prefix}:")
    return source_of(source).describe(id, name)
