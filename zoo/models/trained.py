"""Weights trained on this machine: one file per model with its weights and, as metadata, the record of its training.

Replacing one file is atomic, so a killed process cannot leave new weights with an old record. The file's checksum is
verified whenever the weights are read; a digest of tensors and record identifies them in stored outputs. The record alone
is read without tensors, torch or NumPy, so that `zoo list` stays fast.

The time that training took is in the log next to the file, so that the file's bytes depend on the result alone.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.cards import card_index
from zoo.cards.card import Card, Training
from zoo.cards.names import snapshot, split_snapshot
from zoo.core import files, typed
from zoo.core import home as home_layout
from zoo.errors import CorruptFile, InputError, ZooError

if TYPE_CHECKING:
    import numpy as np

SCHEMA = 1
LOG = "log.jsonl"  # next to the weights, one line per epoch
_MAX_HEADER = 16 * 2**20
_RETRAIN = "Train the model again with `zoo train --restart`"


@dataclass(frozen=True)
class Record:
    """How a model was trained."""

    card: Card
    data: str  # spec of the training images
    fingerprint: str  # of the training images
    command: str
    epoch: int  # after which these weights were saved
    steps: int
    results: dict[str, float]  # accuracy, NLL and class separation on the training and the test images


def path(name: str, home: Path | None = None) -> Path:
    """Return the weights file of a model trained on this machine, or of one of its snapshots in the same folder."""
    model, epoch = split_snapshot(name)
    file = "model.safetensors" if epoch is None else f"epoch{epoch}.safetensors"
    return home_layout.folder("weights", home) / model / file


def snapshot_card(card: Card, epoch: int) -> Card:
    """Return the card of a model's snapshot after an epoch: the model's card without results of the final weights."""
    title = f"{card.title}, after epoch {epoch}"
    details = {key: value for key, value in card.details.items() if key == "classes"}
    name = snapshot(card.name, epoch)
    return replace(card, name=name, title=title, body=f"# {title}", details=details, sha256=None, path=None)


def names() -> list[str]:
    """Return the names of the models trained on this machine."""
    return sorted(file.parent.name for file in home_layout.folder("weights").glob("*/model.safetensors"))


def snapshots(name: str) -> list[str]:
    """Return the names of a trained model's snapshots, in the order of their epochs."""
    stored = (f"{name}@{file.stem}" for file in path(name).parent.glob("epoch*.safetensors"))
    epochs = {epoch: one for one in stored if (epoch := split_snapshot(one)[1]) is not None}
    return [epochs[epoch] for epoch in sorted(epochs)]


def encode(record: Record, tensors: "Mapping[str, np.ndarray]") -> bytes:
    """Return the bytes of a weights file."""
    from zoo.core import tensorfile

    note: dict[str, Any] = {"schema": SCHEMA, "record": typed.plain(record)}
    return tensorfile.encode(tensors, note | {"digest": _digest(note, tensors)})


def read(file: Path) -> "tuple[Record, dict[str, np.ndarray], str]":
    """Return record, tensors and digest of a weights file; raise an error if its checksum does not match."""
    from zoo.core import tensorfile

    try:
        tensors, note = tensorfile.read_sealed(file)
    except CorruptFile as error:
        error.hint = _RETRAIN
        raise
    return _record(note, file), tensors, str(note.get("digest"))


def describe(file: Path) -> Record:
    """Return the record of a weights file without reading its tensors."""
    try:
        with open(file, "rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            header = stream.read(length) if length <= _MAX_HEADER else b""
    except OSError as error:
        raise ZooError(f"cannot be read: {error.strerror or error}", where=file) from error
    if len(header) != length or not length:
        raise CorruptFile("is not a weights file", where=file, hint=_RETRAIN)
    values = files.parse_json(header, f"{file} header")
    metadata = values.get("__metadata__") if isinstance(values, dict) else None
    text = metadata.get("zoo") if isinstance(metadata, dict) else None
    return _record(files.parse_json(str(text or "null").encode("utf-8", "surrogatepass"), f"{file} metadata"), file)


def changes(stored: Training, wanted: Training) -> list[str]:
    """Return how the training of a stored model differs from another, ignoring the precision: it only changes rounding."""
    precision = {key: value for key, value in stored.hyperparameters.items() if key == "precision"}
    wanted = replace(wanted, hyperparameters=wanted.hyperparameters | precision)
    return typed.differences(typed.plain(stored), typed.plain(wanted))


def log(folder: Path) -> list[dict[str, Any]]:
    """Return the results of each epoch from the log in a folder of weights; empty without a log."""
    file = folder / LOG
    if not file.is_file():
        return []
    try:
        with open(file, "rb") as stream:
            lines = stream.read(files.MAX_JSON).splitlines()
    except OSError as error:
        raise ZooError(f"cannot be read: {error.strerror or error}", where=file) from error
    entries = [files.parse_json(line, f"{file}, line {number}") for number, line in enumerate(lines, 1)]
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, dict):
            raise CorruptFile(where=f"{file}, line {number}", expected="a JSON object with the results of one epoch")
    return entries


def _record(note: Any, file: Path) -> Record:
    if not isinstance(note, dict) or not isinstance(note.get("schema"), int):
        raise CorruptFile("has no record of its training, so `zoo train` did not write it", where=file)
    if note["schema"] > SCHEMA:
        raise InputError(
            f"field 'schema' is {note['schema']}, this version reads up to {SCHEMA}", where=file, hint="Upgrade the package"
        )
    record = typed.build(Record, note.get("record") or {}, str(file), "record")
    return replace(record, card=replace(record.card, path=None))


def _digest(note: Mapping[str, Any], tensors: "Mapping[str, np.ndarray]") -> str:
    parts: list[str | bytes] = [json.dumps(note, sort_keys=True)]
    for name, values in sorted(tensors.items()):
        parts += [f"{name} {values.dtype.str} {list(values.shape)}", values.tobytes()]
    return files.digest(parts)


def head_file(card: Card) -> Path:
    """Return the path of a card's linear head: the shipped one if it exists, else the local one."""
    shipped = shipped_head(card)
    return shipped if shipped.exists() else local_head(card)


def shipped_head(card: Card) -> Path:
    """Return the path that a shipped linear head of this card has or would have."""
    return card_index.shipped_folder() / f"{card.name}.head.safetensors"


def local_head(card: Card) -> Path:
    """Return the path of the linear head that was, or would be, fitted on this machine for this card."""
    return home_layout.folder("weights") / card.name / "head.safetensors"
