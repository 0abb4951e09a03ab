"""Images in a folder: one subfolder per class, or no subfolders and no labels; optionally inside `train`, `val`, `test`."""

import functools
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from zoo.datasets import fingerprints, image_files
from zoo.datasets.dataset import Dataset
from zoo.errors import InputError, UnknownName

# Folder names that stand for a split, as in the library `datasets`. Results are reported on the first split that exists.
SPLITS = {
    "test": ("test", "testing", "eval", "evaluation"),
    "validation": ("validation", "valid", "val", "dev"),
    "train": ("train", "training"),
}
_SPLIT = {word: split for split, words in SPLITS.items() for word in words}


def split_named(word: str) -> str | None:
    """Return the split that a folder name stands for; None if it is not the name of a split.

    >>> split_named("Val"), split_named("cat")
    ('validation', None)
    """
    return _SPLIT.get(word.lower())


def splits(path: Path, spec: str) -> dict[str, Path]:
    """Return the folder of each split inside a folder, in the order of `SPLITS`; none if its subfolders are classes.

    Folders `train` and `test` that contain images, without subfolders, may be two classes or two unlabelled splits. They
    count as splits only if the spec names one.
    """
    subfolders = _subfolders(path)
    named = [(split_named(folder.name), folder) for folder in subfolders]
    other = [folder for split, folder in named if split is None]
    with_classes = [folder for split, folder in named if split is not None and _subfolders(folder)]
    if not with_classes or len(other) == len(subfolders):
        return {}
    if other:
        raise InputError(
            f"{with_classes[0].name} looks like a split and {other[0].name} does not",
            where=spec,
            expected=f"only splits ({', '.join(folder.name for folder in with_classes)}) or only classes in {path}",
        )
    folders: dict[str, Path] = {}
    for split, folder in named:
        if split in folders:
            problem = f"{folders[split].name} and {folder.name} both stand for the {split} split"
            raise InputError(problem, where=spec, hint="Keep one of them")
        folders[str(split)] = folder
    return {split: folders[split] for split in SPLITS if split in folders}


def load_split(path: Path, split: str, spec: str) -> Dataset:
    """Return one split of a folder. Every split gets the classes of all splits."""
    folders = splits(path, spec) or {str(split_named(f.name)): f for f in _subfolders(path) if split_named(f.name)}
    if split not in folders:
        present = ", ".join(folder.name for folder in _subfolders(path)) or "none"
        raise UnknownName(f"no {split} split in {path} (subfolders: {present})", kind="split", name=split, where=spec)
    classes = class_order({folder.name for one in folders.values() for folder in _subfolders(one)})
    return load(folders[split], spec, path.name, classes)


def load(path: Path, spec: str, name: str | None = None, classes: Sequence[str] | None = None) -> Dataset:
    """Return the images in a folder. Ids are paths relative to it.

    Args:
        path: the folder.
        spec: the spec of the dataset.
        name: the dataset's name; default: the folder's.
        classes: the classes; default: the subfolders, in the order of `class_order`.
    """
    if not path.is_dir():
        expected = "a folder of images, or of one subfolder per class"
        raise InputError(f"{path} is not a folder", where=spec, expected=expected)
    loose = [entry.name for entry in sorted(path.iterdir()) if _is_image(entry)]
    folders = class_order(folder.name for folder in _subfolders(path))
    if loose and folders:
        problem = f"both images ({loose[0]}, ...) and folders ({folders[0]}, ...) in {path}"
        raise InputError(problem, where=spec, expected="one or the other")
    if folders and all(split_named(folder) for folder in folders):
        raise InputError(
            f"{', '.join(folders)} in {path} may be splits without classes, or classes",
            where=spec,
            hint=f"Name a split ({spec}:{split_named(folders[0])}), or rename the classes",
        )
    images = {folder: sorted(_images_below(path / folder, path)) for folder in folders}
    ids = loose or [image for folder in folders for image in images[folder]]
    if not ids:
        expected = "files such as .jpg or .png, or one subfolder per class"
        raise InputError(f"no images in {path}", where=spec, expected=expected)
    classes = list(classes or folders)
    number = {folder: k for k, folder in enumerate(classes)}
    counts = [len(images[folder]) for folder in folders]
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
    """Return class names in order: by number if all are numbers, else alphabetically.

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
    for current, subfolders, names in os.walk(folder, followlinks=True):
        real = os.path.realpath(current)
        if real in seen:  # a link to a parent folder
            subfolders.clear()
            continue
        seen.add(real)
        yield from (Path(current, name).relative_to(root).as_posix() for name in names if _is_image(Path(current, name)))


def _is_image(path: Path) -> bool:
    return path.suffix.lower() in image_files.EXTENSIONS and not path.name.startswith(".") and path.is_file()


def _image(root: Path, ids: list[str], index: int) -> Image.Image:
    return image_files.read(root / ids[index])
