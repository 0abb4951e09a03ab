"""Harder images of the embedded digits: those of the calibration and test splits with holes, about a pixel in six black.

Networks trained on whole digits get nearly all of `digits:test` right, which leaves few mistakes to compare. What is missing
here misleads each of them differently.
"""

import dataclasses
import functools
import hashlib

import numpy as np
from PIL import Image

from zoo.core import files
from zoo.datasets import digits
from zoo.datasets.dataset import Dataset
from zoo.errors import InputError

NAME = "digits-holes"
SPLITS = ("calibration", "test")
BLACK = 40  # of 256 pixels


def load(split: str) -> Dataset:
    """One split of the digits with holes.

    >>> [len(load(split)) for split in SPLITS]
    [299, 602]
    """
    if split not in SPLITS:
        raise InputError(f"{NAME}:{split}: expected one of the splits {', '.join(SPLITS)}")
    whole = digits.load(split)
    return dataclasses.replace(
        whole,
        name=NAME,
        spec=f"{NAME}:{split}",
        image=functools.partial(_image, whole),
        fingerprint=files.digest([NAME, whole.fingerprint, str(BLACK)]),
    )


def _image(whole: Dataset, index: int) -> Image.Image:
    pixels = np.asarray(whole[index])
    # A hash of the id rather than a random generator: no version of a library can change it.
    digest = hashlib.shake_256(f"holes {whole.ids[index]}".encode()).digest(pixels.shape[0] * pixels.shape[1])
    hole = np.frombuffer(digest, np.uint8).reshape(pixels.shape[:2]) < BLACK
    return Image.fromarray(np.where(hole[..., None], 0, pixels).astype(np.uint8))
