"""Any dataset's images made worse, as a spec: `cifar10:test~noise3` is the test images with noise of strength 3.

Five corruptions at five strengths: `noise` (Gaussian), `blur` (Gaussian), `contrast`, `pixelate` and `jpeg`. The constants
are those of ImageNet-C and, for images whose shorter side is below 64 pixels, of CIFAR-10-C (Hendrycks & Dietterich 2019).
ImageNet-C was made from images of about the size that networks see; so larger ones are first brought to a shorter side of
256, or the damage would be gone once they are.

An image's noise comes from a hash of its id: the same image is always damaged in the same way, whatever is selected of the
dataset, in whichever order or process.
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
from zoo.errors import InputError

SMALL = 64  # pixels of the shorter side below which an image is damaged as CIFAR-10-C's are
LARGE = 256
STRENGTHS = (1, 2, 3, 4, 5)
# By strength: of images as large as ImageNet-C's, and of small ones.
_CONSTANTS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "noise": ((0.08, 0.12, 0.18, 0.26, 0.38), (0.04, 0.06, 0.08, 0.09, 0.10)),  # standard deviation, of values from 0 to 1
    "blur": ((1, 2, 3, 4, 6), (0.4, 0.6, 0.7, 0.8, 1)),  # standard deviation in pixels
    "contrast": ((0.4, 0.3, 0.2, 0.1, 0.05), (0.75, 0.5, 0.4, 0.3, 0.15)),  # what remains of the distance to the mean
    "pixelate": ((0.6, 0.5, 0.4, 0.3, 0.25), (0.95, 0.9, 0.85, 0.75, 0.65)),  # what remains of the sides
    "jpeg": ((25, 18, 15, 10, 7), (80, 65, 58, 50, 40)),  # quality
}
NAMES = tuple(_CONSTANTS)
_WORD = re.compile(r"(?P<name>.*?)(?P<strength>\d*)\Z")


def check(word: str, spec: str) -> str:
    """A corruption with its strength, such as `noise3`, as it was given; an error where there is none such.

    >>> check("jpeg5", "digits~jpeg5")
    'jpeg5'
    """
    name, strength = _parts(word)
    if name not in NAMES or strength not in map(str, STRENGTHS):
        raise InputError(
            f"dataset {spec!r}: no corruption {word!r}; expected {', '.join(NAMES)}, each with a strength from "
            f"{STRENGTHS[0]} to {STRENGTHS[-1]}, such as ~noise3"
        )
    return word


def every() -> list[str]:
    """All corruptions with their strengths, for a spec to end in.

    >>> every()[:2], len(every())
    (['noise1', 'noise2'], 25)
    """
    return [f"{name}{strength}" for name in NAMES for strength in STRENGTHS]


def corrupted(dataset: Dataset, word: str, spec: str) -> Dataset:
    """The dataset with its images damaged; ids, labels and classes are the same.

    >>> from zoo.datasets import digits
    >>> clean = digits.load("test")
    >>> blurred = corrupted(clean, "blur5", "digits:test~blur5")
    >>> blurred[0].size == clean[0].size, blurred[0] == clean[0], blurred[0] == corrupted(clean, "blur5", "")[0]
    (True, False, True)
    """
    name, strength = _parts(check(word, spec))
    # Which bytes JPEG decodes to is up to the library.
    made_by = features.version("jpg") or "" if name == "jpeg" else ""
    return dataclasses.replace(
        dataset,
        name=f"{dataset.name}-{word}",
        spec=spec,
        image=functools.partial(_image, dataset, name, int(strength) - 1),
        fingerprint=files.digest([dataset.fingerprint, word, made_by, *map(str, _CONSTANTS[name])]),
        rows=None,  # the images are asked of the dataset, which knows its rows
    )


def _parts(word: str) -> tuple[str, str]:
    found = _WORD.match(word)
    assert found is not None  # it matches anything
    return found["name"], found["strength"]


def _image(dataset: Dataset, name: str, level: int, index: int) -> Image.Image:
    image = dataset[index]
    side = min(image.size)
    if side > LARGE:
        width, height = (max(1, round(length * LARGE / side)) for length in image.size)
        image = image.resize((width, height), Image.Resampling.BICUBIC)
    strength = _CONSTANTS[name][side < SMALL][level]
    return _DAMAGE[name](image, strength, str(dataset.ids[index]))


def _noise(image: Image.Image, sigma: float, row_id: str) -> Image.Image:
    from scipy.special import ndtri

    pixels = np.asarray(image)
    # A hash rather than a random generator: no version of a library can change it.
    digest = hashlib.shake_256(f"noise {row_id}".encode("utf-8", "surrogateescape")).digest(2 * pixels.size)
    uniform = (np.frombuffer(digest, "<u2").reshape(pixels.shape) + 0.5) / 2**16
    return _from_floats(pixels + 255 * sigma * ndtri(uniform))


def _blur(image: Image.Image, sigma: float, row_id: str) -> Image.Image:
    from scipy.ndimage import gaussian_filter

    return _from_floats(gaussian_filter(np.asarray(image, np.float64), (sigma, sigma, 0), mode="nearest"))


def _contrast(image: Image.Image, share: float, row_id: str) -> Image.Image:
    pixels = np.asarray(image, np.float64)
    mean = pixels.mean((0, 1))
    return _from_floats(mean + share * (pixels - mean))


def _pixelate(image: Image.Image, share: float, row_id: str) -> Image.Image:
    width, height = (max(1, int(share * length)) for length in image.size)
    return image.resize((width, height), Image.Resampling.BOX).resize(image.size, Image.Resampling.BOX)


def _jpeg(image: Image.Image, quality: float, row_id: str) -> Image.Image:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=int(quality))
    return Image.open(buffer).convert("RGB")


def _from_floats(pixels: Any) -> Image.Image:
    return Image.fromarray(np.clip(np.rint(pixels), 0, 255).astype(np.uint8))


_DAMAGE: dict[str, Callable[[Image.Image, float, str], Image.Image]] = {
    "noise": _noise, "blur": _blur, "contrast": _contrast, "pixelate": _pixelate, "jpeg": _jpeg,
}  # fmt: skip
