"""Networks and weights of timm."""

from pathlib import Path
from typing import Any

import timm

from zoo import checkpoints, weights
from zoo.errors import InputError, MissingWeights, UnknownName
from zoo.model import Model, Network
from zoo.names import near
from zoo.sources import blocks
from zoo.sources.assembly import Request, assemble
from zoo.sources.splitting import split

_FILES = ("model.safetensors", "pytorch_model.bin")


def load(request: Request) -> Model:
    """The model of a card whose source is timm."""
    card = request.card
    name = card.id or card.architecture
    if not request.weights:
        with request.beginning():
            model = timm.create_model(name)
        return assemble(request, network(request, model), None)
    path = _file(request)
    digest = weights.verify(card, path)
    model = _with_weights(request, name, path)
    return assemble(request, network(request, model), digest)


def untrained(architecture: str, num_classes: int, name: str) -> Any:
    """timm's network of an architecture for so many classes, random."""
    if not timm.is_model(architecture):
        raise UnknownName(f"{name}: timm {timm.__version__} has no architecture {architecture!r}"
                          f"{near(architecture, timm.list_models())}")  # fmt: skip
    return timm.create_model(architecture, num_classes=num_classes)


def network(request: Request, model: Any) -> Network:
    """timm's model cut before its final layer; whole where the card says that it has none."""
    paths = final_layers(model)
    head = None
    if paths and request.card.head != "none":
        head = split(model, paths, request.example(), request.card.name)
    return Network(model, head, blocks.find(model))


def final_layers(model: Any) -> list[str]:
    """The paths of a model's final layers; none for an encoder.

    Its configuration names them, except in a few old ones that do not know of a second one.
    """
    if not model.num_classes:
        return []
    named = model.pretrained_cfg.get("classifier") or ()
    paths = [named] if isinstance(named, str) else [*named]
    actual = model.get_classifier()
    if isinstance(actual, (tuple, list)) and len(actual) > len(paths):
        return [next(path for path, module in model.named_modules() if module is layer) for layer in actual]
    return paths


def _file(request: Request) -> Path:
    card = request.card
    config = timm.models.get_pretrained_cfg(card.id)
    if config is not None and config.hf_hub_id:
        candidates = (config.hf_hub_filename,) if config.hf_hub_filename else _FILES
        return weights.hub_file(card.name, config.hf_hub_id, candidates, card.revision)
    if config is not None and config.url:
        return weights.url_file(card.name, config.url)
    raise MissingWeights(f"{card.name}: timm knows {card.id} but no weights of it were published; pass weights=False")


def _with_weights(request: Request, name: str, path: Path) -> Any:
    """timm's model with the state dictionary of a file.

    timm renames the keys of old checkpoints and cuts off the background class of some, then loads strictly; a few of its
    architectures do not, so keys that nothing in the file can stand for are looked for here.
    """
    card = request.card
    if path.suffix == ".npz":  # arrays of the original authors, which timm's models read by themselves
        overlay: dict[str, Any] = {"file": str(path), "custom_load": True}
        return timm.create_model(name, pretrained=True, pretrained_cfg_overlay=overlay)
    state = checkpoints.read(path, card.name)
    keys = set(state)
    try:
        model = timm.create_model(name, pretrained=True, pretrained_cfg_overlay={"state_dict": state})
    except (RuntimeError, KeyError, IndexError) as error:
        reason = " ".join(str(error).split())[:300]
        raise InputError(f"{card.name}: {path} does not fit the network {name}: {reason}") from error
    model.pretrained_cfg.pop("state_dict")  # timm would keep a second copy of the weights there
    own = set(model.state_dict())
    missing = sorted(key for key in own - keys if not key.endswith("num_batches_tracked"))  # old checkpoints lack these
    if missing and not keys - own:
        raise InputError(
            f"{card.name}: {path} does not fit the network {name}: {len(missing)} keys missing, e.g. {missing[0]!r}"
        )
    return model
