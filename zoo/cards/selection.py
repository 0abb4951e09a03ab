"""How all functions and commands select models.

A selector is a name, a shorthand, a pattern, a field filter or a named set:

    resnet7-cosine.cifar10     that model
    resnet7-cosine             the same model, if its dataset is the default one or only one known model has that name
    'resnet7-*'                every known model that matches, with or without its dataset; * ? and [...] as in a shell
    '*@epoch*'                 snapshots; a pattern without @ matches none
    objective=cosine           only models whose card has this value; accuracy=88..92 is a range
    @cifar10                   the models that a file lists: model_cards/cifar10.set, or <home>/sets/cifar10.set

Several selectors give the union of their names, patterns and sets, in their order, restricted to models that pass every
filter. Filters alone select from all known models. `select` takes the known models as a mapping, so that it works on the
registry, on stored outputs and on runs in memory alike.
"""

import fnmatch
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from zoo.cards import card_index, names
from zoo.cards.card import FIELD_NAMES, Card
from zoo.core import files, home
from zoo.errors import InputError, UnknownName

SET_SUFFIX = ".set"
_MAX_SET_BYTES = 2**20
_FILTER = re.compile(r"([A-Za-z][A-Za-z0-9_]*)=(.+)\Z", re.DOTALL)


def is_pattern(selector: str) -> bool:
    """Return whether a selector may stand for several models by name: a pattern or a named set."""
    return any(mark in selector for mark in "*?[") or selector.startswith("@")


def is_filter(selector: str) -> bool:
    """Return whether a selector is a field filter such as `objective=cosine`."""
    return _FILTER.match(selector) is not None


def matches(name: str, selector: str) -> bool:
    """Return whether a full model name matches a name, shorthand or pattern.

    >>> matches("resnet50-cosine.in1k", "*-cosine.imagenet-1k"), matches("resnet50-cosine.in1k", "*-cosine")
    (True, True)
    >>> matches("resnet8-cosine.digits", "resnet8-cosine"), matches("resnet8-cosine.digits@epoch4", "resnet8-*")
    (True, False)
    """
    if name == selector:
        return True
    if ("@" in name) != ("@" in selector):
        return False
    parts = names.parse_recipe(selector)
    pattern = str(parts) if parts else selector  # with the canonical name of its dataset
    if not is_pattern(selector):
        return name in (pattern, names.full(selector, names.default_dataset()))
    return fnmatch.fnmatchcase(name, pattern) or fnmatch.fnmatchcase(names.bare(name), pattern)


def select(
    selectors: str | Sequence[str],
    known: Iterable[str] | Mapping[str, Card | None],
    *,
    what: str = "model",
    unlisted: Callable[[str], bool] | None = None,
) -> list[str]:
    """Return the full names of the models that selectors stand for, each once.

    Args:
        selectors: one selector or several.
        known: the models to select from, with their cards if there may be filters.
        what: what errors call a model, for example "stored model".
        unlisted: returns whether a name that is not in `known` is still valid, as `timm:resnet18` is.

    >>> select(["*-cosine", "resnet8-softmax"], ["resnet8-softmax.digits", "resnet8-cosine.digits"])
    ['resnet8-cosine.digits', 'resnet8-softmax.digits']
    """
    wanted = [selectors] if isinstance(selectors, str) else list(selectors)
    every = known if isinstance(known, Mapping) else dict.fromkeys(known)
    filters = [parse_filter(selector) for selector in wanted if is_filter(selector)]
    chosen: dict[str, None] = {}
    for selector in wanted:
        if not is_filter(selector):
            chosen |= dict.fromkeys(_select_one(selector, every, what, unlisted))
    if filters and len(filters) == len(wanted):
        chosen = dict.fromkeys(every)
    cards: dict[str, Card] = {name: card for name, card in every.items() if card is not None}
    for field, value in filters:
        check_field(field, value, cards)
    found = [
        name for name in chosen
        if not filters or (name in cards and all(cards[name].matches(**{field: value}) for field, value in filters))
    ]  # fmt: skip
    if not found:
        asked = ", ".join(map(repr, wanted)) or "an empty list"
        raise UnknownName(f"no {what} matches {asked}", kind=what, name=asked)
    return found


def _select_one(
    selector: str, every: Mapping[str, Card | None], what: str, unlisted: Callable[[str], bool] | None
) -> list[str]:
    if selector.startswith("@"):
        # Unknown models are skipped: a set may list more than is stored.
        return [name for member in read_set(selector[1:]) for name in _matching(member, every)]
    if is_pattern(selector):
        found = [name for name in every if matches(name, selector)]
        if not found:
            raise UnknownName(f"no {what} matches {selector!r}", kind=what, name=selector)
        return found
    full = names.full(selector, names.default_dataset())
    if selector in every or full in every:
        return [selector if selector in every else full]
    if unlisted is not None and unlisted(full):
        return [full]
    only = names.among(selector, every)
    if only is not None:
        return [only]
    raise UnknownName(kind=what, name=selector, suggestions=suggest(selector, every))


def _matching(selector: str, every: Mapping[str, Card | None]) -> list[str]:
    """Return the names that `matches` accepts; for a name without wildcards by lookup, which is faster."""
    if is_pattern(selector):
        return [name for name in every if matches(name, selector)]
    parts = names.parse_recipe(selector)
    candidates = (selector, str(parts) if parts else selector, names.full(selector, names.default_dataset()))
    return [name for name in dict.fromkeys(candidates) if name in every]


def suggest(name: str, known: Iterable[str]) -> list[str]:
    """Return known names that are similar to a mistyped one, without their dataset if that is more similar."""
    every = list(known)
    return names.similar(name, dict.fromkeys([*map(names.bare, every), *every]))


def parse_filter(selector: str) -> tuple[str, Any]:
    """Return the field and the value of a filter: a number, a range `low..high`, a list `a,b`, or text.

    >>> parse_filter("accuracy=88..92"), parse_filter("seed=0"), parse_filter("objective=cosine,softmax")
    (('accuracy', (88.0, 92.0)), ('seed', 0), ('objective', ['cosine', 'softmax']))
    """
    match = _FILTER.match(selector)
    if match is None:
        raise InputError(argument="models", expected="FIELD=VALUE in a filter", found=selector)
    field, text = match.groups()
    low, dots, high = text.partition("..")
    if dots:
        return field, (_range_end(low, selector), _range_end(high, selector))
    values = [_value(part) for part in text.split(",")]
    return field, values if len(values) > 1 else values[0]


def check_field(field: str, value: Any, known: Mapping[str, Card]) -> None:
    """Raise an error for a field that no card has, or for an accuracy range that is not in percent."""
    ends = [end for end in value if isinstance(end, (int, float))] if isinstance(value, tuple) else []
    if field == "accuracy" and any(0 < end <= 1 for end in ends):
        raise InputError(argument="accuracy", expected="in percent, such as 74 to 78", found=value)
    fields = FIELD_NAMES | {key for card in known.values() for key in card.hyperparameters}
    if field not in fields:
        raise names.unknown("field", field, fields)


def read_set(name: str, outer: tuple[str, ...] = ()) -> list[str]:
    """Return the names and patterns of a named set, one per line of its file; `#` starts a comment.

    A line `@NAME` stands for the lines of another set.

    Args:
        name: the set.
        outer: the sets that include this one.
    """
    names.check_safe(name, "set")
    paths = [folder / f"{name}{SET_SUFFIX}" for folder in (card_index.shipped_folder(), home.folder("sets"))]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        raise names.unknown("set of models", f"@{name}", sorted(set_names()), list_known=True)
    entries = []
    for number, line in enumerate(files.read_text(path, _MAX_SET_BYTES).splitlines(), 1):
        entry = line.partition("#")[0].strip()
        if is_filter(entry) or entry[1:] in (*outer, name):
            expected = "a name, a pattern or a set that does not include this one"
            raise InputError(where=f"{path}: line {number}", expected=expected, found=entry)
        if entry.startswith("@"):
            entries += read_set(entry[1:], (*outer, name))
        elif entry:
            entries.append(entry)
    return entries


def set_names() -> list[str]:
    """Return the names of the shipped and the user's sets, each with its `@`."""
    folders: list[Path] = [card_index.shipped_folder(), home.folder("sets")]
    paths = [path for folder in folders for path in sorted(folder.glob(f"*{SET_SUFFIX}"))]
    return list(dict.fromkeys(f"@{path.stem}" for path in paths))


def _value(text: str) -> Any:
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return {"true": True, "false": False}.get(text.lower(), text)


def _range_end(text: str, selector: str) -> float | None:
    try:
        return float(text) if text else None
    except ValueError as error:
        raise InputError(argument="models", expected="LOW..HIGH with numbers in a range filter", found=selector) from error
