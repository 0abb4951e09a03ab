"""A transform of one's own, any function of an image: torchvision's `Compose`, timm's, a line of Python.

Stored outputs are known by what made them, and a function has no name that changes when it does. So it is known by what it
does with a few fixed images of noise, whose sizes are such that another resize, crop, filter or mean shows.
"""

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from zoo.core import files
from zoo.datasets import ResizeMode
from zoo.datasets.images import to_rgb
from zoo.errors import InputError

_SIZES = ((64, 48), (301, 400), (512, 512), (17, 90))


@functools.cache
def noise() -> tuple[Image.Image, ...]:
    """The images that a function is known by."""
    rng = np.random.default_rng(0)
    return tuple(Image.fromarray(rng.integers(0, 256, (height, width, 3), np.uint8)) for width, height in _SIZES)


class UserTransform:
    """`function` of an RGB image as the transform of a model; its results are the network's inputs as they are."""

    def __init__(self, function: Callable[[Image.Image], Any], name: str) -> None:
        self.function = function
        self.name = name
        results = [self(image) for image in noise()]
        for image, result in zip(noise(), results, strict=True):
            if result.shape != results[0].shape:
                raise InputError(
                    f"{name}: transform: expected inputs of one shape, found {list(results[0].shape)} and "
                    f"{list(result.shape)} for images of other sizes; resize to a fixed size"
                )
            if not torch.equal(result, self(image)):
                raise InputError(
                    f"{name}: transform: gives another result for the same image each time; use the one for evaluation"
                )
        self.size = tuple(results[0].shape)
        self.fingerprint = files.digest(f"{r.dtype} {list(r.shape)} ".encode() + r.numpy().tobytes() for r in results)[:16]

    def __call__(self, image: Image.Image) -> Tensor:
        result = self.function(to_rgb(image))
        if isinstance(result, np.ndarray):
            result = torch.from_numpy(result)
        if not isinstance(result, Tensor):
            raise InputError(
                f"{self.name}: transform: expected a tensor or an array for an image, found {type(result).__name__}"
            )
        return (result.float() if result.dtype == torch.float64 else result).contiguous()

    def pixels(self, image: Image.Image) -> Tensor:
        return self(image)

    def normalise(self, batch: Tensor) -> Tensor:
        return batch

    def with_resize_mode(self, resize_mode: ResizeMode) -> "UserTransform":
        if resize_mode != "evaluation":
            raise InputError(
                f"{self.name}: its transform is a function of its own, which cannot show images as for {resize_mode}"
            )
        return self
