"""MobileNetV2, DenseNet and ConvNeXt, scaled down for small images.

Nearly all layers work at half the side of the image or less, where they take a quarter of the time.
"""

from collections import OrderedDict

import torch
from torch import Tensor, nn

from zoo.networks.small import Stacked, conv3x3, init_convolutions


class InvertedResidual(nn.Module):
    """Widen by a 1 x 1 convolution, convolve depthwise, narrow again without ReLU (Sandler et al. 2018)."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        hidden = 3 * inputs
        depthwise = nn.Conv2d(hidden, hidden, 3, stride, padding=1, groups=hidden, bias=False)
        self.layers = nn.Sequential(
            nn.Conv2d(inputs, hidden, 1, bias=False), nn.BatchNorm2d(hidden), nn.ReLU6(),
            depthwise, nn.BatchNorm2d(hidden), nn.ReLU6(),
            nn.Conv2d(hidden, outputs, 1, bias=False), nn.BatchNorm2d(outputs),
        )  # fmt: skip
        self.keeps_shape = stride == 1 and inputs == outputs

    def forward(self, x: Tensor) -> Tensor:
        return x + self.layers(x) if self.keeps_shape else self.layers(x)


class MobileNet(Stacked):
    """MobileNetV2 for small images."""

    memory_format = torch.channels_last  # makes depthwise convolutions 1.5 times as fast on a CPU

    def __init__(self) -> None:
        inputs = 32
        layers: OrderedDict[str, nn.Module] = OrderedDict()
        layers["stem"] = nn.Sequential(conv3x3(3, inputs, 2), nn.BatchNorm2d(inputs), nn.ReLU6())
        for stage, (outputs, count) in enumerate(((32, 1), (64, 2), (128, 2)), start=1):
            for block in range(count):
                stride = 2 if stage > 1 and block == 0 else 1
                layers[f"stage{stage}_{block}"] = InvertedResidual(inputs, outputs, stride)
                inputs = outputs
        features = 4 * inputs
        last = nn.Conv2d(inputs, features, 1, bias=False)
        layers["last"] = nn.Sequential(last, nn.BatchNorm2d(features), nn.ReLU6())
        super().__init__(layers, features)
        init_convolutions(self)


class DenseLayer(nn.Module):
    """The input and, appended to it, `growth` new channels computed through a bottleneck (Huang et al. 2017)."""

    def __init__(self, inputs: int, growth: int) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.BatchNorm2d(inputs), nn.ReLU(), nn.Conv2d(inputs, 4 * growth, 1, bias=False),
            nn.BatchNorm2d(4 * growth), nn.ReLU(), conv3x3(4 * growth, growth),
        )  # fmt: skip

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat([x, self.layers(x)], 1)


class DenseNet(Stacked):
    """DenseNet-BC: dense blocks with transitions between them that halve the channels and the side."""

    memory_format = torch.channels_last

    def __init__(self) -> None:
        growth = 16
        width = 2 * growth
        layers: OrderedDict[str, nn.Module] = OrderedDict(stem=conv3x3(3, width, 2))
        for stage, count in enumerate((4, 4, 4), start=1):
            if stage > 1:
                halve = nn.Conv2d(width, width // 2, 1, bias=False)
                layers[f"transition{stage}"] = nn.Sequential(nn.BatchNorm2d(width), nn.ReLU(), halve, nn.AvgPool2d(2))
                width //= 2
            dense = [DenseLayer(width + number * growth, growth) for number in range(count)]
            layers[f"dense{stage}"] = nn.Sequential(*dense)
            width += count * growth
        layers["last"] = nn.Sequential(nn.BatchNorm2d(width), nn.ReLU())
        super().__init__(layers, width)
        init_convolutions(self)


class ConvNeXt(Stacked):
    """ConvNeXt (Liu et al. 2022) in three stages for small images, with timm's blocks and a smaller kernel.

    The stem is a convolution at the full side. The original stem, non-overlapping 2 x 2 patches, learns too little in a
    short training.
    """

    memory_format = torch.channels_last

    def __init__(self) -> None:
        from timm.layers import LayerNorm2d
        from timm.models.convnext import ConvNeXtBlock

        inputs = 24
        first = nn.Sequential(conv3x3(3, inputs), nn.BatchNorm2d(inputs), nn.ReLU())
        layers: OrderedDict[str, nn.Module] = OrderedDict(stem=first)
        for stage, (width, depth) in enumerate(((40, 1), (80, 1), (160, 2)), start=1):
            layers[f"down{stage}"] = nn.Sequential(LayerNorm2d(inputs), nn.Conv2d(inputs, width, 2, stride=2))
            for block in range(depth):
                # The original layer scale of 1e-6 is meant for 300 epochs and learns too slowly in a short training.
                layers[f"stage{stage}_{block}"] = ConvNeXtBlock(width, kernel_size=5, ls_init_value=0.1, act_layer="relu")
            inputs = width
        super().__init__(layers, inputs)
        self.norm = nn.LayerNorm(inputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.norm(super().forward(x))
