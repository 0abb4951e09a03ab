"""Convolutional networks for small images: CIFAR ResNets, Wide ResNets, All-CNN-C, and the short ResNet `resnet7`.

Each maps images [N, 3, H, W] to pooled features [N, `num_features`], and its `blocks` are the modules whose outputs are its
hidden layers.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional


def conv3x3(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)


def spatial_mean(x: Tensor) -> Tensor:
    return x.mean((2, 3))


def init_convolutions(network: nn.Module) -> None:
    """Initialise all convolutions as in He et al. (2015), so that ReLU layers preserve the scale of activations."""
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")


class Stacked(nn.Module):
    """A sequence of named layers, each of them a block, followed by the mean over all positions."""

    memory_format = torch.preserve_format

    def __init__(self, layers: OrderedDict[str, nn.Module], num_features: int) -> None:
        super().__init__()
        self.num_features = num_features
        self.layers = nn.Sequential(layers)

    def forward(self, x: Tensor) -> Tensor:
        return spatial_mean(self.layers(x.to(memory_format=self.memory_format)))

    @property
    def blocks(self) -> dict[str, nn.Module]:
        return dict(self.layers.named_children())


class BasicBlock(nn.Module):
    """Two convolutions and a shortcut without parameters: where the shape changes it subsamples and pads with zeros."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv3x3(inputs, outputs, stride), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = conv3x3(outputs, outputs), nn.BatchNorm2d(outputs)
        # A block that starts close to its shortcut makes the first steps stable (Goyal et al. 2017). The scale is small
        # but not zero: with zero, channels that the shortcut pads with zeros would be exactly zero before the ReLU, where
        # the gradient is zero, and would never change.
        nn.init.constant_(self.bn2.weight, 0.1)
        self.stride, self.padding = stride, outputs - inputs

    def forward(self, x: Tensor) -> Tensor:
        shortcut = functional.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.padding))
        y = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        return functional.relu(y + shortcut)


class CifarResNet(nn.Module):
    """The ResNet of depth 6n + 2 for 32 x 32 images (He et al. 2016, section 4.2): n = 1 is resnet8, n = 3 resnet20."""

    def __init__(self, blocks_per_stage: int) -> None:
        super().__init__()
        self.num_features = 64
        self.stem = nn.Sequential(conv3x3(3, 16), nn.BatchNorm2d(16), nn.ReLU())
        self.stages = _stages(16, (16, 32, 64), blocks_per_stage, BasicBlock)
        init_convolutions(self)

    def forward(self, x: Tensor) -> Tensor:
        return spatial_mean(self.stages(self.stem(x)))

    @property
    def blocks(self) -> dict[str, nn.Module]:
        return {"stem": self.stem, **dict(self.stages.named_children())}


class WideBlock(nn.Module):
    """Normalise, activate, convolve, twice; the shortcut is a 1 x 1 convolution where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(inputs), conv3x3(inputs, outputs, stride)
        self.bn2, self.conv2 = nn.BatchNorm2d(outputs), conv3x3(outputs, outputs)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if inputs != outputs else None

    def forward(self, x: Tensor) -> Tensor:
        activated = functional.relu(self.bn1(x))
        # A convolution as shortcut gets the activated input, an identity the raw one (Zagoruyko & Komodakis 2016).
        shortcut = x if self.shortcut is None else self.shortcut(activated)
        return self.conv2(functional.relu(self.bn2(self.conv1(activated)))) + shortcut


class WideResNet(nn.Module):
    """WRN-depth-factor (Zagoruyko & Komodakis 2016): (depth - 4) / 6 blocks per stage, `factor` times the usual width."""

    def __init__(self, depth: int, factor: int) -> None:
        super().__init__()
        self.num_features = 64 * factor
        self.stem = conv3x3(3, 16)
        self.stages = _stages(16, (16 * factor, 32 * factor, 64 * factor), (depth - 4) // 6, WideBlock)
        self.last = nn.Sequential(nn.BatchNorm2d(self.num_features), nn.ReLU())
        init_convolutions(self)

    def forward(self, x: Tensor) -> Tensor:
        return spatial_mean(self.last(self.stages(self.stem(x.to(memory_format=torch.channels_last)))))

    @property
    def blocks(self) -> dict[str, nn.Module]:
        return {"stem": self.stem, **dict(self.stages.named_children()), "last": self.last}


def _stages(inputs: int, widths: Sequence[int], count: int, block: Callable[[int, int, int], nn.Module]) -> nn.Sequential:
    """Return `count` blocks of each width; every stage but the first begins with a stride of 2."""
    stages: OrderedDict[str, nn.Module] = OrderedDict()
    for stage, outputs in enumerate(widths, start=1):
        for number in range(count):
            stages[f"stage{stage}_{number}"] = block(inputs, outputs, 2 if stage > 1 and number == 0 else 1)
            inputs = outputs
    return nn.Sequential(stages)


class AllConvolutional(Stacked):
    """All-CNN-C (Springenberg et al. 2015) with batch normalisation, and with pooling before the final layer, not after."""

    memory_format = torch.channels_last

    # outputs, kernel, stride and padding of each layer except the final one
    LAYERS = (
        (96, 3, 1, 1), (96, 3, 1, 1), (96, 3, 2, 1),
        (192, 3, 1, 1), (192, 3, 1, 1), (192, 3, 2, 1),
        (192, 3, 1, 0), (192, 1, 1, 0),
    )  # fmt: skip

    def __init__(self) -> None:
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        inputs = 3
        for number, (outputs, kernel, stride, padding) in enumerate(self.LAYERS, start=1):
            convolution = nn.Conv2d(inputs, outputs, kernel, stride, padding, bias=False)
            layers[f"conv{number}"] = nn.Sequential(convolution, nn.BatchNorm2d(outputs), nn.ReLU())
            inputs = outputs
        super().__init__(layers, inputs)
        init_convolutions(self)


class Decorrelation(nn.Module):
    """The 2 x 2 patch at each pixel as 24 channels: mean and three differences, of brightness and two opponent colours.

    The first layer of a network for natural images mostly learns to decorrelate neighbouring pixels and the three colours.
    Doing that beforehand lets networks of this kind learn CIFAR-10 in a few epochs (Page 2018; Jordan 2024, who fits the
    transform to the data; this one is fixed). The twelve channels are nearly uncorrelated in natural images, and a norm
    without parameters scales them to unit variance, which whitens them. Each is returned with both signs, so that the ReLU
    loses nothing.
    """

    squares: Tensor

    def __init__(self) -> None:
        super().__init__()
        differences = torch.tensor([[1, 1, 1, 1], [1, -1, 1, -1], [1, 1, -1, -1], [1, -1, -1, 1]]) / 2
        colours = torch.tensor([[1, 1, 1], [1, 0, -1], [1, -2, 1]]) / torch.tensor([[3], [2], [6]]).sqrt()
        orthogonal = torch.einsum("dp,kc->dkcp", differences, colours).reshape(12, 3, 2, 2)
        self.register_buffer("squares", orthogonal, persistent=False)
        # The finest colour differences are mostly noise: this epsilon keeps them below unit variance.
        self.norm = nn.BatchNorm2d(12, eps=5e-4, affine=False)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(functional.conv2d(functional.pad(x, (0, 1, 0, 1)), self.squares))
        return functional.relu(torch.cat([x, -x], 1))


class PooledBlock(nn.Module):
    """A convolution whose output is max-pooled to half the side, then a convolution with a shortcut around it."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv3x3(inputs, outputs), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = conv3x3(outputs, outputs), nn.BatchNorm2d(outputs)

    def forward(self, x: Tensor) -> Tensor:
        x = functional.relu(self.bn1(functional.max_pool2d(self.conv1(x), 2)))
        return x + functional.relu(self.bn2(self.conv2(x)))


class PooledResNet(Stacked):
    """A fixed decorrelating stem and one block per width, each at half the side of the one before; three make `resnet7`.

    The first width is small: at the full side a channel costs four times as much as one block later.
    """

    memory_format = torch.channels_last

    def __init__(self, widths: Sequence[int] = (32, 96, 128)) -> None:
        layers: OrderedDict[str, nn.Module] = OrderedDict(stem=Decorrelation())
        inputs = 24
        for number, width in enumerate(widths, start=1):
            layers[f"block{number}"] = PooledBlock(inputs, width)
            inputs = width
        super().__init__(layers, inputs)
        init_convolutions(self)
