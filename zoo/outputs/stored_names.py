"""The names under which outputs are stored or shipped, read without torch, shards or checksums."""

import contextlib
import warnings
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from zoo.cards import card_index
from zoo.cards.card import Card
from zoo.errors import ZooError, ZooWarning
from zoo.outputs.store import layout

REINSTALL = "Install the package again: pip install --force-reinstall model-zoo-diversity"


@dataclass(frozen=True)
class Stored:
    """Stored outputs of one model on one dataset."""

    name: str
    dataset: str
    kind: str
    examples: int
    classes: int
    path: Path
    text: str | None  # of the model's card, if it was stored with one

    @cached_property
    def card(self) -> Card | None:
        """The model's card. It is parsed on first use, since there may be hundreds."""
        return None if self.text is None else layout.card_from(self.text, self.name, str(self.path / layout.MANIFEST))


def stored_names() -> dict[str, list[Stored]]:
    """Return all stored outputs by model name. Runs with a damaged manifest are left out; `zoo verify` reports them."""
    found: dict[str, list[Stored]] = {}
    for path, one in layout.current(layout.finished_runs(None, lambda error: None)):
        entry = Stored(one.name, one.dataset or "unnamed", one.kind, one.examples, len(one.classes), path, one.card)
        found.setdefault(one.name, []).append(entry)
    return found


def shipped_names(spec: str) -> set[str]:
    """Return the models whose outputs on a dataset are shipped; only the headers of the files are read."""
    return {model["name"] for note in shipped_notes().values() if note["dataset"] == spec for model in note["models"]}


def shipped_notes() -> dict[Path, dict[str, Any]]:
    """Return the metadata of every shipped file of outputs. A damaged file is skipped with a warning."""
    paths = sorted(card_index.shipped_folder().glob("*.outputs.safetensors"))
    return {path: note for path in paths if (note := _read_note(path)) is not None}


@cache
def _read_note(path: Path) -> dict[str, Any] | None:
    from zoo.core import tensorfile

    with contextlib.suppress(ZooError):
        note = tensorfile.read_note(path.resolve(), check=False)
        if isinstance(note, dict) and isinstance(note.get("models"), list):
            return note
    warnings.warn(f"{path}: is damaged, so shipped outputs are missing. {REINSTALL}", ZooWarning, stacklevel=4)
    return None
