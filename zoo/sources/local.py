"""Checkpoints on this machine: `file:PATH`, a folder or one file with a description of the network beside it.

- a folder in the form of transformers or of timm on the hub (`config.json` and `model.safetensors`);
- a folder with `card.md` and `model.safetensors` (or `model.pth`);
- a `.safetensors`, `.pth`, `.pt` or `.bin` file with a card beside it, `NAME.md` for `NAME.safetensors`.

The card's architecture is one of ours or any of timm's. Torch's own files are read as tensors only; a pickle that holds
anything else is refused.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo import cards
from zoo._registry import weights
from zoo._storage import files
from zoo._storage.foreign_files import reading
from zoo.cards import Card
from zoo.errors import InputError
from zoo.objectives.names import small_family
from zoo.sources import timm, transformers
from zoo.sources.base import Source

if TYPE_CHECKING:
    from zoo.model import Model
    from zoo.sources.assembly import Request

_FILES = ("model.safetensors", "model.pth", "pytorch_model.bin")
_SUFFIXES = (".safetensors", ".pth", ".pt", ".bin")


class Local(Source):
    def describe(self, id: str, name: str) -> Card:
        """The card of `file:PATH`; its `id` is the file of the weights, or the folder for transformers."""
        path = Path(id).expanduser()
        if not id or "\0" in id or not path.exists():
            raise InputError(f"{name}: there is no such file or folder; expected a checkpoint")
        if path.is_dir() and (path / "config.json").is_file() and not (path / "card.md").is_file():
            return _from_configuration(path, name)
        file = _weights_file(path, name) if path.is_dir() else path
        if file.suffix not in _SUFFIXES:
            raise InputError(
                f"{name}: expected a file that ends in {', '.join(_SUFFIXES)}, found {file.suffix or 'no ending'}"
            )
        beside = path / "card.md" if path.is_dir() else path.with_suffix(".md")
        if not beside.is_file():
            raise InputError(
                f"{name}: nothing says what network it is; write a card for it at {beside} (see CONTRIBUTING.md)"
            )
        card = cards.parse(cards.read_text(beside), str(beside))
        card = dataclasses.replace(card, name=name, source="local", id=str(file), path=beside)
        return card if card.transform else dataclasses.replace(card, transform=_usual_transform(card))

    def files(self, card: Card) -> Sequence[Path]:
        return (Path(card.id or "").expanduser(),)

    def load(self, request: "Request") -> "Model":
        """The model of a local checkpoint."""
        from zoo._storage import checkpoints
        from zoo.architectures import build
        from zoo.sources.assembly import assemble, card_classes, fit

        card, classes = request.card, card_classes(request.card)
        ours = small_family(card.architecture) is not None
        with request.beginning():
            if ours:
                size = card.input_size or (3, 224, 224)
                network = build(card.architecture, len(classes), card.objective, card.hyperparameters, size)
            else:
                network = timm.untrained(card.architecture, len(classes), card.name)
        digest = None
        if request.weights:
            path = Path(card.id or "")
            digest = weights.verify(card, path)
            fit(card.name, network, checkpoints.read(path, card.name), str(path))
        return assemble(request, network if ours else timm.network(request, network), digest, classes)


SOURCE = Local()


def _usual_transform(card: Card) -> cards.Transform:
    """The transform of the recipe for a card's architecture and data, where it names none."""
    from zoo._registry.names import canonical_dataset
    from zoo.training.published import recipe

    return recipe(card.architecture, card.objective, canonical_dataset(card.dataset)).transform


def _weights_file(folder: Path, name: str) -> Path:
    file = next((folder / file for file in _FILES if (folder / file).is_file()), None)
    if file is None:
        raise InputError(f"{name}: the folder has none of {', '.join(_FILES)}")
    return file


def _from_configuration(folder: Path, name: str) -> Card:
    """The card that a `config.json` amounts to: timm's has `architecture`, transformers' `architectures`."""
    path = folder / "config.json"
    try:
        with reading(path, "description of a model"):
            config = files.parse_json(path.read_bytes(), f"{name}: {path}")
            if isinstance(config, dict) and isinstance(config.get("architecture"), str):
                return _from_timm(config, folder, name)
            return transformers.read_configuration(folder, name)
    except InputError as error:  # a transform that makes no sense does not know whose it is
        raise error if str(error).startswith(name) else InputError(f"{name}: its config.json {error}") from error


def _from_timm(config: dict[str, Any], folder: Path, name: str) -> Card:
    from timm.models import PretrainedCfg

    base = timm.SOURCE.describe(config["architecture"], name)
    known = {field.name for field in dataclasses.fields(PretrainedCfg)}
    overlay = {key: value for key, value in config.get("pretrained_cfg", {}).items() if key in known}
    count = config.get("num_classes", overlay.get("num_classes"))
    names = config.get("label_names") or overlay.get("label_names")
    if names is None and count != 1000:
        raise InputError(f"{name}: its config.json has {count} classes and no label_names; write a card.md instead")
    file = _weights_file(folder, name)
    details = {} if names is None else {"classes": list(map(str, names))}
    labels, transform = "imagenet-1k" if names is None else folder.name, timm.transform(PretrainedCfg(**overlay))
    return dataclasses.replace(
        base, source="local", id=str(file), labels=labels, head="trained", transform=transform, details=details
    )
