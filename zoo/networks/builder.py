"""From an architecture's name to a network whose head follows an objective."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from zoo.cards.names import near
from zoo.cards.recipe_names import SMALL_ARCHITECTURES, WIDE_RESNET, small_family
from zoo.errors import UnknownName
from zoo.networks import blocks, compact, tokens
from zoo.networks.network import Network
from zoo.networks.pooled import PooledResNet
from zoo.networks.small import AllConvolutional, CifarResNet, WideResNet
from zoo.objectives import ObjectiveHead
from zoo.objectives.catalogue import pick

# The small networks by name, made for square images of a side; Wide ResNets are made by the numbers in their name.
_BUILDERS: dict[str, Callable[[int], Any]] = {
    "resnet8": lambda side: CifarResNet(1),
    "resnet7": lambda side: PooledResNet(),
    "resnet7x2": lambda side: PooledResNet((64, 192, 256)),
    "resnet20": lambda side: CifarResNet(3),
    "all-cnn-c": lambda side: AllConvolutional(),
    "vit-mini": tokens.vision_transformer,
    "mixer-mini": tokens.mixer,
    "convnext-mini": lambda side: compact.ConvNeXt(),
    "mobilenet-mini": lambda side: compact.MobileNet(),
    "densenet-mini": lambda side: compact.DenseNet(),
}


def build(
    architecture: str,
    num_classes: int,
    objective: str = "softmax",
    hyperparameters: Mapping[str, Any] | None = None,
    input_size: tuple[int, ...] = (3, 224, 224),
) -> Network:
    """A network with random weights for images of `input_size` (channels, height, width).

    `architecture` is one of the small ones (`resnet8`, `wrn-16-8`, `vit-mini`, ...) or any name of timm's. Of
    `hyperparameters` the objective takes its own: a card's training settings may stand among them.

    >>> network = build("resnet8", 10, "cosine", {"tau": 0.1, "epochs": 12}, (3, 16, 16))
    >>> network.head.objective.hyperparameters, list(network.blocks)
    ({'tau': 0.1}, ['stem', 'stage1_0', 'stage2_0', 'stage3_0'])
    """
    small = small_family(architecture) is not None
    body, num_features, layers = _small(architecture, input_size[1]) if small else _timm(architecture, input_size)
    head = ObjectiveHead(num_features, num_classes, pick(objective, hyperparameters or {}))
    return Network(body, head, layers)


def check(architecture: str) -> None:
    """An error with the near names unless `build` can make this architecture."""
    if small_family(architecture) is not None:
        return
    import timm

    if not timm.is_model(architecture):
        close = near(architecture, [*SMALL_ARCHITECTURES, *timm.list_models()])
        small = ", ".join(SMALL_ARCHITECTURES)
        raise UnknownName(f"unknown architecture {architecture!r}, expected {small} or a name of timm's{close}")


def _small(architecture: str, side: int) -> tuple[nn.Module, int, dict[str, nn.Module]]:
    wide = WIDE_RESNET.match(architecture)
    body = WideResNet(int(wide["depth"]), int(wide["factor"])) if wide else _BUILDERS[architecture](side)
    return body, body.num_features, body.blocks


def _timm(architecture: str, input_size: tuple[int, ...]) -> tuple[nn.Module, int, dict[str, nn.Module]]:
    import timm

    check(architecture)
    # Networks with position embeddings are made for one size; the others take any.
    fixed = getattr(timm.get_pretrained_cfg(architecture), "fixed_input_size", False)
    size = {"img_size": input_size[1:]} if fixed else {}
    # timm's ResNets start the last scale of each block at zero unless told otherwise.
    body = timm.create_model(architecture, num_classes=0, in_chans=input_size[0], **size)
    return body, body.head_hidden_size, blocks.find(body)
