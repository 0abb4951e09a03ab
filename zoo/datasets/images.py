"""Images in whatever form they come, as 8-bit RGB; what cannot be one is an error that names it.

Only the formats named here are opened, whatever a file's name ends in: none that starts another program (EPS runs
Ghostscript) or follows what the file says elsewhere. An image of more than `ZOO_MAX_PIXELS` is refused unread.

Nothing is guessed: floating-point pixels have no agreed range and are refused, and a file that does not decode is an
error with its path. What has one meaning is converted: grey and palette to RGB, CMYK to RGB, 16 bits to 8 by dividing by
257 (so that 65535 becomes 255), an EXIF rotation is carried out, transparent pixels are laid on white as a viewer would.
"""

import functools
import io
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from PIL import Image, ImageOps

from zoo.core import limits
from zoo.errors import InputError, ZooError

FORMATS = ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "AVIF", "PPM", "MPO", "JPEG2000", "DIB", "TGA", "ICO")

Images: TypeAlias = (
    Any  # one or many of: PIL image, path, uint8 array [H, W(, C)] or [N, H, W, C], uint8 tensor [(N, )C, H, W]
)


def decoded(images: Images) -> Iterator[Image.Image]:
    """Each image of `images` as RGB, in order, decoded when its turn comes.

    >>> [image.size for image in decoded(np.zeros((2, 4, 6, 3), np.uint8))]
    [(6, 4), (6, 4)]
    """
    if isinstance(images, (str, os.PathLike, Image.Image, bytes)) or (_is_array(images) and images.ndim in (2, 3)):
        yield one(images, "image")
    elif isinstance(images, Iterable) or hasattr(images, "__getitem__"):
        for number, image in enumerate(images):
            yield one(image, f"image {number}")
    else:
        raise InputError(f"images: expected images, paths, uint8 arrays or tensors, found {type(images).__name__}")


def one(image: Any, name: str) -> Image.Image:
    """One image as RGB; `name` is what error messages call it where it has no path."""
    if isinstance(image, Image.Image):
        with _decoding(_path_of(image) or name):  # what Pillow opened it may not have read yet
            return to_rgb(image, _path_of(image) or name)
    if isinstance(image, (str, os.PathLike)):
        return read(Path(image))
    if isinstance(image, bytes):
        return decode(image, name)
    if _is_array(image):
        return _from_array(image, name)
    raise InputError(f"{name}: expected an image, a path, or a uint8 array or tensor, found {type(image).__name__}")


def read(path: Path) -> Image.Image:
    """The image in a file, as RGB."""
    try:
        with open(path, "rb") as file:
            return decode(file, str(path))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror or error}") from error


def decode(data: Any, name: str) -> Image.Image:
    """The image in bytes or an open file, as RGB."""
    most = limits.bound("ZOO_MAX_PIXELS")
    Image.MAX_IMAGE_PIXELS = most  # Pillow's own bound, of the whole process, would come before ours
    with _decoding(name), Image.open(io.BytesIO(data) if isinstance(data, bytes) else data, formats=_formats()) as image:
        if image.width * image.height > most:
            raise InputError(
                f"{name}: {image.width} x {image.height} pixels, at most {most} are read; raise ZOO_MAX_PIXELS if need be"
            )
        return to_rgb(image, name)


@contextmanager
def _decoding(name: str) -> Iterator[None]:
    """Whatever a decoder meets a broken image with is that image's error alone; want of memory ends the run."""
    try:
        yield
    except InputError:
        raise
    except MemoryError as error:  # of the machine, or claimed by the file: nothing that a run may count as undecodable
        raise ZooError(f"{name}: decoding it takes more memory than there is; free some, or leave the image out") from error
    except Exception as error:  # Pillow's decoders raise OSError, SyntaxError, RuntimeError, struct.error and more
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"{name}: is not an image that can be decoded: {reason}") from error


@functools.cache
def _formats() -> list[str]:
    """Those of FORMATS that this Pillow was built with."""
    Image.init()
    return [one for one in FORMATS if one in Image.OPEN]


def to_rgb(image: Image.Image, name: str = "image") -> Image.Image:
    """`image` in 8-bit RGB, upright.

    >>> to_rgb(Image.new("LA", (1, 1), (0, 0))).getpixel((0, 0))
    (255, 255, 255)
    """
    image = ImageOps.exif_transpose(image)
    mode = image.mode
    if mode == "RGB":
        image.load()
        return image
    if mode.startswith("I;16") or (mode == "I" and image.format == "PNG"):  # older Pillows open 16-bit PNG as "I"
        return Image.fromarray(np.round(np.asarray(image) / 257).astype(np.uint8)).convert("RGB")
    if mode in ("I", "F"):
        raise InputError(f"{name}: its pixels (mode {mode}) have no agreed range; save it with 8 or 16 bits per channel")
    if mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        colours = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", colours.size, "white"), colours).convert("RGB")
    try:
        return image.convert("RGB")
    except ValueError as error:
        raise InputError(f"{name}: mode {mode} cannot be converted to RGB; save it as RGB") from error


def _from_array(image: Any, name: str) -> Image.Image:
    """A uint8 array [H, W] or [H, W, C], or tensor [H, W] or [C, H, W], with 1, 3 or 4 channels."""
    channels_first = not isinstance(image, np.ndarray)
    array = image.detach().cpu().numpy() if channels_first else image
    layout = "[C, H, W]" if channels_first else "[H, W, C]"
    if array.dtype != np.uint8:
        raise InputError(
            f"{name}: expected uint8 pixels 0..255, found {array.dtype}, whose range is not known; convert it, or give an "
            "already transformed batch to Model.forward"
        )
    if array.ndim == 3 and channels_first:
        array = np.moveaxis(array, 0, -1)
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (1, 3, 4)) or array.size == 0:
        raise InputError(f"{name}: expected shape [H, W] or {layout} with 1, 3 or 4 channels, found {list(image.shape)}")
    array = array[:, :, 0] if array.ndim == 3 and array.shape[2] == 1 else array
    return to_rgb(Image.fromarray(np.ascontiguousarray(array)), name)


def _is_array(value: Any) -> bool:
    return hasattr(value, "ndim") and hasattr(value, "dtype") and hasattr(value, "shape")


def _path_of(image: Image.Image) -> str:
    return str(getattr(image, "filename", "") or "")
