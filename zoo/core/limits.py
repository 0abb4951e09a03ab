"""How much a file may claim before it is refused: far beyond honest use, and each bound is raised by its variable."""

import os

from zoo.errors import InputError

BOUNDS = {
    "ZOO_MAX_CLASSES": 10**6,  # a label of 2^40 would ask for as many class names
    "ZOO_MAX_ID_BYTES": 4096,  # ids stand side by side in one array, each as wide as the longest
    "ZOO_MAX_PIXELS": 178_956_970,  # of one image; where Pillow draws its line
    "ZOO_MAX_UNPACKED": 2**28,  # bytes; a file may always unpack to a hundred times its size
}
HONEST_RATIO = 100  # real outputs compress a few times


def bound(name: str) -> int:
    """The bound of that name: its environment variable, or the default.

    >>> bound("ZOO_MAX_ID_BYTES")
    4096
    """
    text = os.environ.get(name) or str(BOUNDS[name])
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise InputError(f"{name}: expected a whole number, found {text[:40]!r}")
    return int(text)


def check_classes(highest: int, where: str) -> None:
    """An error where a label asks for more classes than there can be."""
    if highest >= bound("ZOO_MAX_CLASSES"):
        raise InputError(
            f"{where}: label {highest} asks for {highest + 1} classes, at most {bound('ZOO_MAX_CLASSES')} are expected; "
            "give class names, or raise ZOO_MAX_CLASSES"
        )
