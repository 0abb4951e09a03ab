"""Images, labels and class names from the columns of a table: a parquet file, or a dataset of the hub.

Class names come from the table if it declares them. Otherwise the values of the label column decide: whole numbers are class
indices, texts are class names, and lists are the classes of a multi-label example.
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
    """The classes and labels of a table."""

    classes: tuple[str, ...] = ()
    labels: np.ndarray | None = None  # [N]
    targets: np.ndarray | None = None  # [N, K] of a multi-label table


def image_and_label(columns: Sequence[str], spec: str) -> tuple[str, str | None]:
    """Return the names of the image column and of the label column, which may be None."""
    image_column, label_column = (
        next((name for name in usual if name in columns), None) for usual in (IMAGE_NAMES, LABEL_NAMES)
    )
    if image_column is None:
        problem = f"has no image column among {', '.join(columns)}"
        raise InputError(problem, where=spec, expected="one named `image`")
    return image_column, label_column


def image(value: Any, row: int, folder: Path | None) -> Image.Image:
    """Return the image in a cell.

    Args:
        value: bytes, a path, or the hub's `{bytes, path}`.
        row: the row number, for errors.
        folder: the folder of the table, which paths must not leave; None for a table that the hub's library prepared.
    """
    if isinstance(value, dict):
        data = value.get("bytes")
        value = data if data is not None else value.get("path")
    if isinstance(value, str):
        return image_files.read(_inside(folder, value, row))
    if not isinstance(value, bytes):
        raise image_files.Undecodable("has no image", where=f"row {row}")
    return image_files.decode(value, f"row {row}")


def _inside(folder: Path | None, value: str, row: int) -> Path:
    """Return the path of a row's image, after checking that it is a file in the folder of the table."""
    path = Path(value) if folder is None else folder / value
    valid = "\0" not in value
    if valid and folder and (Path(value).is_absolute() or not path.resolve().is_relative_to(folder.resolve())):
        raise image_files.Undecodable(f"its image {value!r} is outside of {folder}", where=f"row {row}")
    if not valid or not path.is_file():
        raise image_files.Undecodable(f"its image {value!r} is not a file", where=f"row {row}")
    return path


def truth(values: Sequence[Any], names: Sequence[str] | None, where: str) -> Truth:
    """Return the classes and labels of a label column.

    Args:
        values: [N] class indices, class names, or lists of them.
        names: the class names that the table declares, in the order of the indices.
        where: the table and column, for errors.
    """
    if any(value is None for value in values):
        row = next(row for row, value in enumerate(values) if value is None)
        raise InputError("has no label", where=f"{where}: row {row}")
    first = values[0] if len(values) else 0
    if isinstance(first, (list, tuple, np.ndarray)):
        return _multi_label(values, names, where)
    if isinstance(first, str):
        classes = tuple(names or class_order(set(values)))
        index = {name: k for k, name in enumerate(classes)}
        unknown = next((value for value in values if value not in index), None)
        if unknown is not None:
            raise InputError(f"label {unknown!r} is not among its {len(classes)} classes", where=where)
        return Truth(classes, np.array([index[value] for value in values], np.int64))
    labels = np.asarray(values)
    if labels.dtype.kind not in "iu":
        expected = "whole numbers, class names or lists of them"
        raise InputError(where=where, argument="labels", expected=expected, found=labels.dtype)
    if len(labels) and labels.max() < 0:  # the hub's convention for an unlabelled test split
        return Truth(tuple(names or ()))
    limits.check_classes(0 if names else int(labels.max(initial=-1)), where)
    classes = tuple(names or (str(k) for k in range(int(labels.max(initial=-1)) + 1)))
    return Truth(classes, labels.astype(np.int64))


def _multi_label(values: Sequence[Any], names: Sequence[str] | None, where: str) -> Truth:
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
                expected = f"one of {len(classes)} classes"
                raise InputError(where=f"{where}: row {row}", expected=expected, found=member)
            targets[row, index[member]] = 1
    return Truth(tuple(str(name) for name in classes), targets=targets)
