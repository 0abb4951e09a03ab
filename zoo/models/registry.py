"""Models by name. The registry consists of cards: shipped ones, the user's, and those registered in this process.

A typed name is first completed to the full name of a model (`names.full`). A full name means, in this order: a library's
model (`timm:resnet18`), a recipe by its grammar (`resnet8-cosine-s3.cifar10`), a shipped model, or a model of the user:
registered in this process, described in `<home>/cards`, or trained under a custom name. A user's model never changes what a
shipped name or a recipe means. Names that differ only by case would be one file on some systems, so they are refused.
"""

import dataclasses
import re
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

from zoo.cards import card as cards
from zoo.cards import card_index, names, sources
from zoo.cards.card import Card
from zoo.cards.card_index import shipped_folder as shipped_folder
from zoo.cards.names import check_safe, check_user_name, default_dataset
from zoo.cards.selection import check_field, is_pattern, select, suggest
from zoo.core import files, home
from zoo.errors import InputError, UnknownName, ZooError, ZooWarning
from zoo.models import membership, recipe_cards, trained
from zoo.models.sources import source as source_of
from zoo.models.sources.base import Availability
from zoo.models.trained import head_file

if TYPE_CHECKING:
    import torch

    from zoo.models.model import Model
    from zoo.models.sources.hints import ModelHints

_registered: dict[str, Card] = {}
_shown: set[str] = set()  # messages that this process has shown already


def matching(models: str | Sequence[str] = "*", **fields: Any) -> dict[str, Card]:
    """Return the cards of the selected models whose fields have these values, by name; empty if none match.

    Args:
        models: names, patterns, filters or named sets.
        fields: card fields and their values, compared as in `zoo.list`.
    """
    selectors = [models] if isinstance(models, str) else [*models]
    every = dict(sorted(known_models().items()))
    for field, value in fields.items():
        check_field(field, value, every)
    if any(is_pattern(selector) and "@" in selector[1:] for selector in selectors):
        every |= {one: card(one) for name in trained.names() if name in every for one in trained.snapshots(name)}
    try:
        chosen = select(selectors, every, unlisted=is_name)
    except UnknownName as error:
        if error.kind != "model":
            raise
        return {}
    selected = {name: every[name] if name in every else card(name) for name in chosen}
    return {name: entry for name, entry in selected.items() if entry.matches(**fields)}


def is_name(name: str) -> bool:
    """Return whether a full name is a model's: known, a recipe by its grammar, or a library's such as `timm:x`."""
    try:
        card(name)
    except UnknownName:
        return False
    except ZooError:  # the model is known, and something is wrong with it
        return True
    return True


def resolve(name: str) -> str:
    """Return the full name of a typed name.

    >>> resolve("resnet50-cosine"), resolve("resnet50-cosine.imagenet-1k"), resolve("clip-vit-b32")
    ('resnet50-cosine.digits', 'resnet50-cosine.in1k', 'clip-vit-b32')
    """
    if not isinstance(name, str) or not name:
        raise InputError(argument="name", expected="the name of a model", found=name)
    return names.full(name, default_dataset())


def card(name: str) -> Card:
    """Return the card of a name. The first shorthand of a process is explained on standard error.

    >>> card("resnet50-cosine").name, card("resnet50-cosine.in1k").accuracy
    ('resnet50-cosine.digits', 77.9)
    """
    full = resolve(name)
    if ":" in full:
        return _library_card(full)
    model, epoch = names.split_snapshot(full)
    if epoch is not None:
        return trained.snapshot_card(card(model), epoch)
    check_safe(full)
    recipe = names.parse_recipe(full)
    if recipe is not None:
        entry = recipe_cards.card(recipe)
        _explain_shorthand(name, full)
        return entry
    every, sweeps = known_models(), _sweeps()
    found = every.get(full) or sweeps.get(full)
    if found is None:
        raise UnknownName(
            kind="model", name=name, suggestions=suggest(name, [*every, *sweeps]), hint="`zoo list` shows the known models"
        )
    return found


def register(entry: Card | str | Path, name: str | None = None, keep: bool = False, **hints: Any) -> Card:
    """Register a model under a name, for this process or permanently, and return its card.

    A name that is taken, ignoring case, or that is a recipe's name raises an error.

    Args:
        entry: a card, the path of a card file, or with `name` any model: `timm:resnet18`, `file:weights.pth`, ...
        name: the model's name; default: the name on the card.
        keep: whether to write the card to `<home>/cards/NAME.md`, where later processes find it.
        hints: what a bare file does not say, as in `register("file:weights.pth", "mine", architecture="resnet18",
            classes=["cat", "dog"])`; see `zoo.models.sources.hints.ModelHints`.

    >>> from dataclasses import replace
    >>> new = register(replace(card("resnet50-cosine"), name="my-own-resnet50"))
    >>> card("my-own-resnet50").objective
    'cosine'
    >>> del _registered["my-own-resnet50"]  # as the end of the process does
    >>> register(card("clip-vit-b32"))
    Traceback (most recent call last):
    ...
    zoo.errors.InputError: name: a model named 'clip-vit-b32' exists already. Choose another name for 'clip-vit-b32'
    """
    from zoo.models.sources.hints import ModelHints

    if name is not None:
        new = _named_card(entry, name, ModelHints.of(hints))
    elif hints:
        raise InputError(f"is required with {', '.join(hints)}", argument="name")
    else:
        new = entry if isinstance(entry, Card) else cards.read(Path(entry))
    taken = {name.lower(): name for name in [*known_models(), *_sweeps()]}
    for member in new.expand():
        check_safe(member.name)
        if member.name.lower() in taken:
            raise InputError(
                f"a model named {taken[member.name.lower()]!r} exists already",
                argument="name",
                found=member.name,
                hint=f"Choose another name for {member.name!r}",
            )
        check_user_name(member.name)
    if keep:
        return _write_card(new)
    _registered.update({member.name: member for member in new.expand()})
    return new


def _named_card(entry: Card | str | Path, name: str, hints: "ModelHints") -> Card:
    """Return the card of any model under another name, completed with the user's hints."""
    check_user_name(name)
    found = entry if isinstance(entry, Card) else _hinted_card(str(entry), hints)
    if found.source in ("recipe", "own") or found.sweep:
        raise InputError(
            "cannot be renamed", where=found.name, hint=f"Train one under this name with `zoo train RECIPE --name {name}`"
        )
    body = found.body or f"# {name}\n\n{found.architecture} from {found.id}."
    return dataclasses.replace(found, name=name, title=name, body=re.sub(r"\A# .*", f"# {name}", body), path=None)


def _hinted_card(name: str, hints: "ModelHints") -> Card:
    """Return the card of a name, completed with the user's hints, which only `file:PATH` and `onnx:PATH` may have."""
    if not hints.stated:
        return card(name)
    prefix, _, id = name.partition(":")
    source = sources.of_prefix(prefix) if id else None
    if source is None:
        problem = f"{', '.join(hints.stated)} can be given for file:PATH and onnx:PATH only"
        raise InputError(problem, where=name, argument=hints.stated[0])
    return source_of(source).describe_with_hints(id, name, hints)


def _write_card(new: Card) -> Card:
    path = files.make_folder(home.folder("cards")) / f"{new.name}.md"
    if path.exists():
        raise InputError("exists already", where=path, hint="Edit this card, or remove it first")
    text = cards.write(new)
    cards.parse(text, str(path))
    files.write(path, text.encode())
    return dataclasses.replace(new, path=path)


def load(
    name: str,
    pretrained: bool = True,
    device: "str | torch.device | None" = None,
    classes: Sequence[str] | None = None,
    **hints: Any,
) -> "Model":
    """Return the model of a name, ready to embed and predict.

    Args:
        name: the name of a model (`clip-vit-b32`), a recipe (`resnet8-cosine`) or a library's model (`timm:resnet18`).
        pretrained: False gives random weights, the same for the same name, and downloads nothing.
        device: default: the fastest device of this machine.
        classes: class names for a zero-shot head, instead of those of the card; with hints, those of the file.
        hints: what a bare file does not say, as in `load("onnx:mine.onnx", classes=["cat", "dog"], mean=0.5, std=0.5)`; see
            `zoo.models.sources.hints.ModelHints`.

    >>> model = load("resnet8-cosine", pretrained=False, device="cpu")
    >>> model.name, model.classes[:3], model.transform.size
    ('resnet8-cosine.digits', ('0', '1', '2'), (3, 16, 16))
    >>> model.weights_hash == load("resnet8-cosine", pretrained=False, device="cpu").weights_hash
    True
    """
    from zoo.models.sources.hints import ModelHints

    if ModelHints.of(hints).stated:
        return _load(_hinted_card(name, ModelHints.of(hints | {"classes": classes})), pretrained, device)
    entry = card(name)
    if members := parts(entry.name):
        membership.check(entry.name, members, parts)
    return _load(entry, pretrained, device, None if classes is None else tuple(classes))


def _load(
    entry: Card, pretrained: bool, device: "str | torch.device | None", classes: tuple[str, ...] | None = None
) -> "Model":
    if entry.sweep:
        members = ", ".join(member.name for member in entry.sweep)
        raise InputError("stands for several models", where=entry.name, hint=f"Load one of them: {members}")
    source = source_of(entry.source)
    source.prepare(entry, pretrained)  # raises errors such as missing weights before torch is imported
    from zoo.core.devices import choose
    from zoo.models.sources.assembly import Request

    chosen = choose(device)
    loaded = tuple(_load(card(part), pretrained, chosen) for part in source.parts(entry))
    return source.load(Request(entry, pretrained, chosen, classes, loaded))


def parts(name: str) -> Sequence[str]:
    """Return the names of the models that a model consists of: an ensemble's members, a head's base; usually none."""
    entry = card(name)
    return source_of(entry.source).parts(entry)


def availability(name: str) -> Availability:
    """Return where a model's weights are: shipped, local, to download, to train, or never published. Loads no library."""
    return available(card(name))


def available(entry: Card) -> Availability:
    """Return where the weights of a card are; a model with parts is as available as the least available of them."""
    source = source_of(entry.source)
    found = [source.present(entry)]
    if entry.head == "linear" and not head_file(entry).exists():
        found.append("to train")
    try:
        membership.check(entry.name, source.parts(entry), parts)
        found += [available(card(part)) for part in source.parts(entry)]
    except ZooError:  # a member is missing, or the model contains itself
        found.append("never published")
    return max(found, key=get_args(Availability).index)


def made_of(entry: Card) -> list[Card]:
    """Return a card, followed by the cards of all models that it consists of."""
    members = source_of(entry.source).parts(entry)
    if members:
        membership.check(entry.name, members, parts)
    return [entry, *(nested for member in members for nested in made_of(card(member)))]


def known_models() -> dict[str, Card]:
    """Return every model that has a card or was trained on this machine, by name; sweeps are expanded."""
    found = card_index.shipped()
    folded = {name.lower(): name for name in (*found, *_sweeps(shipped_only=True))}
    for entry in card_index.read(home.folder("cards")):
        for member in entry.expand():
            _add_user_model(member, str(entry.path), found, folded)
    found |= _registered
    for name in trained.names():
        recipe = names.parse_recipe(name)
        try:
            entry = recipe_cards.card(recipe) if recipe else trained.describe(trained.path(name)).card
        except ZooError as error:
            _warn(f"{error}; {trained.path(name)} is skipped")
            continue
        if recipe:
            found.setdefault(name, entry)
        elif name not in found:
            _add_user_model(entry, str(trained.path(name)), found, folded)
    return found


def _add_user_model(member: Card, where: str, found: dict[str, Card], folded: dict[str, str]) -> None:
    """Add a user's model, or skip it with one warning if its name is taken."""
    other = folded.get(member.name.lower())
    if other is not None:
        command = member.details.get("command")
        if command is not None and other in found and command == found[other].details.get("command"):
            return  # the same model, which is shipped by now
        _warn(f"{where}: skipped, because {member.name!r} is the name of the model {other!r}; rename it")
    elif names.parse_recipe(member.name) is not None:
        _warn(f"{where}: skipped, because {member.name!r} is the name of a recipe; rename it")
    else:
        folded[member.name.lower()] = member.name
        found[member.name] = member


def _explain_shorthand(name: str, full: str) -> None:
    if name == names.bare(full) and "shorthand" not in _shown:
        _shown.add("shorthand")
        others = [other for other in card_index.shipped() if names.bare(other) == name and other != full]
        more = f"; for another dataset use {' or '.join(others)}" if others else ""
        print(f"zoo: {name} is short for {full}{more}", file=sys.stderr, flush=True)


def _warn(message: str) -> None:
    """Show a warning once per process."""
    if message not in _shown:
        _shown.add(message)
        warnings.warn(message, ZooWarning, stacklevel=4)


def _sweeps(shipped_only: bool = False) -> dict[str, Card]:
    """Return the cards that stand for several models, by name; if two have the same name, the shipped one."""
    folders = [home.folder("cards"), card_index.shipped_folder()][1 if shipped_only else 0 :]
    return {entry.name: entry for folder in folders for entry in card_index.read(folder) if entry.sweep}


def _library_card(name: str) -> Card:
    prefix, _, id = name.partition(":")
    source = sources.of_prefix(prefix)
    if source is None:
        raise names.unknown("library", prefix, sources.prefixes(), list_known=True, where=name)
    if not id:
        raise InputError(argument="name", expected=f"{prefix}:MODEL", found=name)
    return source_of(source).describe(id, name)
