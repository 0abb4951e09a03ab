"""A dataset's images from files or bytes. One that does not decode is told apart from a disk that does not answer."""

from pathlib import Path

from PIL import Image

from zoo.datasets import images
from zoo.errors import InputError, ZooError

EXTENSIONS = frozenset(
    {".jpg", ".jpeg", ".jpe", ".jp2", ".png", ".apng", ".gif", ".bmp", ".dib", ".webp", ".avif"}
    | {".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm", ".tga", ".ico"}
)


class Undecodable(InputError):
    """An image that cannot be decoded. A run counts and names it; it is never passed over in silence."""


def read(path: Path) -> Image.Image:
    """The image in a file, as RGB."""
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ZooError(f"{path}: cannot be read: {error.strerror or error}; the data changed or its disk failed") from error
    return decode(data, str(path))


def decode(data: bytes, name: str) -> Image.Image:
    """The image in bytes, as RGB."""
    try:
        return images.decode(data, name)
    except InputError as error:
        raise Undecodable(str(error)) from error
