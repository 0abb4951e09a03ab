"""Find the blocks of a network by the numbers that libraries give them: `layer1.0`, `blocks.3`, `stages.2.blocks.0`.

A block is a numbered module inside containers (sequences, lists, and stages that only hold blocks). Single layers of torch
and thin wrappers around one (convolution with normalisation) are too small to be a block.
"""

import re
from collections.abc import Iterator

from torch import nn

_NUMBERED = re.compile(r"[A-Za-z]*_?\d+[a-z]?(_\d+)?\Z")
_HOLDS_BLOCKS = {"blocks", "layers", "layer", "resblocks", "stages"}
_CONTAINERS = (nn.Sequential, nn.ModuleList, nn.ModuleDict)
_TOO_SMALL = re.compile(r"(Conv(2d|Norm|Bn|BN|Mlp|Stem)|BatchNorm|LayerNorm|RmsNorm|Patch|Drop|Mlp|Linear|Pool)")


def find(body: nn.Module) -> dict[str, nn.Module]:
    """Return the blocks of a network by path, in order of computation; if no module is numbered, its activations.

    >>> list(find(nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Flatten())))
    ['1']
    """
    blocks = dict(_walk(body, ""))
    if blocks:
        return blocks
    return {path: module for path, module in body.named_modules() if isinstance(module, (nn.ReLU, nn.GELU, nn.SiLU))}


def _walk(parent: nn.Module, prefix: str) -> Iterator[tuple[str, nn.Module]]:
    for name, module in parent.named_children():
        path = f"{prefix}{name}"
        if _is_container(module):
            yield from _walk(module, f"{path}.")
        elif _NUMBERED.match(name) and not _is_small(module):
            yield path, module


def _is_container(module: nn.Module) -> bool:
    children = dict(module.named_children())
    if isinstance(module, _CONTAINERS) or _HOLDS_BLOCKS & children.keys():
        return True
    if not children:
        return False
    # A stage whose children are all numbered (`b1`, `b2`), or a wrapper around one that holds blocks (`trunk`, `encoder`).
    numbered = all(re.match(r"(b|block)\d+\Z", name) for name in children)
    return numbered or any(_HOLDS_BLOCKS & dict(child.named_children()).keys() for child in children.values())


def _is_small(module: nn.Module) -> bool:
    return not any(module.children()) or bool(_TOO_SMALL.match(type(module).__name__))
