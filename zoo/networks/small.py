"""Networks for small images: CIFAR ResNets, All-CNN-C with batch normalisation, Wide ResNets.

Each maps images [N, 3, H, W] to pooled features [N, `num_features`] and names the modules whose outputs are its blocks.
"""

from collections import OrderedDict

import torch
from torch import Tensor, nn
from torch.nn import functional


def conv3x3(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, 3, stride, padding=1, bias=False)


def spatial_mean(x: Tensor) -> Tensor:
    return x.mean((2, 3))


class BasicBlock(nn.Module):
    """Two convolutions and a shortcut that has no parameters: where the shape changes it strides and pads with zeros."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1, self.bn1 = conv3x3(inputs, outputs, stride), nn.BatchNorm2d(outputs)
        self.conv2, self.bn2 = conv3x3(outputs, outputs), nn.BatchNorm2d(outputs)
        # A block that starts close to its shortcut makes for calm first steps (Goyal et al. 2017). Close, not equal: with a
        # scale of zero, channels that the shortcut pads with zeros would be exactly zero before the ReLU, where no gradient
        # passes, and stay so for ever.
        nn.init.constant_(self.bn2.weight, 0.1)
        self.stride, self.padding = stride, outputs - inputs

    def forward(self, x: Tensor) -> Tensor:
        shortcut = functional.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.padding))
        y = self.bn2(self.conv2(functional.relu(self.bn1(self.conv1(x)))))
        return functional.relu(y + shortcut)


class CifarResNet(nn.Module):
    """The ResNet of depth 6n + 2 for 32 x 32 images (He et al. 2016, section 4.2): n = 1 is resnet8, n = 3 resnet20."""

    def __init__(self, blocks_per_stage: int, width: int = 16) -> None:
        super().__init__()
        self.num_features = 4 * width
        self.stem = nn.Sequential(conv3x3(3, width), nn.BatchNorm2d(width), nn.ReLU())
        stages: OrderedDict[str, nn.Module] = OrderedDict()
        inputs = width
        for stage, outputs in enumerate((width, 2 * width, 4 * width), start=1):
            for block in range(blocks_per_stage):
                stages[f"stage{stage}_{block}"] = BasicBlock(inputs, outputs, 2 if stage > 1 and block == 0 else 1)
                inputs = outputs
        self.stages = nn.Sequential(stages)
        start_convolutions(self)

    def forward(self, x: Tensor) -> Tensor:
        return spatial_mean(self.stages(self.stem(x)))

    @property
    def blocks(self) -> dict[str, nn.Module]:
        return {"stem": self.stem, **dict(self.stages.named_children())}


class Stacked(nn.Module):
    """Named layers one after another, each of them a block, and the mean over all positions."""

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


class AllConvolutional(Stacked):
    """All-CNN-C (Springenberg et al. 2015) with batch normalisation; pooling comes before the final layer, not after."""

    memory_format = torch.channels_last

    # outputs, kernel, stride, padding of each layer but the final one
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
        start_convolutions(self)


class WideBlock(nn.Module):
    """Normalise, activate, convolve, twice; the shortcut is a 1 x 1 convolution where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(inputs), conv3x3(inputs, outputs, stride)
        self.bn2, self.conv2 = nn.BatchNorm2d(outputs), conv3x3(outputs, outputs)
        self.shortcut = nn.Conv2d(inputs, outputs, 1, stride, bias=False) if inputs != outputs else None

    def forward(self, x: Tensor) -> Tensor:
        activated = functional.relu(self.bn1(x))
        # A convolved shortcut sees the activated input, an identity the raw one (Zagoruyko & Komodakis 2016).
        shortcut = x if self.shortcut is None else self.shortcut(activated)
        return self.conv2(functional.relu(self.bn2(self.conv1(activated)))) + shortcut


class WideResNet(nn.Module):
    """WRN-depth-factor (Zagoruyko & Komodakis 2016): (depth - 4) / 6 blocks per stage, `factor` times the usual width."""

    def __init__(self, depth: int, factor: int) -> None:
        super().__init__()
        self.num_features = 64 * factor
        self.stem = conv3x3(3, 16)
        stages: OrderedDict[str, nn.Module] = OrderedDict()
        inputs = 16
        for stage, outputs in enumerate((16 * factor, 32 * factor, 64 * factor), start=1):
            for block in range((depth - 4) // 6):
                stages[f"stage{stage}_{block}"] = WideBlock(inputs, outputs, 2 if stage > 1 and block == 0 else 1)
                inputs = outputs
        self.stages = nn.Sequential(stages)
        self.last = nn.Sequential(nn.BatchNorm2d(inputs), nn.ReLU())
        start_convolutions(self)

    def forward(self, x: Tensor) -> Tensor:
        return spatial_mean(self.last(self.stages(self.stem(x.to(memory_format=torch.channels_last)))))

    @property
    def blocks(self) -> dict[str, nn.Module]:
        return {"stem": self.stem, **dict(self.stages.named_children()), "last": self.last}


def start_convolutions(network: nn.Module) -> None:
    """He et al.'s (2015) initial weights, which keep the size of activations through ReLUs."""
    with torch.no_grad():
        for module in network.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
