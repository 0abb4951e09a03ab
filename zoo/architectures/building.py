"""From an architecture's name to a network whose head follows an objective."""

from collections.abc import Mapping
from typing import Any

from torch import nn

from zoo.architectures.small import AllConvolutional, CifarResNet, WideResNet
from zoo.errors import UnknownName
from zoo.model import Network
from zoo.names import near
from zoo.objectives import ObjectiveHead
from zoo.objectives.catalogue import pick
from zoo.objectives.names import SMALL_ARCHITECTURES
from zoo.sources import blocks


def build(
    architecture: str,
    num_classes: int,
    objective: str = "softmax",
    hyperparameters: Mapping[str, Any] | None = None,
    input_size: tuple[int, ...] = (3, 224, 224),
) -> Network:
    """A network with random weights for pictures of `input_size` (channels, height, width).

    `architecture` is one of the small ones (`resnet8`, `resnet8x2`, `resnet20`, `all-cnn-c`, `wrn-16-8`) or any name of timm's. Of
    `hyperparameters` the objective takes its own: a card's training settings may stand among them.

    >>> network = build("resnet8", 10, "cosine", {"tau": 0.1, "epochs": 12}, (3, 16, 16))
    >>> network.head.objective.hyperparameters, list(network.blocks)
    ({'tau': 0.1}, ['stem', 'stage1_0', 'stage2_0', 'stage3_0'])
    """
    small = architecture in SMALL_ARCHITECTURES
    body, num_features, layers = _small(architecture) if small else _timm(architecture, input_size)
    head = ObjectiveHead(num_features, num_classes, pick(objective, hyperparameters or {}))
    return Network(body, head, layers)


def check(architecture: str) -> None:
    """An error with the near names unless `build` can make this architecture."""
    if architecture in SMALL_ARCHITECTURES:
        return
    import timm

    if not timm.is_model(architecture):
        close = near(architecture, [*SMALL_ARCHITECTURES, *timm.list_models()])
        small = ", ".join(SMALL_ARCHITECTURES)
        raise UnknownName(f"unknown architecture {architecture!r}, expected {small} or a name of timm's{close}")


def _small(architecture: str) -> tuple[nn.Module, int, dict[str, nn.Module]]:
    body: CifarResNet | AllConvolutional | WideResNet
    if architecture == "all-cnn-c":
        body = AllConvolutional()
    elif architecture == "wrn-16-8":
        body = WideResNet(16, 8)
    else:
        body = {
            "resnet8": lambda: CifarResNet(1),
            "resnet8x2": lambda: CifarResNet(1, width=32, halved=True),
            "resnet20": lambda: CifarResNet(3),
        }[architecture]()
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
