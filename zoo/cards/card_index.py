"""The cards of a folder, read once per process and cached between processes.

Parsing two hundred cards as YAML takes 0.1 s, too long for `zoo list`. So `<home>/cache/cards-*.json` holds the parsed cards
with the size and modification time of each file. A changed card is parsed again. A cache that is damaged, or was written by
another version, is ignored. A card that cannot be read is skipped with a warning, so that other models stay usable.
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
_read: dict[str, tuple[list[int], Card | None]] = {}  # by path: modification time and size; the card, None for a bad one
_expanded: list[Any] = [[], {}]  # the shipped cards that were last expanded, and their models


def shipped_folder() -> Path:
    """Return the folder of shipped cards: inside the installed package, or beside it in a checkout."""
    package = Path(__file__).parent.parent
    inside = package / "model_cards"
    return inside if inside.is_dir() else package.parent / "model_cards"


def shipped() -> dict[str, Card]:
    """Return every shipped model by name, with sweeps expanded."""
    shipped_cards = read(shipped_folder())
    if [id(card) for card in shipped_cards] != [id(card) for card in _expanded[0]]:
        _expanded[:] = shipped_cards, {member.name: member for card in shipped_cards for member in card.expand()}
    return dict(_expanded[1])


def read(folder: Path) -> list[Card]:
    """Return the readable cards `folder/*.md`, except README.md, in order of file name; none if there is no folder."""
    try:
        entries = sorted((entry for entry in os.scandir(folder) if entry.name.endswith(".md")), key=lambda entry: entry.name)
        entries = [entry for entry in entries if entry.name != "README.md"]
    except (FileNotFoundError, NotADirectoryError):
        return []
    states = {entry.path: [entry.stat().st_mtime_ns, entry.stat().st_size] for entry in entries}
    if any(path not in _read or _read[path][0] != state for path, state in states.items()):
        cached = _load_cache(folder)
        for path, state in states.items():
            _read_card(path, state, cached)
        if any(cached.get(path, [None])[0] != state for path, state in states.items() if _read[path][1]):
            _save_cache(folder, states)
    return [card for path in states if (card := _read[path][1])]


def _read_card(path: str, state: list[int], cached: dict[str, Any]) -> None:
    if path in _read and _read[path][0] == state:
        return
    try:
        if path in cached and cached[path][0] == state:
            card = dataclasses.replace(typed.build(Card, cached[path][1], path, "zoo"), path=Path(path))
        else:
            card = cards.read(Path(path))
        _read[path] = (state, card)
    except ZooError as error:
        warnings.warn(f"{error}; this card is skipped", ZooWarning, stacklevel=4)
        _read[path] = (state, None)


def _load_cache(folder: Path) -> dict[str, Any]:
    with contextlib.suppress(ZooError):
        stored = files.read_json(_cache_file(folder), _SCHEMA)
        if stored.get("reader") == _version() and isinstance(stored.get("cards"), dict):
            return dict(stored["cards"])
    return {}


def _save_cache(folder: Path, states: dict[str, list[int]]) -> None:
    good = {path: (state, card) for path, state in states.items() if (card := _read[path][1])}
    entries = {path: [state, typed.plain(dataclasses.replace(card, path=None))] for path, (state, card) in good.items()}
    with contextlib.suppress(ZooError):  # without a writable home the cards are parsed every time
        files.make_folder(_cache_file(folder).parent)
        files.write_json(_cache_file(folder), {"schema": _SCHEMA, "reader": _version(), "cards": entries})


def _cache_file(folder: Path) -> Path:
    return home.folder("cache") / f"cards-{files.digest([str(folder.absolute())])[:12]}.json"


def _version() -> list[int]:
    """Return numbers that change with the code that reads cards."""
    return [os.stat(str(module.__file__)).st_mtime_ns for module in (cards, typed)]
