"""A second task on the embedded digits: which way up is the image?

The digits of the train and test splits, each turned by 0, 90, 180 or 270 degrees, fixed by its id. A network that has
learnt nothing but the ten classes has little use for the way up, so this asks what else is left in its features.
"""

import functools
import zlib

import numpy as np
from PIL import Image

from zoo.core import files
from zoo.datasets import digits
from zoo.datasets.dataset import Dataset
from zoo.errors import InputError

NAME = "digits-rotated"
SPLITS = ("train", "test")
_TURNS = (None, Image.Transpose.ROTATE_90, Image.Transpose.ROTATE_180, Image.Transpose.ROTATE_270)


def load(split: str) -> Dataset:
    """One split of the turned digits.

    >>> [len(load(split)) for split in SPLITS]
    [896, 602]
    """
    if split not in SPLITS:
        raise InputError(f"{NAME}:{split}: expected one of the splits {', '.join(SPLITS)}")
    upright = digits.load(split)
    turns = np.array([zlib.crc32(f"turn {row_id}".encode()) % len(_TURNS) for row_id in upright.ids], np.int64)
    return Dataset(
        name=NAME,
        spec=f"{NAME}:{split}",
        ids=[f"{row_id}-{90 * turn}" for row_id, turn in zip(upright.ids, turns, strict=True)],
        image=functools.partial(_image, upright, turns),
        fingerprint=files.digest([NAME, upright.fingerprint, turns.tobytes()]),
        classes=("0°", "90°", "180°", "270°"),
        labels=turns,
        label_set=NAME,
    )


def _image(upright: Dataset, turns: np.ndarray, index: int) -> Image.Image:
    turn = _TURNS[turns[index]]
    return upright[index] if turn is None else upright[index].transpose(turn)
