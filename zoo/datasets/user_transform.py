"""A user's preprocessing as the transform of a model: any function of an image, such as torchvision's `Compose`.

Stored outputs are identified by what produced them, but a function has no name that changes with its code. So a function is
identified by its results on a few fixed noise images of different sizes, which differ for another resize, crop or mean.
"""

import functools
from collections.abc import Callable, Hashable, Sequence
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
    """Return the images that identify a function."""
    rng = np.random.default_rng(0)
    return tuple(Image.fromarray(rng.integers(0, 256, (height, width, 3), np.uint8)) for width, height in _SIZES)


class UserTransform:
    """The transform of a model from a function of an RGB image, whose results are the network's inputs.

    A function that does not resize, such as `ToTensor` followed by `Normalize`, returns inputs [C, H, W] of the image's
    size. Then all images must have the size of the first one.

    Args:
        function: from a PIL image to a tensor or array.
        name: the model's name, for errors.
    """

    def __init__(self, function: Callable[[Image.Image], Any], name: str) -> None:
        self.function = function
        self.name = name
        results = [self._apply(image) for image in noise()]
        shapes = [tuple(result.shape) for result in results]
        self.keeps_size = all(
            shape == (*shapes[0][:1], image.height, image.width) for shape, image in zip(shapes, noise(), strict=True)
        )
        if not self.keeps_size and len(set(shapes)) > 1:
            other = next(shape for shape in shapes if shape != shapes[0])
            raise InputError(
                f"returns shapes {list(shapes[0])} and {list(other)} for images of different sizes",
                where=name,
                argument="transform",
                hint="Resize to a fixed size",
            )
        if not all(torch.equal(result, self._apply(image)) for image, result in zip(noise(), results, strict=True)):
            raise InputError(
                "returns different results for the same image",
                where=name,
                argument="transform",
                hint="Use the transform for evaluation",
            )
        self.default_size = shapes[0]  # of an input, until the first image is seen
        self._seen_size: tuple[int, ...] | None = None
        self.fingerprint = files.digest(f"{r.dtype} {list(r.shape)} ".encode() + r.numpy().tobytes() for r in results)[:16]

    def __deepcopy__(self, memo: dict[int, Any]) -> "UserTransform":
        return self  # copies of a model on other devices share the size of the first image

    @property
    def size(self) -> tuple[int, ...]:
        """The shape of one input; for a function that does not resize, of the first image seen."""
        return self._seen_size or self.default_size

    @property
    def pixels_key(self) -> Hashable:
        return UserTransform, id(self.function)  # two functions may differ although they agree on the noise images

    def __call__(self, image: Image.Image) -> Tensor:
        result = self._apply(image)
        self.check_size(result.shape)
        return result

    def check_size(self, shape: Sequence[int]) -> None:
        """Raise an error if an input has another shape than the first one and the function does not resize."""
        if not self.keeps_size:
            return
        if self._seen_size is None:
            self._seen_size = tuple(shape)
        if tuple(shape) != self._seen_size:
            (height, width), (other_height, other_width) = self._seen_size[1:], tuple(shape)[1:]
            raise InputError(
                f"does not resize, and images have different sizes: {width} x {height} and {other_width} x {other_height}",
                where=self.name,
                argument="transform",
                hint="Add a Resize to the transform",
            )

    def squares(self, side: int) -> Tensor:
        """Return the inputs of the noise images resized to `side` x `side`, [4, C, side, side] if the size is kept."""
        return torch.stack([self._apply(image.resize((side, side))) for image in noise()])

    def _apply(self, image: Image.Image) -> Tensor:
        result = self.function(to_rgb(image))
        if isinstance(result, np.ndarray):
            result = torch.from_numpy(result)
        if not isinstance(result, Tensor):
            raise InputError(
                f"returns {type(result).__name__} for an image instead of a tensor or an array",
                where=self.name,
                argument="transform",
            )
        return (result.float() if result.dtype == torch.float64 else result).contiguous()

    def pixels(self, image: Image.Image) -> Tensor:
        return self(image)

    def normalise(self, batch: Tensor) -> Tensor:
        return batch

    def with_resize_mode(self, resize_mode: ResizeMode) -> "UserTransform":
        if resize_mode != "evaluation":
            raise InputError(
                f"its transform is a custom function, which has no resize mode {resize_mode!r}",
                where=self.name,
                argument="resize_mode",
            )
        return self
