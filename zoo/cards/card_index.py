"""The cards of a folder: read once per process, and kept between processes in the form that is quickest to read.

Two hundred cards take YAML a tenth of a second, which `zoo list` cannot spare. `<home>/cache/cards.json` holds what was
read, with each file's size and time of change; a card that changed is read anew, and a cache that is damaged, or of another
version, is as good as none. A card that cannot be read is named in one warning and left out: it is not the end of every
command.
"""

import contextlib
import dataclasses
import os
import warnings
from pathlib import Path
from typing import Any

from zoo.cards import card as cards
from zoo.cards.card import Card
from zoo.core import files, home, typed
from zoo.errors import ZooError, ZooWarning

_SCHEMA = 1
_read: dict[str, tuple[list[int], Card | None]] = {}  # by path: size and time of change, the card or None for a bad one
_expanded: list[Any] = [[], {}]  # the shipped cards that were last taken apart, and their models


def shipped_folder() -> Path:
    """The cards inside the installed package, or beside it in a checkout."""
    package = Path(__file__).parent.parent
    inside = package / "model_cards"
    return inside if inside.is_dir() else package.parent / "model_cards"


def shipped() -> dict[str, Card]:
    """Every shipped model by name, sweeps taken apart."""
    found = read(shipped_folder())
    if [id(card) for card in found] != [id(card) for card in _expanded[0]]:
        _expanded[:] = found, {member.name: member for card in found for member in card.expand()}
    return dict(_expanded[1])


def read(folder: Path) -> list[Card]:
    """The good cards in `folder/*.md`, in order of file name; none where there is no such folder."""
    try:
        entries = sorted((entry for entry in os.scandir(folder) if entry.name.endswith(".md")), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
    states = {entry.path: [entry.stat().st_mtime_ns, entry.stat().st_size] for entry in entries}
    if any(path not in _read or _read[path][0] != state for path, state in states.items()):
        kept = _load(folder)
        for path, state in states.items():
            _keep(path, state, kept)
        if any(kept.get(path, [None])[0] != state for path, state in states.items() if _read[path][1]):
            _save(folder, states)
    return [card for path in states if (card := _read[path][1])]


def _keep(path: str, state: list[int], kept: dict[str, Any]) -> None:
    if path in _read and _read[path][0] == state:
        return
    try:
        if path in kept and kept[path][0] == state:
            card = dataclasses.replace(typed.build(Card, kept[path][1], path, "zoo"), path=Path(path))
        else:
            card = cards.read(Path(path))
        _read[path] = (state, card)
    except ZooError as error:
        warnings.warn(f"{error}; this card is left out", ZooWarning, stacklevel=4)
        _read[path] = (state, None)


def _load(folder: Path) -> dict[str, Any]:
    with contextlib.suppress(ZooError):
        stored = files.read_json(_file(folder), _SCHEMA)
        if stored.get("reader") == _reader() and isinstance(stored.get("cards"), dict):
            return dict(stored["cards"])
    return {}


def _save(folder: Path, states: dict[str, list[int]]) -> None:
    good = {path: (state, card) for path, state in states.items() if (card := _read[path][1])}
    entries = {path: [state, typed.plain(dataclasses.replace(card, path=None))] for path, (state, card) in good.items()}
    with contextlib.suppress(ZooError):  # a home that cannot be written costs a moment, nothing else
        files.make_folder(_file(folder).parent)
        files.write_json(_file(folder), {"schema": _SCHEMA, "reader": _reader(), "cards": entries})


def _file(folder: Path) -> Path:
    return home.folder("cache") / f"cards-{files.digest([str(folder.absolute())])[:12]}.json"


def _reader() -> list[int]:
    """What tells one version of the reading code from another."""
    return [os.stat(str(module.__file__)).st_mtime_ns for module in (cards, typed)]
