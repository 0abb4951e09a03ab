"""What must be known of a model before its outputs can be looked up, remembered so that finding them takes no model.

Weights are hashed when a model is loaded. The hash is then kept under all that could change it without being noticed: the
card, the versions of the libraries, and the size and times of the model's own files. When any of these differs the model is
loaded again and hashed again; its outputs are computed again only if the hash is another one.
"""

import importlib.metadata
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
from zoo.outputs.store.layout import card_text

if TYPE_CHECKING:
    from zoo.models.model import Model

SCHEMA = 1
_LIBRARIES = ("torch", "torchvision", "timm", "open_clip_torch", "transformers", "onnxruntime", "model-zoo-diversity")


@dataclass(frozen=True)
class Facts:
    """A model as its outputs' identity sees it."""

    name: str
    weights: str  # hash
    transform: str  # fingerprint
    classes: tuple[str, ...]  # none for a bare encoder
    link: Link
    card: str  # text
    embeds: bool = True


def of_model(model: "Model", pretrained: bool = True) -> Facts:
    """The facts of a loaded model; random weights are marked as such."""
    mark = "" if pretrained else "random:"
    card = card_text(model.card)
    return Facts(
        model.card.name, mark + model.weights_hash, model.transform.fingerprint, model.classes, model.card.link, card,
        model.embeds,
    )  # fmt: skip


def recall(card: Card, pretrained: bool, classes: Sequence[str] | None, home: Path | None) -> Facts | None:
    """What is remembered of the model, if nothing it depends on was touched since."""
    try:
        record = files.read_json(_path(card, pretrained, classes, home), SCHEMA)
        facts = record["facts"]
        return Facts(**{**facts, "classes": tuple(facts["classes"])})
    except (ZooError, KeyError, TypeError):  # absent or damaged: the model itself is asked
        return None


def remember(facts: Facts, card: Card, pretrained: bool, classes: Sequence[str] | None, home: Path | None) -> None:
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
    """What shows whether the weights are still the same: recorded hashes, size and times of the model's own files."""
    home, stamps = home_layout.root(), []
    for own in registry.made_of(card):
        stamps += [f"{own.name} {name} {value}" for name, value in weights_register.recorded(own).items()]
        places = [*source_of(own.source).files(own), *([head_file(own)] if own.head == "linear" else [])]
        for path in places:
            name = path.relative_to(home) if path.is_relative_to(home) else path
            try:
                stat = path.stat()
                stamps.append(f"{name} {stat.st_size} {stat.st_mtime_ns} {stat.st_ctime_ns} {stat.st_ino}")
            except OSError:
                stamps.append(f"{name} absent")
    return stamps
