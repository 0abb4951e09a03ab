"""Where a model's outputs lie, and what makes them that model's: the folder's name carries the digest of its identity.

`<home>/outputs/<dataset>-<fingerprint>/<model>-<digest>/` holds `manifest.json`, the shards `00000.safetensors`, ... and,
once calibrated, `calibration.json`, the record of the temperatures found. Another model, weights, transform, precision,
label set or dataset gives another digest and so another folder: outputs are never taken for those of something else.
"""

import dataclasses
import functools
import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zoo.cards import card as cards
from zoo.cards.card import Card
from zoo.core import files, typed
from zoo.core import home as home_layout
from zoo.core.types import Link
from zoo.datasets import ResizeMode
from zoo.errors import CorruptFile, InputError
from zoo.outputs.outputs import Kind

SCHEMA = 1
SHARD_ROWS = 4096
MANIFEST = "manifest.json"
CALIBRATION = "calibration.json"
IMPORTED = "imported"  # stands for the fingerprint of a dataset that was never seen here
_UNSAFE = re.compile(r"[^A-Za-z0-9_+-]+")


@dataclass(frozen=True)
class Identity:
    """What outputs are of. Every field but the last three enters the digest."""

    name: str
    kind: Kind
    link: Link
    classes: tuple[str, ...]
    weights: str  # checksum of the weights, or how they were made
    transform: str  # fingerprint of the preprocessing
    precision: str
    embeddings: bool
    fingerprint: str  # of the dataset
    examples: int  # of the dataset, undecodable ones included
    shard_rows: int = SHARD_ROWS
    label_classes: tuple[str, ...] | None = None  # the dataset's, where the model predicts others
    predicts: str = ""  # digest of the model's own classes, in its own order
    dataset: str | None = None  # its spec
    dataset_name: str = "unnamed"
    card: str | None = None  # the card's text

    def __post_init__(self) -> None:
        if not self.name or len(self.name.encode()) > 300 or any(ord(c) < 32 for c in self.name):
            raise InputError(f"name {self.name[:60]!r}: expected 1 to 300 bytes without control characters")
        if self.shard_rows < 1 or self.examples < 0:
            raise InputError(f"{self.examples} examples in shards of {self.shard_rows}: expected a positive number of rows")

    def digest(self) -> str:
        return self._digest

    @functools.cached_property
    def _digest(self) -> str:
        apart = ("dataset", "dataset_name", "card")
        names = [field.name for field in dataclasses.fields(self) if field.name not in apart]
        return files.digest([json.dumps({name: getattr(self, name) for name in names}, sort_keys=True)])

    def folder(self, home: Path | None) -> Path:
        dataset = f"{slug(self.dataset_name)}-{self.fingerprint[:12]}"
        return outputs_folder(home) / dataset / f"{slug(self.name)}-{self.digest()[:8]}"

    @property
    def resize_mode(self) -> ResizeMode:
        """How much of the images the model saw."""
        return resize_mode(self.transform)

    @property
    def shards(self) -> int:
        return -(-self.examples // self.shard_rows)

    def rows(self, shard: int) -> range:
        """The examples of a shard."""
        return range(shard * self.shard_rows, min((shard + 1) * self.shard_rows, self.examples))


def with_resize_mode(transform: str, resize_mode: ResizeMode) -> str:
    """The fingerprint of a model's transform that shows as much of an image as `resize_mode` says."""
    return transform if resize_mode == "evaluation" else f"{transform}-{resize_mode}"


def resize_mode(transform: str) -> ResizeMode:
    """The reverse of `framed`."""
    return "transfer" if transform.endswith(with_resize_mode("", "transfer")) else "evaluation"


def outputs_folder(home: Path | None) -> Path:
    return home_layout.folder("outputs", home)


def slug(text: str) -> str:
    """A readable part of a folder's name; the digest beside it keeps different names apart, so this may lose letters.

    >>> slug("open_clip:ViT-B-32/openai"), slug("../../etc")
    ('open_clip-ViT-B-32-openai', 'etc')
    """
    return _UNSAFE.sub("-", text).strip("-")[:80] or "x"


def card_text(card: Card) -> str:
    """A card as a manifest keeps it: without its name, which may be one (`timm:resnet18`) that no card's file can have."""
    return cards.write(dataclasses.replace(card, name="model"))


def card_from(text: str, name: str, where: str) -> Card:
    """The card that `card_text` wrote."""
    return dataclasses.replace(cards.parse(text, where), name=name)


def shard_name(shard: int) -> str:
    return f"{shard:05d}.safetensors"


def manifest(identity: Identity, shards: list[dict[str, Any]], undecodable: list[dict[str, str]]) -> dict[str, Any]:
    return {
        "schema": SCHEMA,
        "identity": dataclasses.asdict(identity),
        "digest": identity.digest(),
        "shards": shards,
        "undecodable": undecodable,
    }


def read_manifest(path: Path) -> tuple[Identity, dict[str, Any]]:
    """What the manifest at `path` says, checked against the digest it carries."""
    value = files.read_json(path, SCHEMA)
    try:
        identity = typed.build(Identity, value["identity"], str(path), "identity")
        whole = value["digest"] == identity.digest() and len(value["shards"]) == identity.shards
        whole = whole and isinstance(value["undecodable"], list)
        named = all(entry["file"] == shard_name(i) and len(entry["sha256"]) == 64 for i, entry in enumerate(value["shards"]))
    except (KeyError, TypeError, AttributeError, InputError) as error:
        reason = f"{type(error).__name__}: {error}" if not isinstance(error, InputError) else str(error)
        raise CorruptFile(f"{path}: not a manifest of outputs: {reason.removeprefix(f'{path}: ')}") from error
    if not (whole and named):
        raise CorruptFile(f"{path}: its contents do not match its own digest")
    return identity, value
