"""Checkpoints on this machine: `file:PATH`, a folder or one file with a description of the network beside it.

- a folder in the form of transformers or of timm on the hub (`config.json` and `model.safetensors`);
- a folder with `card.md` and `model.safetensors` (or `model.pth`);
- a `.safetensors`, `.pth`, `.pt`, `.bin` or `.ckpt` file with a card beside it, `NAME.md` for `NAME.safetensors`, or of
  which architecture and classes are told (`zoo card new`, `zoo.register`).

The card's architecture is one of ours, of timm's or of torchvision's. Torch's own files are read as tensors only; a pickle
that holds anything else is refused.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.cards import card as cards
from zoo.cards.card import Card, Training
from zoo.cards.names import near
from zoo.cards.recipe_names import small_family
from zoo.core import files
from zoo.core.foreign_files import reading
from zoo.errors import InputError, UnknownName
from zoo.models import weights
from zoo.models.sources import tags, timm, torchvision, transformers
from zoo.models.sources.base import Source
from zoo.models.sources.hints import ModelHints

if TYPE_CHECKING:
    from zoo.models.model import Model
    from zoo.models.sources.assembly import Request

_FILES = ("model.safetensors", "model.pth", "pytorch_model.bin")
_SUFFIXES = (".safetensors", ".pth", ".pt", ".bin", ".ckpt", ".tar")  # the last of `checkpoint.pth.tar`


class Local(Source):
    def describe(self, id: str, name: str) -> Card:
        """The card of `file:PATH`; its `id` is the file of the weights, or the folder for transformers."""
        path = _existing(id, name)
        if path.is_dir() and (path / "config.json").is_file() and not (path / "card.md").is_file():
            return _from_configuration(path, name)
        file = _weights_file(path, name)
        beside = path / "card.md" if path.is_dir() else path.with_suffix(".md")
        if not beside.is_file():
            raise InputError(
                f"{name}: nothing says what network it is; say it with --arch resnet18 --classes classes.txt, for good with "
                f"`zoo card new {name} --arch ... --classes ... --as my-model`, or by a card at {beside}"
            )
        card = cards.parse(cards.read_text(beside), str(beside))
        card = dataclasses.replace(card, name=name, source="local", id=str(file.absolute()), path=beside)
        return card if card.transform else dataclasses.replace(card, transform=_usual_transform(card))

    def describe_with_hints(self, id: str, name: str, hints: ModelHints) -> Card:
        """The card of a bare state dictionary of an architecture that timm or torchvision has: whichever one it fits."""
        if not hints.stated:
            return self.describe(id, name)
        file = _weights_file(_existing(id, name), name)
        hints.require(name, "architecture", "classes")
        labels, details = hints.labels(name)
        library, usual = _library_of(file, hints, labels, details, name)
        architecture = hints.architecture or ""
        return Card(
            name=name,
            source="local",
            id=str(file.absolute()),
            family=tags.family(architecture),
            architecture=architecture,
            labels=labels,
            link="softmax",
            head="trained",
            training=Training("unknown", "unknown", "unknown"),
            transform=hints.over(usual),
            details={"library": library} | details,
        )

    def files(self, card: Card) -> Sequence[Path]:
        return (Path(card.id or "").expanduser(),)

    def load(self, request: "Request") -> "Model":
        """The model of a local checkpoint."""
        from zoo.core import state_dicts
        from zoo.models.sources.assembly import assemble, card_classes, fit
        from zoo.networks import build

        card, classes = request.card, card_classes(request.card)
        ours = small_family(card.architecture) is not None
        with request.beginning():
            if ours:
                size = card.input_size or (3, 224, 224)
                network = build(card.architecture, len(classes), card.objective, card.hyperparameters, size)
            else:
                named = card.details.get("library", "timm")
                if named not in _LIBRARIES:
                    raise InputError(f"{card.name}: field 'zoo.details.library': expected one of {', '.join(_LIBRARIES)}")
                library = _LIBRARIES[named]
                network = library.untrained(card.architecture, len(classes), card.name)
        digest = None
        if request.pretrained:
            path = Path(card.id or "")
            digest = weights.verify(card, path)
            state = state_dicts.without_prefix(state_dicts.read(path, card.name), network.state_dict())
            (fit if ours else library.fill)(card.name, network, state, str(path))
        return assemble(request, network if ours else library.network(request, network), digest, classes)


SOURCE = Local()
_LIBRARIES: dict[str, Any] = {"timm": timm, "torchvision": torchvision}


def _existing(id: str, name: str) -> Path:
    path = Path(id).expanduser()
    if not id or "\0" in id or not path.exists():
        raise InputError(f"{name}: there is no such file or folder; expected a checkpoint")
    return path


def _library_of(
    file: Path, hints: ModelHints, labels: str, details: dict[str, Any], name: str
) -> tuple[str, cards.Transform]:
    """The library whose network of that architecture the file fits, and the architecture's usual transform there.

    Both have a `resnet18` with the same keys, but an `efficientnet_b0` with others.
    """
    from zoo.cards.labels import classes as classes_of
    from zoo.core import state_dicts

    architecture, count = hints.architecture or "", len(details.get("classes") or classes_of(labels))
    known = [library for library in _LIBRARIES if architecture in _LIBRARIES[library].architectures()]
    if not known:
        every = sorted({one for library in _LIBRARIES.values() for one in library.architectures()})
        raise UnknownName(
            f"{name}: neither timm nor torchvision has an architecture {architecture!r}{near(architecture, every)}"
        )
    state, errors = state_dicts.read(file, name), []
    for library in known:
        network = _LIBRARIES[library].untrained(architecture, count, name)
        try:
            _LIBRARIES[library].fill(name, network, state_dicts.without_prefix(state, network.state_dict()), str(file))
        except InputError as error:
            errors.append(str(error) + (f" (of {library})" if len(known) > 1 else ""))
        else:
            return library, _LIBRARIES[library].usual_transform(architecture, name)
    raise InputError("; ".join(errors))


def _usual_transform(card: Card) -> cards.Transform:
    """The transform of the recipe for a card's architecture and data, where it names none."""
    from zoo.cards.names import canonical_dataset
    from zoo.cards.published import recipe

    return recipe(card.architecture, card.objective, canonical_dataset(card.dataset)).transform


def _weights_file(path: Path, name: str) -> Path:
    """The file itself, or the one in a folder."""
    file = next((path / file for file in _FILES if (path / file).is_file()), None) if path.is_dir() else path
    if file is None:
        raise InputError(f"{name}: the folder has none of {', '.join(_FILES)}")
    if file.suffix not in _SUFFIXES:
        raise InputError(f"{name}: expected a file that ends in {', '.join(_SUFFIXES)}, found {file.suffix or 'no ending'}")
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
