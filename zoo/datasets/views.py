"""Datasets made from another one: half of its classes, or its images without colour."""

import dataclasses
import functools
from collections.abc import Callable

import numpy as np
from PIL import Image

from zoo._storage import files
from zoo.datasets.dataset import Dataset


def first_half(dataset: Dataset, name: str, spec: str) -> Dataset:
    """The images of the first half of the classes, and these classes alone."""
    labels = np.asarray(dataset.labels)
    classes = dataset.classes[: len(dataset.classes) // 2]
    return dataclasses.replace(dataset.select(labels < len(classes)), name=name, spec=spec, classes=classes, label_set=None)


def grey(dataset: Dataset, name: str, spec: str) -> Dataset:
    """The same images in shades of grey, still of three channels."""
    image = functools.partial(_grey, dataset.image)
    fingerprint = files.digest([name, dataset.fingerprint])
    return dataclasses.replace(dataset, name=name, spec=spec, image=image, fingerprint=fingerprint)


def _grey(image: Callable[[int], Image.Image], index: int) -> Image.Image:
    return image(index).convert("L").convert("RGB")


VIEWS: dict[str, Callable[[Dataset, str, str], Dataset]] = {"cifar10-half": first_half, "cifar10-grey": grey}
