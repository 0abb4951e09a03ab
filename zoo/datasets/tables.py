"""From the columns of a table (a parquet file, a dataset of the hub) to images, labels and class names.

Tables in the Hugging Face layout say themselves which column is an image and how the classes are called. Others are read by
what their columns hold: whole numbers are class indices, texts class names, lists the several classes of one example.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from zoo.core import limits
from zoo.datasets import image_files
from zoo.datasets.folder import class_order
from zoo.errors import InputError

IMAGE_NAMES = ("image", "img", "jpg", "jpeg", "png", "webp")
LABEL_NAMES = ("label", "labels", "fine_label", "class", "cls", "target", "wnid")


@dataclass(frozen=True)
class Truth:
    """What a table says about the classes of its rows: labels [N], targets [N, K] where a row has several, or neither."""

    classes: tuple[str, ...] = ()
    labels: np.ndarray | None = None
    targets: np.ndarray | None = None


def image_and_label(columns: Sequence[str], spec: str) -> tuple[str, str | None]:
    """The columns of images and of labels, by the usual names; a table may have no labels."""
    image_column = _first(columns, IMAGE_NAMES)
    if image_column is None:
        raise InputError(f"{spec}: no column of images; expected one named image, found {', '.join(columns)}")
    return image_column, _first(columns, LABEL_NAMES)


def _first(columns: Sequence[str], usual: Sequence[str]) -> str | None:
    return next((name for name in usual if name in columns), None)


def image(value: Any, row: int, folder: Path | None) -> Image.Image:
    """The image in a cell: bytes, a path inside `folder`, or the hub's `{bytes, path}`."""
    if isinstance(value, dict):
        data = value.get("bytes")
        value = data if data is not None else value.get("path")
    if isinstance(value, str):
        return image_files.read(_inside(folder, value, row))
    if not isinstance(value, bytes):
        raise image_files.Undecodable(f"row {row}: no image in it")
    return image_files.decode(value, f"row {row}")


def _inside(folder: Path | None, value: str, row: int) -> Path:
    """The file a row names: beside its table, or, of a table that `datasets` prepared, where that library put it."""
    if "\0" in value:
        raise image_files.Undecodable(f"row {row}: its image {value!r} is not a file")
    path = Path(value) if folder is None else folder / value
    if folder is not None and (Path(value).is_absolute() or not path.resolve().is_relative_to(folder.resolve())):
        raise image_files.Undecodable(f"row {row}: its image {value!r} lies outside of {folder}; expected a path inside")
    if not path.is_file():
        raise image_files.Undecodable(f"row {row}: its image {value!r} is not a file")
    return path


def truth(values: Sequence[Any], names: Sequence[str] | None, where: str) -> Truth:
    """The meaning of a label column; `names` are the class names the table declares, in the order of its indices."""
    if any(value is None for value in values):
        row = next(row for row, value in enumerate(values) if value is None)
        raise InputError(f"{where}: row {row} has no label")
    first = values[0] if len(values) else 0
    if isinstance(first, (list, tuple, np.ndarray)):
        return _several(values, names, where)
    if isinstance(first, str):
        classes = tuple(names or class_order(set(values)))
        index = {name: k for k, name in enumerate(classes)}
        unknown = next((value for value in values if value not in index), None)
        if unknown is not None:
            raise InputError(f"{where}: label {unknown!r} is not among its {len(classes)} classes")
        return Truth(classes, np.array([index[value] for value in values], np.int64))
    labels = np.asarray(values)
    if labels.dtype.kind not in "iu":
        raise InputError(f"{where}: labels are {labels.dtype}, expected whole numbers, class names or lists of them")
    if len(labels) and labels.max() < 0:  # the hub's way of saying that a test split is unlabelled
        return Truth(tuple(names or ()))
    limits.check_classes(0 if names else int(labels.max(initial=-1)), where)
    classes = tuple(names or (str(k) for k in range(int(labels.max(initial=-1)) + 1)))
    return Truth(classes, labels.astype(np.int64))


def _several(values: Sequence[Any], names: Sequence[str] | None, where: str) -> Truth:
    members = sorted({member for value in values for member in value}, key=lambda m: (isinstance(m, str), m))
    if names and all(len(value) == len(names) for value in values) and set(members) <= {0, 1}:
        return Truth(tuple(names), targets=np.array([list(value) for value in values], np.uint8))
    if not names and members and not isinstance(members[-1], str):
        limits.check_classes(int(members[-1]), where)
    classes = tuple(names or (members if members and isinstance(members[0], str) else range(max(members, default=-1) + 1)))
    index = {name: k for k, name in enumerate(classes)} | {k: k for k in range(len(classes))}
    targets = np.zeros((len(values), len(classes)), np.uint8)
    for row, value in enumerate(values):
        for member in value:
            if member not in index:
                raise InputError(f"{where}: row {row} has class {member!r}, expected one of {len(classes)}")
            targets[row, index[member]] = 1
    return Truth(tuple(str(name) for name in classes), targets=targets)
