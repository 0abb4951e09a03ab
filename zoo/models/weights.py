"""Weights files: read without running code in them, and checked for changes.

The hash of a file is recorded at its first use in `<home>/hashes.json` and compared at every later one.
"""

import re
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.cards.card import Card
from zoo.core import files, home
from zoo.errors import CorruptFile, InputError, ZooError, ZooWarning

if TYPE_CHECKING:
    from torch import Tensor

SCHEMA = 1
MAX_ATTEMPTS = 1000  # to get the lock, with 10 ms between them


def verify(card: Card, path: Path) -> str:
    """Return the hash of a weights file; raise an error if it differs from the card's or from that of its first use."""
    digest = files.sha256(path)
    announced = path.resolve().name  # the hub's client names a large file by its announced hash, and checks only its size
    if re.fullmatch("[0-9a-f]{64}", announced) and digest != announced:
        raise CorruptFile(
            f"has the sha256 {digest}, but the hub announced {announced}",
            where=f"{card.name}: {path}",
            hint=f"Delete {path.resolve()} to download it again",
        )
    register = home.hashes()
    key = f"{_key(card)}{path.name}"
    expected, origin = card.sha256, f"the card {card.path or card.name}"
    if expected is None:
        expected, origin = _recorded(register).get(key), f"{register}, recorded at its first use"
    if expected is None:
        _record(register, key, digest)
    elif expected != digest:
        raise CorruptFile(
            f"has the sha256 {digest}, expected {expected} ({origin}): the file is damaged or was replaced",
            where=f"{card.name}: {path}",
            hint=f"Delete {path.resolve()} to download it again; if you trust the new file, remove {register}, which "
            "forgets every recorded hash",
        )
    return digest


def verify_shipped(card: Card, path: Path) -> str:
    """Return the hash of a shipped file; raise an error if it differs from the card's."""
    digest = files.sha256(path)
    if digest != card.sha256:
        raise CorruptFile(
            f"has the sha256 {digest}, but its card says {card.sha256 or 'none'}",
            where=f"{card.name}: {path}",
            hint="Install the package again",
        )
    return digest


def read_tensors(path: Path, name: str) -> "dict[str, Tensor]":
    """Return the state dictionary in a weights file of the model `name`, without running code that the file may contain.

    torch's own error for an unsafe file advises the user to read it unsafely, so that error is replaced.
    """
    from zoo.core import state_dicts

    try:
        return state_dicts.read(path, name)
    except CorruptFile as error:
        if "weights_only" not in error.problem:
            raise
        raise unsafe_file(path, name) from error


def unsafe_file(path: Path, name: str) -> InputError:
    """Return the error about a file that torch can read only by running the code in it."""
    return InputError(
        "is not a plain state dictionary (it is TorchScript, or of an old format) and could run code, so it is not read",
        where=f"{name}: {path}",
        hint="Save its state dictionary with safetensors",
    )


def recorded(card: Card) -> dict[str, str]:
    """Return the recorded hashes of a card's files by file name; empty if the register is missing or unreadable."""
    try:
        hashes = files.read_json(home.hashes(), SCHEMA).get("hashes")
    except ZooError:
        return {}
    key = _key(card)
    every = hashes if isinstance(hashes, dict) else {}
    return {name.removeprefix(key): str(value) for name, value in sorted(every.items()) if name.startswith(key)}


def _key(card: Card) -> str:
    return f"{card.source}:{card.id or card.name}@{card.revision or 'latest'}/"


def _recorded(register: Path) -> dict[str, Any]:
    if not register.exists():
        return {}
    try:
        hashes = files.read_json(register, SCHEMA).get("hashes")
        if not isinstance(hashes, dict):
            raise CorruptFile("field 'hashes' must be a mapping", where=register)
    except CorruptFile as error:
        moved = files.set_aside(register)
        error.hint = f"It was set aside as {moved}; hashes are recorded again from the next use on"
        raise
    return hashes


def _record(register: Path, key: str, value: str) -> None:
    """Add an entry. Concurrent processes take turns; on a file system without locks the last one wins."""
    try:
        files.make_folder(register.parent)
        for _ in range(MAX_ATTEMPTS):
            with files.lock(register.with_suffix(".lock")) as first:
                if first:
                    files.write_json(register, {"schema": SCHEMA, "hashes": _recorded(register) | {key: value}})
                    return
            time.sleep(0.01)
        raise ZooError("other processes kept it locked", where=register)
    except InputError:
        raise
    except ZooError as error:
        message = f"the hash of {key} was not recorded, so a later change of the file would not be noticed: {error}"
        warnings.warn(message, ZooWarning, stacklevel=4)
