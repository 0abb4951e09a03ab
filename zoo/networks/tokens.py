"""Networks that see a small image as a sequence of tokens: a vision transformer and an MLP-Mixer.

Three convolutions make the tokens, the first at the full side: they learn from 50,000 images what patches cut out of the
image need many more to learn (Xiao et al. 2021).
"""

from collections import OrderedDict
from collections.abc import Callable

import torch
from torch import Tensor, nn

from zoo.networks.small import conv3x3

STEM_WIDTHS, REDUCTION = (32, 64), 4


class TokenNetwork(nn.Module):
    """Tokens of a quarter of the image's side, blocks that exchange what the tokens know, and the mean of the tokens."""

    def __init__(self, side: int, width: int, depth: int, block: Callable[[int, int], nn.Module]) -> None:
        super().__init__()
        self.num_features = width
        first, second = STEM_WIDTHS
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
        # One token alone would be spread over all positions by broadcasting; expanding refuses any other number of them.
        return self.norm(self.stages(self.positions.expand_as(tokens) + tokens)).mean(1)

    @property
    def blocks(self) -> dict[str, nn.Module]:
        return {"stem": self.stem, **dict(self.stages.named_children())}


def vision_transformer(side: int, width: int = 96, depth: int = 3, heads: int = 4) -> TokenNetwork:
    """Self-attention between tokens (Dosovitskiy et al. 2021); here and below ReLU, a fifth of GELU's time on a CPU."""
    from timm.models.vision_transformer import Block

    def block(dim: int, count: int) -> nn.Module:
        made = Block(dim, heads, mlp_ratio=2.0, qkv_bias=True, act_layer=nn.ReLU)
        made.attn.fused_attn = False  # fused, bfloat16 takes six times as long backwards as float32 on a CPU
        return made

    return TokenNetwork(side, width, depth, block)


def mixer(side: int, width: int = 96, depth: int = 4) -> TokenNetwork:
    """A perceptron across the tokens in place of attention (Tolstikhin et al. 2021)."""
    from timm.models.mlp_mixer import MixerBlock

    return TokenNetwork(side, width, depth, lambda dim, count: MixerBlock(dim, count, (1.0, 2.0), act_layer=nn.ReLU))
