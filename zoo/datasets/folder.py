"""Pictures in a folder: one subfolder a class, or no subfolders and no labels."""

import functools
import os
from collections.abc import Iterable
from pathlib import Path

import numpy as np
from PIL import Image

from zoo.datasets import fingerprints, pictures
from zoo.datasets.dataset import Dataset
from zoo.errors import InputError, ZooError


def load(path: Path, spec: str, name: str | None = None) -> Dataset:
    """The pictures below `path`. Ids are paths relative to it; the classes are its subfolders, see `class_order`."""
    if not path.is_dir():
        raise ZooError(f"{spec}: {path} is not a folder; expected pictures in it, or one subfolder a class")
    loose = [entry.name for entry in sorted(path.iterdir()) if _is_picture(entry)]
    folders = class_order(entry.name for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    if loose and folders:
        raise InputError(
            f"{spec}: both pictures ({loose[0]}, ...) and folders ({folders[0]}, ...) in {path}; expected one kind"
        )
    found = {folder: sorted(_pictures_below(path / folder, path)) for folder in folders}
    ids = loose or [picture for folder in folders for picture in found[folder]]
    if not ids:
        raise InputError(f"{spec}: no pictures below {path}; expected files such as .jpg or .png, or one subfolder a class")
    labels = np.repeat(np.arange(len(folders)), [len(found[folder]) for folder in folders]) if folders else None
    return Dataset(
        name=name or path.name,
        spec=spec,
        ids=ids,
        picture=functools.partial(_picture, path, ids),
        fingerprint=fingerprints.of_files(path, ids, extra=folders),
        classes=tuple(folders),
        labels=labels,
    )


def class_order(names: Iterable[str]) -> list[str]:
    """Class folders in order: by number where all are numbers, else as text.

    >>> class_order(["10", "9", "1"]), class_order(["dog", "cat"])
    (['1', '9', '10'], ['cat', 'dog'])
    """
    names = list(names)
    numeric = all(name.isascii() and name.isdigit() for name in names)
    return sorted(names, key=lambda name: (int(name), name)) if numeric else sorted(names)


def _pictures_below(folder: Path, root: Path) -> Iterable[str]:
    seen: set[str] = set()
    for here, below, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(here)
        if real in seen:  # a link that leads back
            below.clear()
            continue
        seen.add(real)
        yield from (Path(here, name).relative_to(root).as_posix() for name in names if _is_picture(Path(here, name)))


def _is_picture(path: Path) -> bool:
    return path.suffix.lower() in pictures.EXTENSIONS and not path.name.startswith(".") and path.is_file()


def _picture(root: Path, ids: list[str], index: int) -> Image.Image:
    return pictures.read(root / ids[index])
