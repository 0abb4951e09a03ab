"""Weights stay the same: the hash of a file is recorded at its first use in `<home>/hashes.json` and checked ever after.

So weights which change, on the hub or on the disk, are noticed.
"""

import re
import time
import warnings
from pathlib import Path
from typing import Any

from zoo.cards.card import Card
from zoo.core import files, home
from zoo.errors import CorruptFile, InputError, ZooError, ZooWarning

SCHEMA = 1
TURNS = 1000  # a hundredth of a second each, to wait for other processes


def verify(card: Card, path: Path) -> str:
    """The hash of a card's weights file; an error if it is not the card's or the one recorded at first use."""
    found = files.sha256(path)
    promised = path.resolve().name  # the hub's client names a large file by its announced hash, and checks its size only
    if re.fullmatch("[0-9a-f]{64}", promised) and found != promised:
        raise CorruptFile(
            f"{card.name}: {path} has the sha256 {found}, but the hub announced {promised}; the file was damaged on its way "
            f"or here: delete {path.resolve()} to fetch it again"
        )
    register = _register()
    key = f"{_key(card)}{path.name}"
    expected, said_by = card.sha256, f"the card {card.path or card.name}"
    if expected is None:
        expected, said_by = _recorded(register).get(key), f"{register}, where its first use is recorded"
    if expected is None:
        _record(register, key, found)
    elif expected != found:
        raise CorruptFile(
            f"{card.name}: {path} has the sha256 {found}, expected {expected} by {said_by}; the file is damaged or was "
            f"replaced: delete {path.resolve()} to fetch it again, or, if you trust the new one, remove {register}, "
            "which forgets every recorded hash"
        )
    return found


def recorded(card: Card) -> dict[str, str]:
    """The hashes recorded for a card's own files, by file name; none where the register cannot be read."""
    try:
        hashes = files.read_json(_register(), SCHEMA).get("hashes")
    except ZooError:
        return {}
    key = _key(card)
    own = hashes if isinstance(hashes, dict) else {}
    return {name.removeprefix(key): str(value) for name, value in sorted(own.items()) if name.startswith(key)}


def _register() -> Path:
    return home.hashes()


def _key(card: Card) -> str:
    return f"{card.source}:{card.id or card.name}@{card.revision or 'latest'}/"


def _recorded(register: Path) -> dict[str, Any]:
    if not register.exists():
        return {}
    try:
        hashes = files.read_json(register, SCHEMA).get("hashes")
        if not isinstance(hashes, dict):
            raise CorruptFile(f"{register}: field 'hashes' must be a mapping")
    except CorruptFile as error:
        moved = files.set_aside(register)
        raise CorruptFile(f"{error}; set aside as {moved}: hashes are recorded anew from the next use on") from error
    return hashes


def _record(register: Path, key: str, value: str) -> None:
    """Add an entry. Processes that add one at the same moment take turns; where locks do not work, the last one wins."""
    try:
        files.make_folder(register.parent)
        for _ in range(TURNS):
            with files.lock(register.with_suffix(".lock")) as first:
                if first:
                    files.write_json(register, {"schema": SCHEMA, "hashes": _recorded(register) | {key: value}})
                    return
            time.sleep(0.01)
        raise ZooError(f"{register}: other processes are writing to it all the time")
    except InputError:
        raise
    except ZooError as error:
        warnings.warn(f"the hash of {key} is not recorded, so a change of these weights would go unseen: {error}",
                      ZooWarning, stacklevel=4)  # fmt: skip
