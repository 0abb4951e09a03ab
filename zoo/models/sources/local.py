"""Checkpoints on this machine: `file:PATH`, a folder or a file together with a description of the network.

- a folder in the format of transformers or timm on the hub (`config.json` and `model.safetensors`);
- a folder with `card.md` and `model.safetensors` (or `model.pth`);
- a `.safetensors`, `.pth`, `.pt`, `.bin` or `.ckpt` file with a card next to it, `NAME.md` for `NAME.safetensors`;
- such a file without a card, if the user names its architecture and classes (`zoo card new`, `zoo.register`).

The architecture is one of ours, of timm or of torchvision. A pickled checkpoint is refused if it holds more than tensors.
"""

import dataclasses
import functools
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.cards import card as cards
from zoo.cards.card import Card, Training
from zoo.cards.names import canonical_dataset, unknown
from zoo.cards.published import recipe
from zoo.cards.recipe_names import small_family
from zoo.core import files
from zoo.core.foreign_files import reading
from zoo.errors import InputError
from zoo.models import weights
from zoo.models.sources import tags, timm, torchvision, transformers
from zoo.models.sources.base import Source, existing_path
from zoo.models.sources.hints import ModelHints

if TYPE_CHECKING:
    from zoo.models.model import Model
    from zoo.models.sources.assembly import Request

_FILES = ("model.safetensors", "model.pth", "pytorch_model.bin")
_SUFFIXES = (".safetensors", ".pth", ".pt", ".bin", ".ckpt", ".tar")  # the last one for `checkpoint.pth.tar`
_LIBRARIES: dict[str, Any] = {"timm": timm, "torchvision": torchvision}


class Local(Source):
    def describe(self, id: str, name: str) -> Card:
        """Return the card of `file:PATH`; its `id` is the weights file, or the folder for transformers."""
        path = existing_path(id, name)
        if path.is_dir() and (path / "config.json").is_file() and not (path / "card.md").is_file():
            return _card_from_config(path, name)
        file = _weights_file(path, name)
        card_file = path / "card.md" if path.is_dir() else path.with_suffix(".md")
        if not card_file.is_file():
            raise InputError(
                "the architecture and the classes are unknown",
                where=name,
                argument="architecture",
                hint="Pass {architecture=resnet18} and {classes=classes.txt}; describe the model permanently with "
                f"`zoo card new {name} --arch ... --classes ... --name my-model`, or write a card to {card_file}",
            )
        card = cards.parse(cards.read_text(card_file), str(card_file))
        card = dataclasses.replace(card, name=name, source="local", id=str(file.absolute()), path=card_file)
        if card.transform:
            return card
        usual = recipe(card.architecture, card.objective, canonical_dataset(card.dataset))
        return dataclasses.replace(card, transform=usual.transform)

    def describe_with_hints(self, id: str, name: str, hints: ModelHints) -> Card:
        """Return the card of a bare state dictionary, whose architecture in timm or torchvision the user names."""
        if not hints.stated:
            return self.describe(id, name)
        file = _weights_file(existing_path(id, name), name)
        hints.require(name, "architecture", "classes")
        labels, details = hints.labels(name)
        library, usual = _fitting_library(file, hints, labels, details, name)
        architecture = hints.architecture or ""
        if hints.size is None:
            _note_assumed_size(name, architecture, usual.size)
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
        from zoo.core import state_dicts
        from zoo.models.sources.assembly import assemble, card_classes, fit
        from zoo.networks import build

        card, classes = request.card, card_classes(request.card)
        ours = small_family(card.architecture) is not None
        with request.initialising():
            if ours:
                size = card.input_size or (3, 224, 224)
                network = build(card.architecture, len(classes), card.objective, card.hyperparameters, size)
            else:
                named = card.details.get("library", "timm")
                if named not in _LIBRARIES:
                    where, expected = f"{card.name}: field 'zoo.details.library'", f"one of {', '.join(_LIBRARIES)}"
                    raise InputError(where=where, expected=expected, found=named)
                library = _LIBRARIES[named]
                network = library.untrained(card.architecture, len(classes), card.name)
        digest = None
        if request.pretrained:
            path = Path(card.id or "")
            digest = weights.verify(card, path)
            state = state_dicts.without_prefix(weights.read_tensors(path, card.name), network.state_dict())
            (fit if ours else library.fill)(card.name, network, state, str(path))
        return assemble(request, network if ours else library.network(request, network), digest, classes)


SOURCE = Local()


def _fitting_library(
    file: Path, hints: ModelHints, labels: str, details: dict[str, Any], name: str
) -> tuple[str, cards.Transform]:
    """Return the library whose network fits the file, and the architecture's usual transform there.

    timm and torchvision have a `resnet18` with the same keys, but an `efficientnet_b0` with different ones.
    """
    from zoo.cards.labels import classes as classes_of
    from zoo.core import state_dicts

    architecture, count = hints.architecture or "", len(details.get("classes") or classes_of(labels))
    known = [library for library in _LIBRARIES if architecture in _LIBRARIES[library].architectures()]
    if not known:
        every = sorted({one for library in _LIBRARIES.values() for one in library.architectures()})
        raise unknown("architecture of timm or torchvision", architecture, every, where=name)
    state, problems = weights.read_tensors(file, name), []
    for library in known:
        network = _LIBRARIES[library].untrained(architecture, count, name)
        try:
            _LIBRARIES[library].fill(name, network, state_dicts.without_prefix(state, network.state_dict()), str(file))
        except InputError as error:
            problems.append(f"{error.problem} (in {library})")
        else:
            return library, _LIBRARIES[library].usual_transform(architecture, name)
    raise InputError("; ".join(problems), where=f"{name}: {file}")


@functools.cache  # once per process
def _note_assumed_size(name: str, architecture: str, size: tuple[int, ...]) -> None:
    print(
        f"zoo: {name} does not say its input size: {size[1]} x {size[2]} pixels are assumed, as usual for {architecture}; "
        "if it was trained at another size, pass --image-size (in Python: size=)",
        file=sys.stderr,
        flush=True,
    )


def _weights_file(path: Path, name: str) -> Path:
    """Return the file itself, or the weights file in a folder."""
    file = next((path / file for file in _FILES if (path / file).is_file()), None) if path.is_dir() else path
    if file is None:
        raise InputError(f"the folder has none of {', '.join(_FILES)}", where=name)
    if file.suffix not in _SUFFIXES:
        raise InputError(where=name, expected=f"a file that ends in {', '.join(_SUFFIXES)}", found=file.suffix)
    return file


def _card_from_config(folder: Path, name: str) -> Card:
    """Return the card of a folder with a `config.json`: timm's has `architecture`, transformers' has `architectures`."""
    path = folder / "config.json"
    try:
        with reading(path, "description of a model"):
            config = files.parse_json(path.read_bytes(), f"{name}: {path}")
            if isinstance(config, dict) and isinstance(config.get("architecture"), str):
                return _card_from_timm_config(config, folder, name)
            return transformers.read_configuration(folder, name)
    except InputError as error:
        if not str(error).startswith(name):  # raised for an invalid transform, which has no name
            error.inside(f"{name}: config.json")
        raise


def _card_from_timm_config(config: dict[str, Any], folder: Path, name: str) -> Card:
    from timm.models import PretrainedCfg

    base = timm.SOURCE.describe(config["architecture"], name)
    known = {field.name for field in dataclasses.fields(PretrainedCfg)}
    overlay = {key: value for key, value in config.get("pretrained_cfg", {}).items() if key in known}
    count = config.get("num_classes", overlay.get("num_classes"))
    names = config.get("label_names") or overlay.get("label_names")
    if names is None and count != 1000:
        problem = f"config.json has {count} classes and no label_names"
        raise InputError(problem, where=name, hint="Write a card.md in the folder instead")
    file = _weights_file(folder, name)
    details = {} if names is None else {"classes": list(map(str, names))}
    labels, transform = "imagenet-1k" if names is None else folder.name, timm.transform(PretrainedCfg(**overlay))
    return dataclasses.replace(
        base, source="local", id=str(file), labels=labels, head="trained", transform=transform, details=details
    )
