"""Images of a dataset, from files or bytes. An undecodable image raises `Undecodable`, a failing disk `ZooError`."""

import threading
import time
from pathlib import Path

from PIL import Image

from zoo.datasets import images
from zoo.errors import InputError, ZooError

EXTENSIONS = frozenset(
    {".jpg", ".jpeg", ".jpe", ".jp2", ".png", ".apng", ".gif", ".bmp", ".dib", ".webp", ".avif"}
    | {".tif", ".tiff", ".ppm", ".pgm", ".pbm", ".pnm", ".tga", ".ico"}
)


_reading = threading.local()


class Undecodable(InputError):
    """An image that cannot be decoded. A run counts and names such images, and continues."""


def read(path: Path) -> Image.Image:
    """Return the image in a file, as RGB."""
    start = time.perf_counter()
    try:
        data = path.read_bytes()
    except OSError as error:
        problem, hint = f"cannot be read: {error.strerror or error}", "The data changed, or the disk failed"
        raise ZooError(problem, where=path, hint=hint) from error
    _reading.seconds = getattr(_reading, "seconds", 0.0) + time.perf_counter() - start
    return decode(data, str(path))


def take_read_seconds() -> float:
    """Return the seconds that this thread spent reading files, not decoding them, since the last call."""
    seconds: float = getattr(_reading, "seconds", 0.0)
    _reading.seconds = 0.0
    return seconds


def decode(data: bytes, name: str) -> Image.Image:
    """Return the image in bytes, as RGB; `name` is what errors call it."""
    try:
        return images.decode(data, name)
    except InputError as error:
        fields = {field: value for field, value in vars(error).items() if field not in ("options", "in_contents")}
        raise Undecodable(**fields) from error
