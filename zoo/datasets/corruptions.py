"""Corrupted images of any dataset, as part of its spec: `cifar10:test~noise3` is the test images with noise of strength 3.

Five corruptions at five strengths: `noise` (Gaussian), `blur` (Gaussian), `contrast`, `pixelate` and `jpeg`. The constants
are those of ImageNet-C and, for images whose shorter side is below 64 pixels, of CIFAR-10-C (Hendrycks & Dietterich 2019).
ImageNet-C was made from images of about the size of a network's input. Larger images are therefore first resized to a
shorter side of 256; otherwise the network's own resizing would remove the corruption.

The noise of an image derives from a hash of its id, so it does not depend on the selected rows, their order or the process.
"""

import dataclasses
import functools
import hashlib
import io
import re
from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image, features

from zoo.core import files
from zoo.datasets.dataset import Dataset
from zoo.errors import UnknownName

SMALL_SIDE = 64  # pixels; images with a shorter side below this get the constants of CIFAR-10-C
MAX_SIDE = 256  # pixels; images with a larger shorter side are resized to it first
STRENGTHS = (1, 2, 3, 4, 5)
# By strength: for images of ImageNet-C's size, and for small ones.
_CONSTANTS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "noise": ((0.08, 0.12, 0.18, 0.26, 0.38), (0.04, 0.06, 0.08, 0.09, 0.10)),  # standard deviation, of values from 0 to 1
    "blur": ((1, 2, 3, 4, 6), (0.4, 0.6, 0.7, 0.8, 1)),  # standard deviation in pixels
    "contrast": ((0.4, 0.3, 0.2, 0.1, 0.05), (0.75, 0.5, 0.4, 0.3, 0.15)),  # remaining fraction of the distance to the mean
    "pixelate": ((0.6, 0.5, 0.4, 0.3, 0.25), (0.95, 0.9, 0.85, 0.75, 0.65)),  # remaining fraction of the sides
    "jpeg": ((25, 18, 15, 10, 7), (80, 65, 58, 50, 40)),  # quality
}
NAMES = tuple(_CONSTANTS)
_WORD = re.compile(r"(?P<name>.*?)(?P<strength>\d*)\Z")


def check(word: str, spec: str) -> str:
    """Return a corruption with its strength, such as `noise3`, after checking that it exists.

    >>> check("jpeg5", "digits~jpeg5")
    'jpeg5'
    """
    name, strength = _parts(word)
    if name not in NAMES or strength not in map(str, STRENGTHS):
        strengths = f"each with a strength from {STRENGTHS[0]} to {STRENGTHS[-1]}, such as ~noise3"
        raise UnknownName(
            kind="corruption", name=word, where=f"dataset {spec!r}", expected=f"one of {', '.join(NAMES)}, {strengths}"
        )
    return word


def every() -> list[str]:
    """Return all corruptions with their strengths, as they are written in a spec.

    >>> every()[:2], len(every())
    (['noise1', 'noise2'], 25)
    """
    return [f"{name}{strength}" for name in NAMES for strength in STRENGTHS]


def corrupted(dataset: Dataset, word: str, spec: str) -> Dataset:
    """Return the dataset with corrupted images, and the same ids, labels and classes.

    Args:
        dataset: the clean dataset.
        word: a corruption with its strength, such as `noise3`.
        spec: the spec of the corrupted dataset.

    >>> from zoo.datasets import load
    >>> clean = load("digits:test")
    >>> blurred = corrupted(clean, "blur5", "digits:test~blur5")
    >>> blurred[0].size == clean[0].size, blurred[0] == clean[0], blurred[0] == corrupted(clean, "blur5", "")[0]
    (True, False, True)
    """
    name, strength = _parts(check(word, spec))
    library = features.version("jpg") or "" if name == "jpeg" else ""  # decoded pixels may differ between versions
    return dataclasses.replace(
        dataset,
        name=f"{dataset.name}-{word}",
        spec=spec,
        image=functools.partial(_image, dataset, name, int(strength) - 1),
        fingerprint=files.digest([dataset.fingerprint, word, library, *map(str, _CONSTANTS[name])]),
        rows=None,  # `image` already maps them, through the clean dataset
    )


def _parts(word: str) -> tuple[str, str]:
    found = _WORD.match(word)
    assert found is not None  # it matches anything
    return found["name"], found["strength"]


def _image(dataset: Dataset, name: str, level: int, index: int) -> Image.Image:
    image = dataset[index]
    side = min(image.size)
    if side > MAX_SIDE:
        width, height = (max(1, round(length * MAX_SIDE / side)) for length in image.size)
        image = image.resize((width, height), Image.Resampling.BICUBIC)
    strength = _CONSTANTS[name][side < SMALL_SIDE][level]
    return _CORRUPT[name](image, strength, str(dataset.ids[index]))


def _noise(image: Image.Image, sigma: float, row_id: str) -> Image.Image:
    from scipy.special import ndtri

    pixels = np.asarray(image)
    # A hash instead of a random generator, whose numbers could change with its version.
    digest = hashlib.shake_256(f"noise {row_id}".encode("utf-8", "surrogateescape")).digest(2 * pixels.size)
    uniform = (np.frombuffer(digest, "<u2").reshape(pixels.shape) + 0.5) / 2**16
    return _from_floats(pixels + 255 * sigma * ndtri(uniform))


def _blur(image: Image.Image, sigma: float, row_id: str) -> Image.Image:
    from scipy.ndimage import gaussian_filter

    return _from_floats(gaussian_filter(np.asarray(image, np.float64), (sigma, sigma, 0), mode="nearest"))


def _contrast(image: Image.Image, fraction: float, row_id: str) -> Image.Image:
    pixels = np.asarray(image, np.float64)
    mean = pixels.mean((0, 1))
    return _from_floats(mean + fraction * (pixels - mean))


def _pixelate(image: Image.Image, fraction: float, row_id: str) -> Image.Image:
    width, height = (max(1, int(fraction * length)) for length in image.size)
    return image.resize((width, height), Image.Resampling.BOX).resize(image.size, Image.Resampling.BOX)


def _jpeg(image: Image.Image, quality: float, row_id: str) -> Image.Image:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=int(quality))
    return Image.open(buffer).convert("RGB")


def _from_floats(pixels: Any) -> Image.Image:
    return Image.fromarray(np.clip(np.rint(pixels), 0, 255).astype(np.uint8))


_CORRUPT: dict[str, Callable[[Image.Image, float, str], Image.Image]] = {
    "noise": _noise, "blur": _blur, "contrast": _contrast, "pixelate": _pixelate, "jpeg": _jpeg,
}  # fmt: skip
