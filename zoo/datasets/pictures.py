"""From a file's bytes to an RGB picture, or an error that says why not."""

import io
import warnings
from pathlib import Path

import numpy as np
from PIL import Image

from zoo.errors import InputError

EXTENSIONS = frozenset(
    {".jpg", ".jpeg", ".jpe", ".jp2", ".png", ".apng", ".gif", ".bmp", ".dib", ".webp", ".avif"}
    | {".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm", ".tga", ".ico"}
)


class Undecodable(InputError):
    """A picture that cannot be decoded. A run counts and names it; it is never passed over in silence."""


def decode(source: bytes | Path) -> Image.Image:
    """The picture in a file or in bytes, as RGB."""
    try:
        with Image.open(io.BytesIO(source) if isinstance(source, bytes) else source) as image:
            return to_rgb(image)
    except OSError as error:
        if error.errno is not None:  # the disk or the network failed, which says nothing about the picture
            raise
        raise Undecodable(str(error)) from error
    except (SyntaxError, ValueError, EOFError, IndexError, Image.DecompressionBombError) as error:  # broken PNG, TIFF, ...
        raise Undecodable(f"{type(error).__name__}: {error}") from error


def to_rgb(image: Image.Image) -> Image.Image:
    """RGB of any mode: grey, palette, CMYK, with alpha (dropped), 16 bits a channel (scaled to 8)."""
    if image.mode == "RGB":
        image.load()
        return image
    if image.mode == "P" and "transparency" in image.info:
        return image.convert("RGBA").convert("RGB")
    if image.mode == "I" or image.mode.startswith("I;16"):
        # Pillow's own conversion cuts 16-bit values off at 255 instead of scaling them.
        values = np.asarray(image).astype(np.int64)
        scaled = values // 257 if values.max(initial=0) > 255 else values
        return Image.fromarray(np.clip(scaled, 0, 255).astype(np.uint8)).convert("RGB")
    if image.mode == "F":
        raise Undecodable("floating-point pixels have no agreed range; save the picture with 8 or 16 bits")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # remarks on metadata, which is not read
        return image.convert("RGB")
