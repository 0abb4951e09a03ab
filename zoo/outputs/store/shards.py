"""Shards: each file holds the outputs of up to `shard_rows` consecutive examples, and its own checksum.

Because each shard can be checked by itself, several processes or machines that share only the folder may write the shards of
one run. Any of them that finds all shards finished writes the manifest; its contents are always the same.
"""

import itertools
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from zoo.core import files, tensorfile
from zoo.errors import CorruptFile
from zoo.outputs.store.layout import SCHEMA, Identity, shard_name


@dataclass(frozen=True)
class Shard:
    """Outputs of R consecutive examples, without the undecodable ones."""

    ids: list[str]  # [R]
    values: np.ndarray | None  # [R, ...] of the run's kind; None for a run of embeddings only
    embeddings: np.ndarray | None = None  # [R, D]
    labels: np.ndarray | None = None  # [R]
    targets: np.ndarray | None = None  # [R, K]
    undecodable: list[dict[str, str]] = field(default_factory=list)  # `id` and `reason` of each undecodable example

    def __len__(self) -> int:
        return len(self.ids)


def write(folder: Path, identity: Identity, number: int, shard: Shard) -> None:
    """Write shard `number` of a run, in one step."""
    text = [row_id.encode("utf-8", "surrogateescape") for row_id in shard.ids]
    optional = {
        identity.kind: shard.values, "embeddings": shard.embeddings, "labels": shard.labels, "targets": shard.targets,
    }  # fmt: skip
    tensors = {name: array for name, array in optional.items() if array is not None}
    tensors["ids"] = np.frombuffer(b"".join(text), np.uint8)
    tensors["id_ends"] = np.cumsum([len(t) for t in text], dtype=np.int64)
    note: dict[str, Any] = {
        "schema": SCHEMA, "run": identity.digest, "shard": number, "undecodable": shard.undecodable,
    }  # fmt: skip
    files.write(folder / shard_name(number), tensorfile.encode(tensors, note))


def read(folder: Path, identity: Identity, number: int, check: bool) -> Shard:
    """Return shard `number`, memory-mapped; `check` compares every byte with the checksum that the file carries."""
    path = folder / shard_name(number)
    tensors, note = _load(path, check)
    if note.get("run") != identity.digest or note.get("shard") != number:
        raise CorruptFile(f"belongs to another run or position; expected shard {number} of {identity.name}", where=path)
    shard = Shard(
        ids=_ids(tensors, path),
        values=tensors.get(identity.kind),
        embeddings=tensors.get("embeddings"),
        labels=tensors.get("labels"),
        targets=tensors.get("targets"),
        undecodable=note["undecodable"],
    )
    rows = len(identity.rows(number)) - len(shard.undecodable)
    for name, array in tensors.items():
        if name != "ids" and (array.ndim == 0 or len(array) != rows):
            raise CorruptFile(f"{name!r} has shape {list(array.shape)}", where=path, expected=f"{rows} rows")
    for name in (identity.kind, *(["embeddings"] if identity.embeddings else [])):
        if name not in tensors:
            raise CorruptFile(f"holds no {name}", where=path)
    return shard


def check_alone(path: Path) -> None:
    """Raise CorruptFile unless the shard at `path` matches its own checksum."""
    _load(path, check=True)


def _load(path: Path, check: bool) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
    tensors, note = tensorfile.read_sealed(path, check)
    images = note.get("undecodable") if isinstance(note, dict) else None
    if not isinstance(images, list) or not all(isinstance(image, dict) and "id" in image for image in images):
        raise CorruptFile("has no metadata of a shard", where=path)
    return tensors, note


def _ids(tensors: dict[str, np.ndarray], path: Path) -> list[str]:
    if "ids" not in tensors or "id_ends" not in tensors:
        raise CorruptFile("holds no ids", where=path)
    text, ends = tensors["ids"].tobytes(), tensors["id_ends"].tolist()
    if ends and (ends[-1] != len(text) or ends[0] < 0 or any(a > b for a, b in itertools.pairwise(ends))):
        raise CorruptFile("ids end beyond their text", where=path)
    return [text[a:b].decode("utf-8", "surrogateescape") for a, b in zip([0, *ends], ends, strict=False)]
