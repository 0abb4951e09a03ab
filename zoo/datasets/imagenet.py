"""Datasets with ImageNet's thousand classes, or some of them, under different class names."""

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
    """Return the dataset with its labels as indices into ImageNet's thousand classes, or into those of a subset.

    Args:
        dataset: its classes are WordNet ids or numbers (`0` to `999`). A thousand classes with other names are assumed to be
            in ImageNet's order, as in every published copy.
        subset: the label set whose classes the dataset has.
    """
    every = labels.classes(IMAGENET)
    chosen = every if subset is None else labels.classes(subset)
    wordnet_ids = _wordnet_ids(dataset)
    position = {name: k for k, name in enumerate(chosen)}
    unknown = next((name for name in wordnet_ids if name not in position), None)
    if unknown is not None:
        problem = f"class {unknown!r} is not one of the {len(chosen)} of {subset or IMAGENET}"
        raise InputError(problem, where=dataset.spec)
    new_index = np.array([position[name] for name in wordnet_ids], np.int64)
    return dataclasses.replace(
        dataset,
        classes=chosen,
        labels=None if dataset.labels is None else new_index[dataset.labels],
        label_set=IMAGENET,
        class_subset=None if subset is None else tuple(labels.indices(chosen, every)),
    )


def is_imagenet(classes: Sequence[str]) -> bool:
    """Return whether the classes are WordNet ids of ImageNet's thousand classes.

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
        f"has {len(dataset.classes)} classes such as {dataset.classes[0]!r}",
        where=dataset.spec,
        expected="ImageNet's by WordNet id, by number from 0 to 999, or all thousand in order",
    )
