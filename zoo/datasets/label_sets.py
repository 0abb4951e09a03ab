"""Data whose classes are ImageNet's thousand, or part of them, under whichever names it calls them by."""

import dataclasses
import re
from collections.abc import Sequence
from typing import Literal

import numpy as np

from zoo.cards import labels
from zoo.datasets.dataset import Dataset
from zoo.errors import InputError

IMAGENET = "imagenet-1k"
_WORDNET_ID = re.compile(r"n\d{8}\Z")


def in_imagenet(dataset: Dataset, subset: Literal["imagenet-a", "imagenet-r"] | None = None) -> Dataset:
    """The dataset with its labels as indices among ImageNet's thousand classes, or among the classes of a `subset`.

    Its own classes may be WordNet ids or numbers (`0` to `999`); a set of all thousand by other names is taken to be in
    ImageNet's order, as every published copy is.
    """
    every = labels.classes(IMAGENET)
    chosen = every if subset is None else labels.classes(subset)
    called = _wordnet_ids(dataset)
    position = {name: k for k, name in enumerate(chosen)}
    outside = [name for name in called if name not in position]
    if outside:
        raise InputError(f"{dataset.spec}: class {outside[0]!r} is not one of the {len(chosen)} of {subset or IMAGENET}")
    moved = np.array([position[name] for name in called], np.int64)
    return dataclasses.replace(
        dataset,
        classes=chosen,
        labels=None if dataset.labels is None else moved[dataset.labels],
        label_set=IMAGENET,
        class_subset=None if subset is None else tuple(labels.indices(chosen, every)),
    )


def is_imagenet(classes: Sequence[str]) -> bool:
    """Whether the classes are WordNet ids of ImageNet's thousand.

    >>> is_imagenet(["n01443537", "n01440764"]), is_imagenet(["cat", "dog"])
    (True, False)
    """
    wordnet = bool(classes) and all(_WORDNET_ID.match(name) for name in classes)
    return wordnet and set(classes) <= set(labels.classes(IMAGENET))


def _wordnet_ids(dataset: Dataset) -> Sequence[str]:
    every = labels.classes(IMAGENET)
    if all(_WORDNET_ID.match(name) for name in dataset.classes):
        return dataset.classes
    if all(name.isdigit() and int(name) < len(every) for name in dataset.classes):
        return [every[int(name)] for name in dataset.classes]
    if len(dataset.classes) == len(every):
        return every
    raise InputError(
        f"{dataset.spec}: {len(dataset.classes)} classes such as {dataset.classes[0]!r}; expected ImageNet's by WordNet id, "
        "by number from 0 to 999, or all thousand in order"
    )
