"""Match the classes of a model with those of a dataset, by name and never by position."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zoo.cards import labels
from zoo.datasets import Dataset


@dataclass(frozen=True)
class Match:
    """The classes of a model's outputs on a dataset, and the labels for them."""

    classes: tuple[str, ...]
    columns: tuple[int, ...] | None = None  # columns of the model's logits to keep, in order; None: all, unchanged
    labels: np.ndarray | None = None  # [N] indices into `label_classes` if that is given, else into `classes`
    targets: np.ndarray | None = None  # [N, K] of 0, 1 and -1 (ignored)
    label_classes: tuple[str, ...] | None = None  # the dataset's classes, if the model predicts others


def match(dataset: Dataset, classes: Sequence[str]) -> Match:
    """Return how the outputs of a model match a dataset.

    - Model and dataset have the same classes: columns in the dataset's order.
    - The dataset covers part of a label set by definition (`class_subset`): only the columns of that part.
    - The model has all classes of the dataset and others: all columns, with labels as indices into the model's classes.
    - Otherwise: all columns, and labels that cannot be used to score them.

    Args:
        dataset: the dataset.
        classes: the classes that the model predicts; none for an encoder without a head.
    """
    predicted = tuple(classes)
    if not predicted:
        return Match(dataset.classes, None, dataset.labels, dataset.targets)
    if not dataset.classes:
        return Match(predicted)
    indices = places(dataset.classes, predicted)
    if indices is None:
        return Match(predicted, None, dataset.labels, dataset.targets, dataset.classes)
    if dataset.class_subset is not None or len(indices) == len(predicted):
        columns = None if indices == tuple(range(len(predicted))) else indices
        return Match(dataset.classes, columns, dataset.labels, dataset.targets)
    translated = None if dataset.labels is None else np.array(indices)[dataset.labels]
    targets = None
    if dataset.targets is not None:
        targets = np.zeros((len(dataset), len(predicted)), dataset.targets.dtype)
        targets[:, list(indices)] = dataset.targets
    return Match(predicted, None, translated, targets)


def places(wanted: Sequence[str], own: Sequence[str]) -> tuple[int, ...] | None:
    """Return the index of each wanted class among a model's classes; None if one is missing or two share an index.

    Names are compared exactly, then by letters and digits, then by the words of WordNet ids.

    Args:
        wanted: the classes to find.
        own: the model's classes.
    """
    for spelling in (str, _letters_and_digits, _first_word):
        index_of: dict[str, int | None] = {}
        for index, name in enumerate(own):
            key = spelling(name)
            index_of[key] = None if key in index_of else index  # a word for two classes (crane, maillot) is ambiguous
        indices = [index_of.get(spelling(name)) for name in wanted]
        if None not in indices and len(set(indices)) == len(indices):
            return tuple(index for index in indices if index is not None)
    return None


def _letters_and_digits(name: str) -> str:
    """Return a name without case and punctuation.

    >>> _letters_and_digits("T-shirt/top") == _letters_and_digits("t_shirt top")
    True
    """
    return re.sub(r"[\W_]+", " ", name).strip().casefold()


def _first_word(name: str) -> str:
    """Return the first of the words that WordNet has for an id."""
    return _letters_and_digits(labels.describe(name).partition(",")[0])
