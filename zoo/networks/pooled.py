"""A short residual network that learns quickly: few layers, behind a stem that has nothing to learn.

Most of what the first layer of a network for natural images learns is to undo the correlation of neighbouring pixels and
of the three colours. Doing that beforehand is what lets networks of this kind learn CIFAR-10 in a few epochs (Page 2018;
Jordan 2024, who fits the transform to the data; the one here is fixed).
"""

from collections import OrderedDict
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional

from zoo.networks.small import Stacked, conv3x3, start_convolutions


class Decorrelation(nn.Module):
    """The 2 x 2 square at each pixel as 24 channels: its mean and three differences, of brightness and two opponent colours.

    These twelve are nearly uncorrelated in natural images. A norm without parameters brings them to unit variance, which
    makes it a whitening. Both signs follow, so that the ReLU behind loses nothing.
    """

    squares: Tensor

    def __init__(self) -> None:
        super().__init__()
        differences = torch.tensor([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]) / 2
        colours = torch.tensor([[1, 1, 1], [1, 0, -1], [1, -2, 1]]) / torch.tensor([[3], [2], [6]]).sqrt()
        orthogonal = torch.einsum("dp,kc->dkcp", differences, colours).reshape(12, 3, 2, 2)
        self.register_buffer("squares", orthogonal, persistent=False)
        # The finest differences of colour are little more than noise: they are not blown up to unit variance.
        self.norm = nn.BatchNorm2d(12, eps=5e-4, affine=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(functional.conv2d(functional.pad(x, (0, 1, 0, 1)), self.squares))
        return functional.relu(torch.cat([x, -x], 1))


class PooledBlock(nn.Module):
    """A convolution whose output is pooled to half the side, then one with a shortcut around it."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv3x3(inputs, outputs), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = conv3x3(outputs, outputs), nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.bn1(functional.max_pool2d(self.conv1(x), 2)))
        return x + functional.relu(self.bn2(self.conv2(x)))


class PooledResNet(Stacked):
    """Blocks of these widths, each at half the side of the one before; three of them make `resnet7`, of seven layers.

    The first width is small: at the full side a channel costs four times what it does one block later.
    """

    memory_format = torch.channels_last

    def __init__(self, widths: Sequence[int] = (32, 96, 128)) -> None:
        layers: OrderedDict[str, nn.Module] = OrderedDict(stem=Decorrelation())
        inputs = 24
        for number, width in enumerate(widths, start=1):
            layers[f"block{number}"] = PooledBlock(inputs, width)
            inputs = width
        super().__init__(layers, inputs)
        start_convolutions(self)
