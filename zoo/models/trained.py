"""A trained model as one file: its weights, and in the file's metadata all that is known of how they were made.

One file is replaced in one step, so no kill can leave new weights with an old description. The file's seal is checked
whenever the weights are read; a digest of the tensors and the description stands for them in the outputs. The description
alone is read without the tensors, torch or NumPy, so that `zoo list` can afford it.

How long the training took is in the log beside the file: the file's bytes depend on what was learnt alone.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.cards import card_index
from zoo.cards.card import Card
from zoo.cards.names import snapshot, split_snapshot
from zoo.core import files, typed
from zoo.core import home as home_layout
from zoo.errors import CorruptFile, InputError, ZooError

if TYPE_CHECKING:
    import numpy as np

SCHEMA = 1
LOG = "log.jsonl"  # beside the weights, one line per epoch
_LARGEST_HEADER = 16 * 2**20


@dataclass(frozen=True)
class Record:
    """How a model was made."""

    card: Card
    data: str  # spec of the images learnt from
    fingerprint: str  # of these images
    command: str
    epoch: int  # whose weights these are
    steps: int
    results: dict[str, float]  # accuracy, NLL and class separation on the training and the test images


def path(name: str, home: Path | None = None) -> Path:
    """Where the weights of a model trained here are, or of one of its snapshots, which lie beside them."""
    model, epoch = split_snapshot(name)
    file = "model.safetensors" if epoch is None else f"epoch{epoch}.safetensors"
    return home_layout.folder("weights", home) / model / file


def snapshot_card(card: Card, epoch: int) -> Card:
    """The card of what a model was after an epoch: its own, but for the name and what is said of the finished weights."""
    title = f"{card.title}, after epoch {epoch}"
    details = {key: value for key, value in card.details.items() if key == "classes"}
    name = snapshot(card.name, epoch)
    return replace(card, name=name, title=title, body=f"# {title}", details=details, sha256=None, path=None)


def names() -> list[str]:
    """The models trained here."""
    return sorted(file.parent.name for file in home_layout.folder("weights").glob("*/model.safetensors"))


def snapshots(name: str) -> list[str]:
    """The snapshots of a model trained here, in the order of their epochs."""
    kept = (f"{name}@{file.stem}" for file in path(name).parent.glob("epoch*.safetensors"))
    epochs = {epoch: found for found in kept if (epoch := split_snapshot(found)[1]) is not None}
    return [epochs[epoch] for epoch in sorted(epochs)]


def encode(record: Record, tensors: "Mapping[str, np.ndarray]") -> bytes:
    """The file of a model."""
    from zoo.core import tensorfile

    note: dict[str, Any] = {"schema": SCHEMA, "record": typed.plain(record)}
    return tensorfile.encode(tensors, note | {"digest": _digest(note, tensors)})


def read(file: Path) -> "tuple[Record, dict[str, np.ndarray], str]":
    """Description, tensors and digest of a file; an error that names it where one bit of them changed."""
    from zoo.core import tensorfile

    try:
        tensors, note = tensorfile.read_sealed(file)
    except CorruptFile as error:
        raise CorruptFile(f"{error}; train the model again (`zoo train --restart`)") from error
    return _record(_checked(note, file), file), tensors, str(note.get("digest"))


def describe(file: Path) -> Record:
    """The description of a file, without its tensors."""
    try:
        with open(file, "rb") as stream:
            length = int.from_bytes(stream.read(8), "little")
            header = stream.read(length) if length <= _LARGEST_HEADER else b""
    except OSError as error:
        raise ZooError(f"{file}: cannot be read: {error.strerror or error}") from error
    if len(header) != length or not length:
        raise CorruptFile(f"{file}: not a file of weights; train the model again (`zoo train --restart`)")
    values = files.parse_json(header, f"{file} header")
    metadata = values.get("__metadata__") if isinstance(values, dict) else None
    text = metadata.get("zoo") if isinstance(metadata, dict) else None
    note = files.parse_json(str(text or "null").encode("utf-8", "surrogatepass"), f"{file} metadata")
    return _record(_checked(note, file), file)


def log(folder: Path) -> list[dict[str, Any]]:
    """What each epoch came to, from the folder of the weights; none where the log is gone."""
    file = folder / LOG
    if not file.is_file():
        return []
    try:
        with open(file, "rb") as stream:
            lines = stream.read(files.MAX_JSON).splitlines()
    except OSError as error:
        raise ZooError(f"{file}: cannot be read: {error.strerror or error}") from error
    entries = [files.parse_json(line, f"{file}, line {number}") for number, line in enumerate(lines, 1)]
    for number, entry in enumerate(entries, 1):
        if not isinstance(entry, dict):
            raise CorruptFile(f"{file}, line {number}: expected a JSON object of one epoch")
    return entries


def _checked(note: Any, file: Path) -> dict[str, Any]:
    if not isinstance(note, dict) or not isinstance(note.get("schema"), int):
        raise CorruptFile(f"{file}: does not say how it was made; it was not written by `zoo train`")
    if note["schema"] > SCHEMA:
        found = note["schema"]
        raise InputError(f"{file}: field 'schema' is {found}, this version reads up to {SCHEMA}; upgrade the package")
    return note


def _record(note: Mapping[str, Any], file: Path) -> Record:
    record = typed.build(Record, note.get("record") or {}, str(file), "record")
    return replace(record, card=replace(record.card, path=None))


def _digest(note: Mapping[str, Any], tensors: "Mapping[str, np.ndarray]") -> str:
    parts: list[str | bytes] = [json.dumps(note, sort_keys=True)]
    for name, values in sorted(tensors.items()):
        parts += [f"{name} {values.dtype.str} {list(values.shape)}", values.tobytes()]
    return files.digest(parts)


def head_file(card: Card) -> Path:
    """The linear head of a card: the one that comes with the package, else where one fitted here is kept."""
    shipped = shipped_head(card)
    return shipped if shipped.exists() else local_head(card)


def shipped_head(card: Card) -> Path:
    """Where a head that comes with the package would be."""
    return card_index.shipped_folder() / f"{card.name}.head.safetensors"


def local_head(card: Card) -> Path:
    """Where a head that was fitted here is kept."""
    return home_layout.folder("weights") / card.name / "head.safetensors"
