"""The cards of a folder, read once a process and again when a file changes."""

import os
from pathlib import Path

from zoo import cards
from zoo.cards import Card

_read: dict[str, tuple[tuple[int, int], Card]] = {}


def read(folder: Path) -> list[Card]:
    """The cards in `folder/*.md`, in order of file name; none where there is no such folder."""
    try:
        entries = sorted((entry for entry in os.scandir(folder) if entry.name.endswith(".md")), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return []
    return [_card(entry) for entry in entries]


def _card(entry: os.DirEntry[str]) -> Card:
    found = entry.stat()
    state = (found.st_mtime_ns, found.st_size)
    known = _read.get(entry.path)
    if known is None or known[0] != state:
        known = _read[entry.path] = (state, cards.read(Path(entry.path)))
    return known[1]
