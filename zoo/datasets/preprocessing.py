"""Apply the transform of a card to images: from an RGB image to the network's input."""

import hashlib
import json
import math
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from zoo.cards.card import Transform
from zoo.datasets import ResizeMode
from zoo.datasets.images import to_rgb

_FILTERS = {
    "nearest": Image.Resampling.NEAREST,
    "bilinear": Image.Resampling.BILINEAR,
    "bicubic": Image.Resampling.BICUBIC,
    "box": Image.Resampling.BOX,
    "lanczos": Image.Resampling.LANCZOS,
}


_MAX_ASPECT_RATIO = 32  # longer images are cropped before they are resized


class Preprocessing(Protocol):
    """The interface of a model's `transform`. It can be pickled, so that loader workers may apply it."""

    @property
    def fingerprint(self) -> str:
        """A hash of everything that determines the result; part of the key of stored outputs."""

    @property
    def size(self) -> tuple[int, ...]:
        """The shape of one input."""

    @property
    def pixels_key(self) -> Hashable:
        """A value that is equal for two transforms only if their `pixels` are equal for every image."""

    def __call__(self, image: Image.Image) -> Tensor:
        """Return the network's input for one image, in float32."""

    def pixels(self, image: Image.Image) -> Tensor:
        """Return the input before normalisation, in uint8: a quarter of the bytes to send to a device."""

    def normalise(self, batch: Tensor) -> Tensor:
        """Return a batch of `pixels` as a batch of inputs, on the batch's device."""

    def with_resize_mode(self, resize_mode: ResizeMode) -> "Preprocessing":
        """Return the same preprocessing with another resize mode."""


@dataclass(frozen=True)
class Pipeline:
    """Resize, centre crop, scale to 0..1, subtract the mean, divide by the standard deviation.

    >>> spec = Transform((3, 2, 2), (2,), "bicubic", (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
    >>> Pipeline(spec)(Image.new("RGB", (4, 8), "white")).shape
    torch.Size([3, 2, 2])
    """

    spec: Transform

    @cached_property
    def fingerprint(self) -> str:
        return _hash(self.spec.settings)

    @property
    def size(self) -> tuple[int, ...]:
        return self.spec.size

    @property
    def pixels_key(self) -> Hashable:
        """All settings but mean and standard deviation; the mean only if images are padded with that colour.

        >>> spec = Transform((3, 2, 2), (2,), "bicubic", (0.5, 0.5, 0.5), (0.5, 0.5, 0.5))
        >>> Pipeline(spec).pixels_key == Pipeline(replace(spec, mean=(0.4, 0.4, 0.4))).pixels_key
        True
        """
        spec = self.spec
        return spec.size, spec.resize, spec.interpolation, spec.fit, spec.grey, self._fill()

    def __call__(self, image: Image.Image) -> Tensor:
        return self.normalise(self.pixels(image))

    def pixels(self, image: Image.Image) -> Tensor:
        """Return the input [C, H, W] before normalisation, in uint8."""
        spec, image = self.spec, self.colours(image)
        longest = _MAX_ASPECT_RATIO * min(image.size)
        if max(image.size) > longest and spec.fit == "squash" and len(spec.resize) == 1:
            # Only the middle of a very long image is in the crop; all of it, enlarged, might not fit into memory.
            image = _centre_crop(image, min(image.width, longest), min(image.height, longest), ())
        width, height = self._resized(image.width, image.height)
        if (width, height) != image.size:
            image = image.resize((width, height), _FILTERS[spec.interpolation])
        image = _centre_crop(image, spec.size[2], spec.size[1], self._fill())
        array = np.array(image)
        array = array[None] if array.ndim == 2 else np.moveaxis(array, -1, 0)
        return torch.from_numpy(np.ascontiguousarray(array))

    def colours(self, image: Image.Image) -> Image.Image:
        """Return the image with the network's number of channels, without colours if the network was trained on grey."""
        coloured, image = image.mode != "L", to_rgb(image)
        if self.spec.size[0] == 1:
            return image.convert("L")
        return image.convert("L").convert("RGB") if self.spec.grey and coloured else image

    def normalise(self, batch: Tensor) -> Tensor:
        """Return uint8 pixels [..., C, H, W] as inputs in float32, bit-identical to torchvision's result."""
        mean = torch.tensor(self.spec.mean, dtype=torch.float32, device=batch.device)[:, None, None]
        std = torch.tensor(self.spec.std, dtype=torch.float32, device=batch.device)[:, None, None]
        return batch.to(torch.float32).div_(255).sub_(mean).div_(std)

    def with_resize_mode(self, resize_mode: ResizeMode) -> "Pipeline":
        """Return the pipeline with another resize mode. `transfer` leaves an image of the network's input size unchanged.

        >>> Pipeline(Transform((3, 2, 2), (3,), "bicubic", (0.5,) * 3, (0.5,) * 3)).with_resize_mode("transfer").spec.resize
        (2,)
        """
        if resize_mode == "evaluation":
            return self
        _, height, width = self.spec.size
        if height == width:
            return Pipeline(replace(self.spec, resize=(height,), fit="squash"))
        return Pipeline(replace(self.spec, resize=(height, width), fit="cover"))

    def _resized(self, width: int, height: int) -> tuple[int, int]:
        """Return width and height after resizing."""
        resize = self.spec.resize
        if len(resize) == 1:
            # As in torchvision, the longer side is rounded down.
            short = resize[0]
            return (short, int(short * height / width)) if width <= height else (int(short * width / height), short)
        if self.spec.fit == "squash":
            return resize[1], resize[0]
        ratios = width / resize[1], height / resize[0]
        ratio = min(ratios) if self.spec.fit == "cover" else max(ratios)
        return max(round(width / ratio), 1), max(round(height / ratio), 1)

    def _fill(self) -> tuple[int, ...]:
        """Return the colour outside the image: black, or the mean if the image is fitted inside the crop."""
        if self.spec.fit != "inside":
            return (0,) * self.spec.size[0]
        return tuple(min(255, max(0, round(255 * mean))) for mean in self.spec.mean)


@dataclass(frozen=True)
class Packed:
    """Several transforms of one image, concatenated in one tensor [1, 1, L]: the input of a model of several networks."""

    parts: tuple[Preprocessing, ...]

    @cached_property
    def fingerprint(self) -> str:
        return _hash([part.fingerprint for part in self.parts])

    @property
    def size(self) -> tuple[int, ...]:
        return 1, 1, sum(math.prod(part.size) for part in self.parts)

    @property
    def pixels_key(self) -> Hashable:
        return "packed", *(part.pixels_key for part in self.parts)

    def __call__(self, image: Image.Image) -> Tensor:
        return self._pack([part(image) for part in self.parts])

    def pixels(self, image: Image.Image) -> Tensor:
        """Return the inputs [1, 1, L] before normalisation, in uint8."""
        return self._pack([part.pixels(image) for part in self.parts])

    def normalise(self, batch: Tensor) -> Tensor:
        pairs = zip(self.parts, self.unpack(batch), strict=True)
        return torch.cat([part.normalise(piece).flatten(1) for part, piece in pairs], 1)[:, None, None]

    def with_resize_mode(self, resize_mode: ResizeMode) -> "Packed":
        return Packed(tuple(part.with_resize_mode(resize_mode) for part in self.parts))

    def unpack(self, batch: Tensor) -> list[Tensor]:
        """Return a batch [N, 1, 1, L] as one batch [N, C, H, W] for each transform."""
        lengths = [math.prod(part.size) for part in self.parts]
        pieces = batch.flatten(1).split(lengths, 1)
        return [piece.reshape(-1, *part.size) for part, piece in zip(self.parts, pieces, strict=True)]

    @staticmethod
    def _pack(pieces: Sequence[Tensor]) -> Tensor:
        return torch.cat([piece.flatten() for piece in pieces])[None, None]


def _centre_crop(image: Image.Image, width: int, height: int, fill: tuple[int, ...]) -> Image.Image:
    """Return the centre of the image, padded with the colour `fill` if the image is smaller than the crop."""
    if image.width < width or image.height < height:
        outer = max(width, image.width), max(height, image.height)
        canvas = Image.new(image.mode, outer, fill if len(fill) > 1 else fill[0])
        canvas.paste(image, ((outer[0] - image.width) // 2, (outer[1] - image.height) // 2))
        image = canvas
    if image.size == (width, height):
        return image
    left, top = round((image.width - width) / 2), round((image.height - height) / 2)
    return image.crop((left, top, left + width, top + height))


def _hash(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()[:16]
