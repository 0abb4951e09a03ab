"""The environment variables of the package. Each is read here, when it is needed, and nowhere else.

ZOO_HOME          folder of trained weights, the user's cards and stored outputs; default ~/.cache/zoo
ZOO_DATASET       dataset of recipe names that do not end in one; default digits
ZOO_DATA          folders that hold known datasets, separated as in PATH; searched before the Hugging Face cache
ZOO_AUTOTRAIN     whether loading a recipe of the embedded dataset trains missing weights; default 1
ZOO_DEBUG         whether the command line shows the traceback of an error; default 0

Limits on what a file may claim. They are far above normal use, so that only a damaged or malicious file reaches them:

ZOO_MAX_CLASSES   number of classes; a label of 2^40 would otherwise create as many class names
ZOO_MAX_ID_BYTES  length of an id or name; ids are stored in one array, each as wide as the longest
ZOO_MAX_NETWORKS  number of networks that one ensemble may load, those of nested ensembles included
ZOO_MAX_PIXELS    number of pixels of an image
ZOO_MAX_UNPACKED  bytes that a file may unpack to; a hundred times its size is always allowed
"""

import os
from pathlib import Path

from zoo.errors import InputError


def home() -> Path:
    """Return `ZOO_HOME`."""
    return Path(os.environ.get("ZOO_HOME") or Path.home() / ".cache" / "zoo").expanduser()


def default_dataset() -> str:
    """Return `ZOO_DATASET`."""
    return os.environ.get("ZOO_DATASET") or "digits"


def data_folders() -> list[Path]:
    """Return the folders of `ZOO_DATA`."""
    return [Path(part).expanduser() for part in os.environ.get("ZOO_DATA", "").split(os.pathsep) if part]


def autotrain() -> bool:
    """Return whether `ZOO_AUTOTRAIN` is on."""
    value = os.environ.get("ZOO_AUTOTRAIN", "1").lower()
    if value not in ("0", "1", "true", "false", "yes", "no"):
        raise InputError(where="ZOO_AUTOTRAIN", expected="0 or 1", found=value)
    return value in ("1", "true", "yes")


def debug() -> bool:
    """Return whether `ZOO_DEBUG` is set to any text."""
    return bool(os.environ.get("ZOO_DEBUG"))


def max_classes() -> int:
    """Return `ZOO_MAX_CLASSES`."""
    return _limit("ZOO_MAX_CLASSES", 10**6)


def max_id_bytes() -> int:
    """Return `ZOO_MAX_ID_BYTES`."""
    return _limit("ZOO_MAX_ID_BYTES", 4096)


def max_networks() -> int:
    """Return `ZOO_MAX_NETWORKS`."""
    return _limit("ZOO_MAX_NETWORKS", 256, minimum=1)


def max_pixels() -> int:
    """Return `ZOO_MAX_PIXELS`; the default is the size at which Pillow refuses an image."""
    return _limit("ZOO_MAX_PIXELS", 178_956_970)


def max_unpacked() -> int:
    """Return `ZOO_MAX_UNPACKED`."""
    return _limit("ZOO_MAX_UNPACKED", 2**28)


def _limit(name: str, default: int, minimum: int = 0) -> int:
    text = os.environ.get(name) or str(default)
    if not (text.isascii() and text.isdigit() and len(text) < 19 and int(text) >= minimum):
        raise InputError(where=name, expected=f"a whole number of at least {minimum}", found=text[:40])
    return int(text)
