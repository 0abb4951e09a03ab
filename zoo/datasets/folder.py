"""Images in a folder: one subfolder per class, or no subfolders and no labels; maybe below `train`, `val` and `test`."""

import functools
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from zoo.datasets import fingerprints, image_files
from zoo.datasets.dataset import Dataset
from zoo.errors import InputError

# What `datasets` takes for the name of a split. Results are reported on the first of these that is there.
SPLITS = {
    "test": ("test", "testing", "eval", "evaluation"),
    "validation": ("validation", "valid", "val", "dev"),
    "train": ("train", "training"),
}
_SPLIT = {word: split for split, words in SPLITS.items() for word in words}


def split_named(word: str) -> str | None:
    """The split that a folder of that name holds, if it is the name of one.

    >>> split_named("Val"), split_named("cat")
    ('validation', None)
    """
    return _SPLIT.get(word.lower())


def splits(path: Path, spec: str) -> dict[str, Path]:
    """The folders of splits inside a folder, the one to report on first; none where its subfolders are classes.

    Images right inside `train` and `test` may be two classes as well as two splits without classes: only named splits are
    taken from there.
    """
    below = _subfolders(path)
    named = [(split_named(folder.name), folder) for folder in below]
    apart = [folder for split, folder in named if split is None]
    of_splits = [folder for split, folder in named if split is not None and _subfolders(folder)]
    if not of_splits or len(apart) == len(below):
        return {}
    if apart:
        raise InputError(
            f"{spec}: {of_splits[0].name} looks like a split and {apart[0].name} does not; expected only splits "
            f"({', '.join(folder.name for folder in of_splits)}) or only classes in {path}"
        )
    found: dict[str, Path] = {}
    for split, folder in named:
        if split in found:
            raise InputError(f"{spec}: both {found[split].name} and {folder.name} are its {split} split; keep one of them")
        found[str(split)] = folder
    return {split: found[split] for split in SPLITS if split in found}


def load_split(path: Path, split: str, spec: str) -> Dataset:
    """One split of a folder; its classes are those of all splits, so that they are the same in each."""
    found = splits(path, spec) or {str(split_named(f.name)): f for f in _subfolders(path) if split_named(f.name)}
    if split not in found:
        raise InputError(
            f"{spec}: no {split} split in {path}; found {', '.join(f.name for f in _subfolders(path)) or 'none'}"
        )
    classes = class_order({folder.name for one in found.values() for folder in _subfolders(one)})
    return load(found[split], spec, path.name, classes)


def load(path: Path, spec: str, name: str | None = None, classes: Sequence[str] | None = None) -> Dataset:
    """The images below `path`. Ids are paths relative to it; the classes are its subfolders, see `class_order`."""
    if not path.is_dir():
        raise InputError(f"{spec}: {path} is not a folder; expected images in it, or one subfolder per class")
    loose = [entry.name for entry in sorted(path.iterdir()) if _is_image(entry)]
    folders = class_order(folder.name for folder in _subfolders(path))
    if loose and folders:
        raise InputError(
            f"{spec}: both images ({loose[0]}, ...) and folders ({folders[0]}, ...) in {path}; expected one kind"
        )
    if folders and all(split_named(folder) for folder in folders):
        raise InputError(
            f"{spec}: {', '.join(folders)} in {path} may be splits without classes, or classes; name a split "
            f"({spec}:{split_named(folders[0])}), or rename the classes"
        )
    found = {folder: sorted(_images_below(path / folder, path)) for folder in folders}
    ids = loose or [image for folder in folders for image in found[folder]]
    if not ids:
        raise InputError(f"{spec}: no images below {path}; expected files such as .jpg or .png, or one subfolder per class")
    classes = list(classes or folders)
    number = {folder: k for k, folder in enumerate(classes)}
    counts = [len(found[folder]) for folder in folders]
    labels = np.repeat([number[folder] for folder in folders], counts).astype(np.int64) if folders else None
    return Dataset(
        name=name or path.name,
        spec=spec,
        ids=ids,
        image=functools.partial(_image, path, ids),
        fingerprint=fingerprints.of_files(path, ids, extra=classes),
        classes=tuple(classes if folders else ()),
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


def _subfolders(path: Path) -> list[Path]:
    try:
        return sorted(entry for entry in path.iterdir() if entry.is_dir() and not entry.name.startswith("."))
    except OSError:
        return []


def _images_below(folder: Path, root: Path) -> Iterable[str]:
    seen: set[str] = set()
    for here, below, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(here)
        if real in seen:  # a link that leads back
            below.clear()
            continue
        seen.add(real)
        yield from (Path(here, name).relative_to(root).as_posix() for name in names if _is_image(Path(here, name)))


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in image_files.EXTENSIONS and not path.name.startswith(".") and path.is_file()


def _image(root: Path, ids: list[str], index: int) -> Image.Image:
    return image_files.read(root / ids[index])
