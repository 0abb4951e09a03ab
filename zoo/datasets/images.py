"""Images in any form (PIL, path, bytes, array, tensor), converted to 8-bit RGB, or refused with an error that names them.

Only the formats listed here are opened, whatever a file's suffix: no format that starts another program (EPS starts
Ghostscript) or follows references in the file. The size in the header of a file is checked before the pixels are decoded.

Nothing is guessed: floating-point pixels have no agreed range, so they are refused. Unambiguous cases are converted: grey,
palette and CMYK to RGB; 16 bits to 8 by dividing by 257, so that 65535 becomes 255. Images are rotated as their EXIF data
say, and transparent pixels are blended with white.
"""

import functools
import io
import os
import struct
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, TypeAlias

import numpy as np
from PIL import Image, ImageOps

from zoo.core import settings
from zoo.errors import InputError, ZooError

FORMATS = ("JPEG", "PNG", "GIF", "BMP", "TIFF", "WEBP", "AVIF", "PPM", "MPO", "JPEG2000", "DIB", "TGA", "ICO")

# One or several of: PIL image, path, encoded bytes, uint8 array [H, W(, C)] or [N, H, W, C], uint8 tensor [(N, )C, H, W].
Images: TypeAlias = Any


def decoded(images: Images) -> Iterator[Image.Image]:
    """Yield each image as RGB, in order; an image is decoded only when it is requested.

    >>> [image.size for image in decoded(np.zeros((2, 4, 6, 3), np.uint8))]
    [(6, 4), (6, 4)]
    """
    if isinstance(images, (str, os.PathLike, Image.Image, bytes)) or (_is_array(images) and images.ndim in (2, 3)):
        yield one(images, "image")
    elif isinstance(images, Iterable) or hasattr(images, "__getitem__"):
        for number, image in enumerate(images):
            yield one(image, f"image {number}")
    else:
        expected = "images, paths, uint8 arrays or tensors"
        raise InputError(argument="images", expected=expected, found=type(images).__name__)


def one(image: Any, name: str) -> Image.Image:
    """Return one image in any form as RGB; `name` is what errors call an image without a path."""
    if isinstance(image, Image.Image):
        name = str(getattr(image, "filename", "") or name)
        with _decoding(name):  # Pillow reads the pixels of an opened file only when they are needed
            return to_rgb(image, name)
    if isinstance(image, (str, os.PathLike)):
        return read(Path(image))
    if isinstance(image, bytes):
        return decode(image, name)
    if _is_array(image):
        return _from_array(image, name)
    raise InputError(where=name, expected="an image, a path, or a uint8 array or tensor", found=type(image).__name__)


def read(path: Path) -> Image.Image:
    """Return the image in a file, as RGB."""
    try:
        with open(path, "rb") as file:
            return decode(file, str(path))
    except OSError as error:
        raise InputError(f"cannot be read: {error.strerror or error}", where=path) from error


def decode(data: bytes | IO[bytes], name: str) -> Image.Image:
    """Return the image in bytes or an open file, as RGB; `name` is what errors call it."""
    limit = settings.max_pixels()
    with _decoding(name), _open(io.BytesIO(data) if isinstance(data, bytes) else data) as image:
        _check_size(image, limit, name)
        rgb = to_rgb(image, name)
        _check_size(rgb, limit, name)  # an .ico file may contain a larger image than its header says
        return rgb


def _open(file: IO[bytes]) -> Image.Image:
    """Return an image after reading its header but not its pixels, as `Image.open` does.

    `Image.open` would also compare the size with Pillow's own limit, which can be changed for the whole process only.
    """
    start = file.read(16)
    for name in _formats():
        plugin, accepts = Image.OPEN[name]
        accepted = accepts is None or accepts(start)
        if accepted and not isinstance(accepted, str):  # a text says which part of Pillow is missing
            file.seek(0)
            try:
                return plugin(file, "")
            except (SyntaxError, IndexError, TypeError, struct.error):  # another format with a similar start
                continue
    raise ValueError("not a supported image format")


def _check_size(image: Image.Image, limit: int, name: str) -> None:
    if image.width * image.height > limit:
        problem = f"has {image.width} x {image.height} pixels"
        raise InputError(problem, where=name, expected=f"at most {limit}", hint="Raise ZOO_MAX_PIXELS if needed")


@contextmanager
def _decoding(name: str) -> Iterator[None]:
    """Turn any exception of a decoder into an `InputError` of that image, but a lack of memory into a `ZooError`."""
    try:
        yield
    except InputError:
        raise
    except MemoryError as error:
        problem, hint = "decoding needs more memory than is free", "Free some memory, or remove the image"
        raise ZooError(problem, where=name, hint=hint) from error
    except Exception as error:  # Pillow's decoders raise OSError, SyntaxError, RuntimeError, struct.error and more
        reason = " ".join(str(error).split()) or type(error).__name__
        raise InputError(f"cannot be decoded: {reason}", where=name) from error


@functools.cache
def _formats() -> list[str]:
    """Return the `FORMATS` that this build of Pillow supports."""
    Image.init()
    return [name for name in FORMATS if name in Image.OPEN]


def to_rgb(image: Image.Image, name: str = "image") -> Image.Image:
    """Return an image in 8-bit RGB, rotated as its EXIF data say.

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
        problem, hint = f"pixels of mode {mode} have no agreed range", "Save the image with 8 or 16 bits per channel"
        raise InputError(problem, where=name, hint=hint)
    if mode in ("RGBA", "LA", "PA", "RGBa", "La") or "transparency" in image.info:
        colours = image.convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", colours.size, "white"), colours).convert("RGB")
    try:
        return image.convert("RGB")
    except ValueError as error:
        raise InputError(f"mode {mode} cannot be converted to RGB", where=name, hint="Save the image as RGB") from error


def _from_array(image: Any, name: str) -> Image.Image:
    """Return the image in a uint8 array [H, W] or [H, W, C], or tensor [H, W] or [C, H, W], with 1, 3 or 4 channels."""
    channels_first = not isinstance(image, np.ndarray)
    array = image.detach().cpu().numpy() if channels_first else image
    layout = "[C, H, W]" if channels_first else "[H, W, C]"
    if array.dtype != np.uint8:
        hint = "Convert it, or pass an already transformed batch to Model.forward"
        raise InputError(where=name, expected="uint8 pixels from 0 to 255", found=array.dtype, hint=hint)
    if array.ndim == 3 and channels_first:
        array = np.moveaxis(array, 0, -1)
    if array.ndim not in (2, 3) or (array.ndim == 3 and array.shape[2] not in (1, 3, 4)) or array.size == 0:
        expected = f"shape [H, W] or {layout} with 1, 3 or 4 channels"
        raise InputError(where=name, expected=expected, found=list(image.shape))
    array = array[:, :, 0] if array.ndim == 3 and array.shape[2] == 1 else array
    return to_rgb(Image.fromarray(np.ascontiguousarray(array)), name)


def _is_array(value: Any) -> bool:
    return hasattr(value, "ndim") and hasattr(value, "dtype") and hasattr(value, "shape")
