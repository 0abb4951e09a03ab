"""Checkpoints on this machine: `file:PATH`, a folder or one file with a description of the network beside it.

- a folder in the form of transformers or of timm on the hub (`config.json` and `model.safetensors`);
- a folder with `card.md` and `model.safetensors` (or `model.pth`);
- a `.safetensors`, `.pth`, `.pt` or `.bin` file with a card beside it, `NAME.md` for `NAME.safetensors`.

The card's architecture is one of ours or any of timm's. Torch's own files are read as tensors only; a pickle that holds
anything else is refused.
"""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo import cards, files
from zoo.cards import Card
from zoo.errors import InputError
from zoo.objectives.names import small_family

if TYPE_CHECKING:
    from zoo.model import Model
    from zoo.sources.assembly import Request

_FILES = ("model.safetensors", "model.pth", "pytorch_model.bin")
_SUFFIXES = (".safetensors", ".pth", ".pt", ".bin")


def describe(where: str) -> Card:
    """The card of `file:PATH`; its `id` is the file of the weights, or the folder for transformers."""
    path = Path(where).expanduser()
    name = f"file:{where}"
    if not where or "\0" in where or not path.exists():
        raise InputError(f"{name}: there is no such file or folder; expected a checkpoint")
    if path.is_dir() and (path / "config.json").is_file() and not (path / "card.md").is_file():
        return _from_configuration(path, name)
    file = next((path / file for file in _FILES if (path / file).is_file()), None) if path.is_dir() else path
    if file is None:
        raise InputError(f"{name}: the folder has none of {', '.join(_FILES)}")
    if file.suffix not in _SUFFIXES:
        raise InputError(f"{name}: expected a file that ends in {', '.join(_SUFFIXES)}, found {file.suffix or 'no ending'}")
    beside = path / "card.md" if path.is_dir() else path.with_suffix(".md")
    if not beside.is_file():
        raise InputError(f"{name}: nothing says what network it is; write a card for it at {beside} (see CONTRIBUTING.md)")
    card = cards.parse(beside.read_text(encoding="utf-8"), str(beside))
    return dataclasses.replace(card, name=name, source="local", id=str(file), path=beside)


def load(request: "Request") -> "Model":
    """The model of a local checkpoint."""
    from zoo import checkpoints, weights
    from zoo.sources import recipe, timm
    from zoo.sources.assembly import assemble, fit

    request = recipe.with_transform(request)
    card, classes = request.card, recipe.classes_of(request.card)
    ours = small_family(card.architecture) is not None
    with request.beginning():
        network = (
            recipe.untrained(card, len(classes)) if ours else timm.untrained(card.architecture, len(classes), card.name)
        )
    digest = None
    if request.weights:
        path = Path(card.id or "")
        digest = weights.verify(card, path)
        fit(card.name, network, checkpoints.read(path, card.name), str(path))
    return assemble(request, network if ours else timm.network(request, network), digest, classes)


def _from_configuration(folder: Path, name: str) -> Card:
    """The card that a `config.json` amounts to: timm's has `architecture`, transformers' `architectures`."""
    config = files.parse_json((folder / "config.json").read_bytes(), f"{name}: {folder / 'config.json'}")
    if isinstance(config, dict) and isinstance(config.get("architecture"), str):
        return _from_timm(config, folder, name)
    from transformers import AutoConfig, AutoImageProcessor

    from zoo.catalogue.transformers import from_configuration

    try:
        described = AutoConfig.from_pretrained(folder, local_files_only=True)
        processor = AutoImageProcessor.from_pretrained(folder, local_files_only=True)
    except (OSError, ValueError) as error:
        raise InputError(f"{name}: transformers cannot read it as an image model: {' '.join(str(error).split())}") from error
    return from_configuration(described, processor, str(folder), name)


def _from_timm(config: dict[str, Any], folder: Path, name: str) -> Card:
    from timm.models import PretrainedCfg

    from zoo.catalogue import timm

    base = timm.describe(config["architecture"], name)
    known = {field.name for field in dataclasses.fields(PretrainedCfg)}
    overlay = {key: value for key, value in config.get("pretrained_cfg", {}).items() if key in known}
    count = config.get("num_classes", overlay.get("num_classes"))
    names = config.get("label_names") or overlay.get("label_names")
    if names is None and count != 1000:
        raise InputError(f"{name}: its config.json has {count} classes and no label_names; write a card.md instead")
    file = next((folder / file for file in _FILES if (folder / file).is_file()), None)
    if file is None:
        raise InputError(f"{name}: the folder has none of {', '.join(_FILES)}")
    details = {} if names is None else {"classes": list(map(str, names))}
    labels, transform = "imagenet-1k" if names is None else folder.name, timm.transform(PretrainedCfg(**overlay))
    return dataclasses.replace(
        base, source="local", id=str(file), labels=labels, head="trained", transform=transform, details=details
    )
