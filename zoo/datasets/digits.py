"""The embedded dataset: 1,797 handwritten digits of 8 x 8 pixels that ship inside scikit-learn.

The split is fixed and stratified. Within each class the examples are ordered by a checksum of their own pixels, which no
version of a random generator can change; the first half is for training, the next sixth for calibration, the rest for
tests. That makes 896 / 299 / 602 examples.
"""

import functools
import hashlib
import math
from typing import Any

import numpy as np
from PIL import Image

from zoo.core import files
from zoo.datasets.dataset import Dataset
from zoo.errors import InputError

SPLITS = ("train", "calibration", "test")


def load(split: str) -> Dataset:
    """One split of the digits.

    >>> [len(load(split)) for split in SPLITS]
    [896, 299, 602]
    """
    if split not in SPLITS:
        raise InputError(f"digits:{split}: expected one of the splits {', '.join(SPLITS)}")
    pixels, labels = _digits()
    rows = split_rows(pixels, labels)[split]
    chosen = pixels[rows]
    return Dataset(
        name="digits",
        spec=f"digits:{split}",
        ids=[str(row) for row in rows],
        image=functools.partial(_image, chosen),
        fingerprint=files.digest(["digits", split, chosen.tobytes(), labels[rows].tobytes(), rows.tobytes()]),
        classes=tuple("0123456789"),
        labels=labels[rows],
        label_set="digits",
    )


def split_rows(pixels: np.ndarray, labels: np.ndarray) -> dict[str, np.ndarray]:
    """The row numbers of each split, ascending."""
    parts: dict[str, list[int]] = {split: [] for split in SPLITS}
    for label in np.unique(labels):
        rows = np.flatnonzero(labels == label).tolist()
        rows.sort(key=lambda row: (hashlib.sha256(pixels[row].tobytes()).digest(), row))
        half, two_thirds = math.floor(len(rows) / 2), math.floor(len(rows) * 2 / 3)
        parts["train"] += rows[:half]
        parts["calibration"] += rows[half:two_thirds]
        parts["test"] += rows[two_thirds:]
    return {split: np.array(sorted(rows), np.int64) for split, rows in parts.items()}


def _image(pixels: np.ndarray, index: int) -> Image.Image:
    return Image.fromarray(pixels[index]).convert("RGB")


@functools.cache
def _digits() -> tuple[np.ndarray, np.ndarray]:
    from sklearn.datasets import load_digits

    bunch: Any = load_digits()
    pixels = np.round(bunch.images * (255 / 16)).astype(np.uint8)  # ink from 0 to 16
    return pixels, bunch.target.astype(np.int64)
