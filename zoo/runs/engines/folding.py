"""Batch normalisation folded into the convolution before it: the same function, with fewer passes over memory.

In evaluation mode a batch normalisation is an affine map of each channel, y = (x - mean) * scale + bias with
scale = weight / sqrt(variance + eps). After a convolution it equals a convolution with weights W * scale and with the bias
(b - mean) * scale + bias.
"""

import copy
from collections import Counter
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

# Subclasses may change the weights before they use them. timm's Conv2dSame only pads the input.
_CONVOLUTIONS = ("Conv1d", "Conv2d", "Conv3d", "Conv2dSame")
_NORMALISATIONS = ("BatchNorm1d", "BatchNorm2d", "BatchNorm3d", "BatchNormAct2d")


def fold(network: nn.Module, inputs: Tensor) -> tuple[nn.Module, int]:
    """Return a copy of a network with folded batch normalisations, and their number.

    The network runs once on `inputs`. A normalisation is folded if its input is the result of a convolution, if both ran
    once, and if no other operation used that result. Hence the folded network computes the same function of all inputs,
    unless the path through the network depends on the values of the inputs.

    Args:
        network: in evaluation mode.
        inputs: [N, C, H, W], a batch that the network accepts.

    >>> network = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()).eval()
    >>> fold(network, torch.zeros(1, 3, 9, 9))
    (Sequential(
      (0): Conv2d(3, 8, kernel_size=(3, 3), stride=(1, 1))
      (1): Identity()
      (2): ReLU()
    ), 1)
    """
    if not any(type(module).__name__ in _NORMALISATIONS for module in network.modules()):
        return network, 0
    folded = copy.deepcopy(network)
    pairs = _pairs(folded, inputs)
    replaced: dict[nn.Module, nn.Module] = {}
    for convolution, normalisation in pairs:
        replaced[convolution] = fuse_conv_bn_eval(convolution, normalisation)
        # timm's BatchNormAct2d contains the activation that follows.
        after = [getattr(normalisation, name) for name in ("drop", "act") if hasattr(normalisation, name)]
        replaced[normalisation] = nn.Sequential(*after) if after else nn.Identity()
    for parent in list(folded.modules()):
        for name, child in parent._modules.items():
            if child in replaced:
                parent._modules[name] = replaced[child]
    return folded, len(pairs)


def _pairs(network: nn.Module, inputs: Tensor) -> list[tuple[Any, Any]]:
    """Return the convolutions and normalisations that can be folded, each with its partner."""
    made_by: dict[int, nn.Module] = {}  # convolution by the id of its result
    taken_by: dict[int, nn.Module] = {}  # normalisation by the id of its input
    kept: list[Tensor] = []  # so that no id is used twice
    calls: Counter[nn.Module] = Counter()

    def after_convolution(module: nn.Module, arguments: tuple[Tensor, ...], result: Tensor) -> None:
        calls[module] += 1
        made_by[id(result)] = module
        kept.append(result)

    def before_normalisation(module: nn.Module, arguments: tuple[Tensor, ...]) -> None:
        calls[module] += 1
        taken_by[id(arguments[0])] = module
        kept.append(arguments[0])

    hooks = []
    for module in network.modules():
        if module._forward_hooks or module._forward_pre_hooks:  # which may look at an input or change a result
            continue
        if type(module).__name__ in _CONVOLUTIONS:
            hooks.append(module.register_forward_hook(after_convolution))
        elif type(module).__name__ in _NORMALISATIONS and module.running_var is not None:
            hooks.append(module.register_forward_pre_hook(before_normalisation))
    uses = _Uses()
    try:
        with torch.inference_mode(), uses:
            uses.add(network(inputs))
    finally:
        for hook in hooks:
            hook.remove()
    candidates = [(made_by[key], taken_by[key]) for key in made_by.keys() & taken_by.keys() if uses.count[key] == 1]
    return [pair for pair in candidates if all(calls[module] == 1 for module in pair)]


class _Uses(TorchDispatchMode):
    """Counts the operations that use each tensor, by its id."""

    def __init__(self) -> None:
        super().__init__()
        self.count: Counter[int] = Counter()
        self.kept: list[Tensor] = []  # so that no id is used twice

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.add((args, kwargs))
        return function(*args, **(kwargs or {}))

    def add(self, values: Any) -> None:
        """Count one use of each tensor in nested lists, tuples and dictionaries."""
        tensors = [value for value in tree_leaves(values) if isinstance(value, Tensor)]
        self.count.update({id(tensor) for tensor in tensors})
        self.kept += tensors
