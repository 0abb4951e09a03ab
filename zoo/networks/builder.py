"""Build a network from the name of its architecture and of its training objective."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from zoo.cards.names import similar
from zoo.cards.recipe_names import SMALL_ARCHITECTURES, WIDE_RESNET, small_family
from zoo.errors import UnknownName
from zoo.networks import blocks, compact, tokens
from zoo.networks.network import Network
from zoo.networks.small import AllConvolutional, CifarResNet, PooledResNet, WideResNet
from zoo.objectives import ObjectiveHead
from zoo.objectives.catalogue import from_settings

# Builders of small networks by name, given the side of the square input. Wide ResNets are built from their name's numbers.
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
    """Return a network with random weights, whose head computes the logits of an objective.

    Args:
        architecture: a small one (`resnet8`, `wrn-16-8`, `vit-mini`, ...) or any architecture of timm.
        num_classes: number of outputs.
        objective: name of the training objective; `a+b` combines several.
        hyperparameters: settings of the objective; other training settings, as on a card, are ignored.
        input_size: (channels, height, width).

    >>> network = build("resnet8", 10, "cosine", {"tau": 0.1, "epochs": 12}, (3, 16, 16))
    >>> network.head.objective.hyperparameters, list(network.blocks)
    ({'tau': 0.1}, ['stem', 'stage1_0', 'stage2_0', 'stage3_0'])
    """
    small = small_family(architecture) is not None
    body, num_features, layers = _small(architecture, input_size[1]) if small else _timm(architecture, input_size)
    head = ObjectiveHead(num_features, num_classes, from_settings(objective, hyperparameters or {}))
    return Network(body, head, layers)


def check(architecture: str) -> None:
    """Raise an error that suggests similar names unless `build` knows this architecture."""
    if small_family(architecture) is not None:
        return
    import timm

    if not timm.is_model(architecture):
        raise UnknownName(
            kind="architecture",
            name=architecture,
            suggestions=similar(architecture, [*SMALL_ARCHITECTURES, *timm.list_models()]),
            hint=f"Known: {', '.join(SMALL_ARCHITECTURES)} and every architecture of timm",
        )


def _small(architecture: str, side: int) -> tuple[nn.Module, int, dict[str, nn.Module]]:
    wide = WIDE_RESNET.match(architecture)
    body = WideResNet(int(wide["depth"]), int(wide["factor"])) if wide else _BUILDERS[architecture](side)
    return body, body.num_features, body.blocks


def _timm(architecture: str, input_size: tuple[int, ...]) -> tuple[nn.Module, int, dict[str, nn.Module]]:
    import timm

    check(architecture)
    # Networks with position embeddings are built for one input size; the others accept any.
    fixed = getattr(timm.get_pretrained_cfg(architecture), "fixed_input_size", False)
    size = {"img_size": input_size[1:]} if fixed else {}
    # By default timm initialises the last scale of each block of a ResNet with zero.
    body = timm.create_model(architecture, num_classes=0, in_chans=input_size[0], **size)
    return body, body.head_hidden_size, blocks.find(body)
