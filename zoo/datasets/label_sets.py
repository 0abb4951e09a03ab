"""Classes as ImageNet names and orders them, for data that covers the thousand or part of them."""

import dataclasses
import functools
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from zoo.datasets.dataset import Dataset
from zoo.datasets.folder import are_wordnet_ids
from zoo.errors import InputError

IMAGENET = "imagenet-1k"


def in_imagenet(dataset: Dataset, subset: Literal["imagenet-a", "imagenet-r"] | None = None) -> Dataset:
    """The dataset with its labels as indices among ImageNet's thousand classes, or among the classes of a `subset`.

    Its own classes may be called by WordNet id, by number (`0` to `999`) or by name; a set of all thousand in an order of
    its own naming is taken to follow ImageNet's, as every published copy does.
    """
    places = _places(dataset.classes, dataset.spec)
    names = _names()
    chosen = tuple(range(len(names))) if subset is None else tuple(sorted(_places(_synsets(subset), subset)))
    position = {place: k for k, place in enumerate(chosen)}
    outside = [name for name, place in zip(dataset.classes, places, strict=True) if place not in position]
    if outside:
        raise InputError(f"{dataset.spec}: class {outside[0]!r} is not one of the {len(chosen)} of {subset}")
    moved = np.array([position[place] for place in places], np.int64)
    return dataclasses.replace(
        dataset,
        classes=tuple(names[place] for place in chosen),
        labels=None if dataset.labels is None else moved[dataset.labels],
        label_set=IMAGENET,
        class_subset=None if subset is None else chosen,
    )


def is_imagenet(classes: Sequence[str]) -> bool:
    """Whether the classes are WordNet ids of ImageNet's thousand."""
    return bool(classes) and are_wordnet_ids(classes) and set(classes) <= set(_synsets("imagenet"))


def _places(classes: Sequence[str], where: str) -> list[int]:
    names, synsets = _names(), _synsets("imagenet")
    known = {name: k for table in (names, synsets) for k, name in enumerate(table)}
    if all(name in known for name in classes):
        return [known[name] for name in classes]
    if all(name.isdigit() and int(name) < len(names) for name in classes):
        return [int(name) for name in classes]
    if len(classes) == len(names):
        return list(range(len(names)))
    unknown = next(name for name in classes if name not in known)
    raise InputError(f"{where}: class {unknown!r} is not one of ImageNet's; expected WordNet ids, numbers or class names")


@functools.cache
def _synsets(name: str) -> tuple[str, ...]:
    """WordNet ids from the lists that ship inside timm; found without the seconds that importing it takes."""
    timm = importlib.util.find_spec("timm")
    root = Path((timm.origin if timm else None) or "").parent
    path = root / "data" / "_info" / f"{name.replace('-', '_')}_synsets.txt"
    return tuple(path.read_text().split())


def _names() -> tuple[str, ...]:
    from zoo import labels

    return labels.names(IMAGENET)
