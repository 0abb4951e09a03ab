"""A network of a few numbers that looks at images, for tests that are about everything around the network."""

import numpy as np
import torch
from PIL import Image
from torch import Tensor, nn

from zoo.cards.card import Card, Training, Transform
from zoo.datasets.preprocessing import Pipeline
from zoo.models.model import Model
from zoo.networks.network import Network


class Body(nn.Module):
    """[N, 3, 8, 8] to [N, 6]; depends on every pixel, and on chance where it is left in training mode."""

    def __init__(self) -> None:
        super().__init__()
        self.drop = nn.Dropout(0.5)
        self.mix = nn.Linear(192, 6)
        self.calls: list[int] = []

    def forward(self, batch: Tensor) -> Tensor:
        self.calls.append(len(batch))
        return torch.tanh(self.mix(self.drop(batch.flatten(1))))


def small_model(name: str = "small", classes: tuple[str, ...] = tuple("0123456789"), seed: int = 0) -> Model:
    """A model with random weights that depend on `seed`; without classes it is a bare encoder."""
    generator = torch.Generator().manual_seed(seed)
    body, head = Body(), nn.Linear(6, len(classes)) if classes else None
    for module in (body, *([head] if head is not None else [])):
        for parameter in module.parameters():
            parameter.data = torch.randn(parameter.shape, generator=generator) * 0.3
    spec = Transform((3, 8, 8), (8,), "bilinear", (0.5, 0.5, 0.5), (0.25, 0.25, 0.25))
    card = Card(
        name=name, source="local", family="small", architecture="small", labels="digits" if classes else "none",
        link="softmax", head="trained" if classes else "none", training=Training("digits", "supervised", "softmax"),
        transform=spec,
    )  # fmt: skip
    network = Network(body, head, {"mix": body.mix}).eval().requires_grad_(False)
    return Model(card, network, Pipeline(spec), classes)


def save_images(folder, count: int, classes=("cat", "dog"), size=(12, 9), suffix=".png") -> None:
    """`count` different images in each of the class folders."""
    rng = np.random.default_rng(len(classes) * 1000 + count)
    for name in classes:
        (folder / name).mkdir(parents=True)
        for index in range(count):
            pixels = rng.integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
            Image.fromarray(pixels).save(folder / name / f"{index}{suffix}")
