"""Datasets derived from another one: half of its classes, the other half, or all images without colour."""

import dataclasses
import functools
from collections.abc import Callable

import numpy as np
from PIL import Image

from zoo.core import files
from zoo.datasets.dataset import Dataset


def first_half(dataset: Dataset, name: str, spec: str) -> Dataset:
    """Return the images of the first half of the classes, with these classes only."""
    return _of_classes(dataset, range(len(dataset.classes) // 2), name, spec)


def other_half(dataset: Dataset, name: str, spec: str) -> Dataset:
    """Return the images of the second half of the classes, which a model trained on `first_half` has not seen."""
    return _of_classes(dataset, range(len(dataset.classes) // 2, len(dataset.classes)), name, spec)


def _of_classes(dataset: Dataset, kept: range, name: str, spec: str) -> Dataset:
    labels = np.asarray(dataset.labels)
    chosen = dataset.select((labels >= kept.start) & (labels < kept.stop))
    classes, shifted = dataset.classes[kept.start : kept.stop], np.asarray(chosen.labels) - kept.start
    return dataclasses.replace(chosen, name=name, spec=spec, classes=classes, labels=shifted, label_set=None)


def grey(dataset: Dataset, name: str, spec: str) -> Dataset:
    """Return the same images in grey, still with three channels."""
    image = functools.partial(_grey, dataset.image)
    fingerprint = files.digest([name, dataset.fingerprint])
    return dataclasses.replace(dataset, name=name, spec=spec, image=image, fingerprint=fingerprint)


def _grey(image: Callable[[int], Image.Image], index: int) -> Image.Image:
    return image(index).convert("L").convert("RGB")


VIEWS: dict[str, Callable[[Dataset, str, str], Dataset]] = {
    "cifar10-half": first_half,
    "cifar10-other-half": other_half,
    "cifar10-grey": grey,
}
