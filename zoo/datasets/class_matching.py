"""Which of a model's outputs stand for which class of a dataset: by name, never by position."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zoo.cards import labels
from zoo.datasets import Dataset


@dataclass(frozen=True)
class Match:
    """What a model's outputs on a dataset are: the classes of its columns, and the labels that go with them."""

    classes: tuple[str, ...]
    columns: tuple[int, ...] | None = None  # those of the model's logits to keep, in order; None: all as they are
    labels: np.ndarray | None = None  # [N] indices into `classes`, or into `label_classes` where that is given
    targets: np.ndarray | None = None
    label_classes: tuple[str, ...] | None = None  # the dataset's classes, where the model predicts others


def match(dataset: Dataset, classes: Sequence[str]) -> Match:
    """How a model that predicts `classes` (none for a bare encoder) goes with a dataset.

    The same classes: columns in the dataset's order. A dataset that covers part of a label set by definition
    (`class_subset`): just those columns. A dataset whose classes are all among the model's: all the model's columns, with
    the labels translated. Anything else: the model's own columns, and labels that cannot score them.
    """
    own = tuple(classes)
    if not own:
        return Match(dataset.classes, None, dataset.labels, dataset.targets)
    if not dataset.classes:
        return Match(own)
    place = places(dataset.classes, own)
    if place is None:
        return Match(own, None, dataset.labels, dataset.targets, dataset.classes)
    if dataset.class_subset is not None or len(place) == len(own):
        columns = None if place == tuple(range(len(own))) else place
        return Match(dataset.classes, columns, dataset.labels, dataset.targets)
    translated = None if dataset.labels is None else np.array(place)[dataset.labels]
    targets = None
    if dataset.targets is not None:
        targets = np.zeros((len(dataset), len(own)), dataset.targets.dtype)
        targets[:, list(place)] = dataset.targets
    return Match(own, None, translated, targets)


def places(wanted: Sequence[str], own: Sequence[str]) -> tuple[int, ...] | None:
    """Where each wanted class stands among the model's; None unless all of them do, each in a place of its own."""
    for spelling in (str, _plain, _in_words):
        known: dict[str, int | None] = {}
        for index, name in enumerate(own):
            key = spelling(name)
            known[key] = None if key in known else index  # a word for two classes (crane, maillot) names neither
        found = [known.get(spelling(name)) for name in wanted]
        if None not in found and len(set(found)) == len(found):
            return tuple(index for index in found if index is not None)
    return None


def _plain(name: str) -> str:
    """Letters and digits: `T-shirt/top` and `t_shirt top` are one class.

    >>> _plain("T-shirt/top") == _plain("t_shirt top")
    True
    """
    return re.sub(r"[\W_]+", " ", name).strip().casefold()


def _in_words(name: str) -> str:
    """The first of the words WordNet has for an id."""
    return _plain(labels.describe(name).partition(",")[0])
