"""Token networks for small images: a vision transformer and an MLP-Mixer.

Three convolutions compute the tokens. With such a stem 50,000 training images are enough; patches cut out of the image need
many more (Xiao et al. 2021).
"""

from collections import OrderedDict
from collections.abc import Callable

import torch
from torch import Tensor, nn

from zoo.networks.small import conv3x3

WIDTHS, REDUCTION = (32, 64, 96), 4  # of the stem; tokens have the last width


class TokenNetwork(nn.Module):
    """A convolutional stem that returns (side / 4)^2 tokens, blocks that mix the tokens, and the mean over tokens."""

    def __init__(self, side: int, depth: int, block: Callable[[int, int], nn.Module]) -> None:
        super().__init__()
        first, second, width = WIDTHS
        self.num_features = width
        self.stem = nn.Sequential(
            conv3x3(3, first), nn.BatchNorm2d(first), nn.ReLU(),
            conv3x3(first, second, 2), nn.BatchNorm2d(second), nn.ReLU(),
            conv3x3(second, width, 2), nn.BatchNorm2d(width),
        )  # fmt: skip
        count = (-(-side // REDUCTION)) ** 2
        self.positions = nn.Parameter(0.02 * torch.randn(1, count, width))
        self.stages = nn.Sequential(OrderedDict((f"block{n}", block(width, count)) for n in range(depth)))
        self.norm = nn.LayerNorm(width)

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.stem(x).flatten(2).transpose(1, 2)  # [N, tokens, width]
        # A plain sum would broadcast one token to all positions; `expand_as` raises an error for any other number of tokens.
        return self.norm(self.stages(self.positions.expand_as(tokens) + tokens)).mean(1)

    @property
    def blocks(self) -> dict[str, nn.Module]:
        return {"stem": self.stem, **dict(self.stages.named_children())}


def vision_transformer(side: int) -> TokenNetwork:
    """Return a vision transformer (Dosovitskiy et al. 2021), with ReLU, which takes a fifth of GELU's time on a CPU."""
    from timm.models.vision_transformer import Block

    def block(dim: int, count: int) -> nn.Module:
        layer = Block(dim, 4, mlp_ratio=2.0, qkv_bias=True, act_layer=nn.ReLU)
        layer.attn.fused_attn = False  # on a CPU the fused backward pass takes six times as long in bfloat16 as in float32
        return layer

    return TokenNetwork(side, 3, block)


def mixer(side: int) -> TokenNetwork:
    """Return an MLP-Mixer: a perceptron across tokens instead of attention (Tolstikhin et al. 2021)."""
    from timm.models.mlp_mixer import MixerBlock

    return TokenNetwork(side, 4, lambda dim, count: MixerBlock(dim, count, (1.0, 2.0), act_layer=nn.ReLU))
