"""Facts about models, stored so that outputs can be looked up without loading a model.

Weights are hashed when a model is loaded. The hash is stored under everything that could change the weights unnoticed: the
card, the versions of libraries, and the size and times of the model's files. If any of these changes, the model is loaded
and hashed again; its outputs are computed again only if the hash differs.
"""

import importlib.metadata
import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.cards import card as cards
from zoo.cards.card import Card
from zoo.core import files
from zoo.core import home as home_layout
from zoo.core.types import Link
from zoo.errors import ZooError
from zoo.models import registry
from zoo.models import weights as weights_register
from zoo.models.sources import source as source_of
from zoo.models.trained import head_file
from zoo.outputs.store.layout import RANDOM, card_text

if TYPE_CHECKING:
    from zoo.models.model import Model

SCHEMA = 1
_LIBRARIES = ("torch", "torchvision", "timm", "open_clip_torch", "transformers", "onnxruntime", "model-zoo-diversity")


@dataclass(frozen=True)
class Facts:
    """What enters the identity of a model's outputs."""

    name: str
    weights: str  # hash
    transform: str  # fingerprint
    classes: tuple[str, ...]  # empty for an encoder without a head
    link: Link
    card: str  # text of the card
    embeds: bool
    bytes: int  # of the parameters and buffers


def of_model(model: "Model", pretrained: bool = True) -> Facts:
    """Return the facts of a loaded model; the hash of random weights is marked."""
    mark = "" if pretrained else RANDOM
    card = card_text(model.card)
    return Facts(
        model.card.name, mark + model.weights_hash, model.transform.fingerprint, model.classes, model.card.link, card,
        model.embeds, sum(tensor.nbytes for tensor in itertools.chain(model.network.parameters(), model.network.buffers())),
    )  # fmt: skip


def load(card: Card, pretrained: bool, classes: Sequence[str] | None, home: Path | None) -> Facts | None:
    """Return the stored facts of a model, or None if there are none, or anything they depend on has changed."""
    try:
        record = files.read_json(_path(card, pretrained, classes, home), SCHEMA)
        facts = record["facts"]
        return Facts(**{**facts, "classes": tuple(facts["classes"])})
    except (ZooError, KeyError, TypeError):  # absent or damaged: the model is loaded instead
        return None


def save(facts: Facts, card: Card, pretrained: bool, classes: Sequence[str] | None, home: Path | None) -> None:
    """Store the facts of a model."""
    path = _path(card, pretrained, classes, home)
    files.make_folder(path.parent)
    files.sweep(path.parent)
    files.write_json(path, {"schema": SCHEMA, "facts": asdict(facts)})


def _path(card: Card, pretrained: bool, classes: Sequence[str] | None, home: Path | None) -> Path:
    request = json.dumps([card.name, pretrained, None if classes is None else [*classes], cards.write(card)])
    key = files.digest([request, *_versions(), *_stamps(card)])
    return home_layout.folder("models", home) / f"{key[:32]}.json"


def _versions() -> list[str]:
    found = []
    for library in _LIBRARIES:
        try:
            found.append(f"{library} {importlib.metadata.version(library)}")
        except importlib.metadata.PackageNotFoundError:
            found.append(f"{library} absent")
    return found


def _stamps(card: Card) -> list[str]:
    """Return what changes with the weights: recorded hashes, and size and times of the files of all models involved."""
    home, stamps = home_layout.root(), []
    for part in registry.made_of(card):
        stamps += [f"{part.name} {name} {value}" for name, value in weights_register.recorded(part).items()]
        paths = [*source_of(part.source).files(part), *([head_file(part)] if part.head == "linear" else [])]
        for path in paths:
            name = path.relative_to(home) if path.is_relative_to(home) else path
            try:
                stat = path.stat()
                stamps.append(f"{name} {stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns} {stat.st_ino}")
            except OSError:
                stamps.append(f"{name} absent")
    return stamps
