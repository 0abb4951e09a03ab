"""The embedded datasets: 1,797 handwritten digits of 8 x 8 pixels that scikit-learn ships, and two variants of them.

`digits` has a fixed, stratified split. Within each class the examples are ordered by a checksum of their pixels, which no
version of a random generator can change. The first half is for training, the next sixth for calibration, the rest for
testing: 896, 299 and 602 examples.

`digits-holes` is harder: about one pixel in six is black. Networks classify nearly all of `digits:test` correctly, which
leaves few errors to compare; the holes mislead each network differently.

`digits-rotated` is a second task: each image is turned by 0, 90, 180 or 270 degrees, and the angle is its class. A network
trained on the ten classes has little use for orientation, so this measures what else its embeddings contain.
"""

import dataclasses
import functools
import hashlib
import math
import zlib
from collections.abc import Callable
from typing import Any

import numpy as np
from PIL import Image

from zoo.core import files
from zoo.datasets.dataset import Dataset

HOLES, ROTATED = "digits-holes", "digits-rotated"
BLACK_PIXELS = 40  # of 256
_TURNS = (None, Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_180, Image.Transpose.ROTATE_270)


@dataclasses.dataclass(frozen=True)
class Embedded:
    """An embedded dataset: the names of its splits, and the function that returns a split.

    >>> {name: [len(dataset.load(split)) for split in dataset.splits] for name, dataset in EMBEDDED.items()}
    {'digits': [896, 299, 602], 'digits-holes': [299, 602], 'digits-rotated': [896, 602]}
    """

    splits: tuple[str, ...]
    load: Callable[[str], Dataset]


def _plain(split: str) -> Dataset:
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
    """Return the row numbers of each split, in ascending order."""
    parts: dict[str, list[int]] = {"train": [], "calibration": [], "test": []}
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
    pixels = np.round(bunch.images * (255 / 16)).astype(np.uint8)  # scikit-learn's range is 0 to 16
    return pixels, bunch.target.astype(np.int64)


def _holes(split: str) -> Dataset:
    original = _plain(split)
    return dataclasses.replace(
        original,
        name=HOLES,
        spec=f"{HOLES}:{split}",
        image=functools.partial(_image_with_holes, original),
        fingerprint=files.digest([HOLES, original.fingerprint, str(BLACK_PIXELS)]),
    )


def _image_with_holes(original: Dataset, index: int) -> Image.Image:
    pixels = np.asarray(original[index])
    # A hash of the id instead of a random generator, whose numbers could change with its version.
    digest = hashlib.shake_256(f"holes {original.ids[index]}".encode()).digest(pixels.shape[0] * pixels.shape[1])
    hole = np.frombuffer(digest, np.uint8).reshape(pixels.shape[:2]) < BLACK_PIXELS
    return Image.fromarray(np.where(hole[..., None], 0, pixels).astype(np.uint8))


def _rotated(split: str) -> Dataset:
    upright = _plain(split)
    turns = np.array([zlib.crc32(f"turn {row_id}".encode()) % len(_TURNS) for row_id in upright.ids], np.int64)
    return Dataset(
        name=ROTATED,
        spec=f"{ROTATED}:{split}",
        ids=[f"{row_id}-{90 * turn}" for row_id, turn in zip(upright.ids, turns, strict=True)],
        image=functools.partial(_turned_image, upright, turns),
        fingerprint=files.digest([ROTATED, upright.fingerprint, turns.tobytes()]),
        classes=("0°", "90°", "180°", "270°"),
        labels=turns,
        label_set=ROTATED,
    )


def _turned_image(upright: Dataset, turns: np.ndarray, index: int) -> Image.Image:
    turn = _TURNS[turns[index]]
    return upright[index] if turn is None else upright[index].transpose(turn)


EMBEDDED = {
    "digits": Embedded(("train", "calibration", "test"), _plain),
    HOLES: Embedded(("calibration", "test"), _holes),
    ROTATED: Embedded(("train", "test"), _rotated),
}
