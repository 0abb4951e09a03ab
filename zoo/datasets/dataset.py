"""A dataset: images in a fixed order, each with an id, and what is known about their classes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from PIL import Image

from zoo.core import files
from zoo.core.text import check_storable
from zoo.errors import InputError

Metric = Literal["accuracy", "mean-per-class", "map", "auc"]
# How much of an image a network sees. `evaluation`: as its card says, for ResNet-50 the shortest side at 256 and the middle
# 224 x 224 of it (Kornblith et al. 2021, A.1). `transfer`: the shortest side at the network's own input, cut only where
# longer (A.2).
ResizeMode = Literal["evaluation", "transfer"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """N images, decoded when asked for: `dataset[i]` is a PIL image in RGB, or raises `Undecodable`.

    `labels` [N] are indices into `classes`; a multi-label set has `targets` [N, K] of 0, 1 and -1 (ignored) instead, an
    unlabelled one neither. `class_subset` gives, for a set that covers part of a label set, the indices of `classes` in that
    label set: predictions are then made among these classes alone.
    """

    name: str
    spec: str
    ids: Sequence[str] = field(repr=False)
    image: Callable[[int], Image.Image] = field(repr=False)
    fingerprint: str  # of the contents: changes when an image, a label or the order does
    classes: tuple[str, ...] = ()
    labels: np.ndarray | None = field(default=None, repr=False)
    targets: np.ndarray | None = field(default=None, repr=False)
    metric: Metric = "accuracy"
    resize_mode: ResizeMode = "evaluation"
    label_set: str | None = None
    class_subset: tuple[int, ...] | None = field(default=None, repr=False)
    rows: np.ndarray | None = field(default=None, repr=False)  # of the source, where some rows were selected

    def __post_init__(self) -> None:
        check_storable([*self.ids, *self.classes], self.spec)
        if self.labels is not None and len(self.labels) != len(self.ids):
            raise InputError(f"{self.spec}: {len(self.labels)} labels for {len(self.ids)} images")
        if self.labels is not None and len(self.labels):
            low, high = int(self.labels.min()), int(self.labels.max())
            if low < 0 or high >= len(self.classes):
                raise InputError(f"{self.spec}: labels run from {low} to {high}, expected 0..{len(self.classes) - 1}")

    def __len__(self) -> int:
        return len(self.ids)

    def __getitem__(self, index: int) -> Image.Image:
        if not -len(self) <= index < len(self):
            raise IndexError(f"image {index} of {len(self)}")
        index = range(len(self))[index]
        return self.image(index if self.rows is None else int(self.rows[index]))

    def __iter__(self) -> Iterator[Image.Image]:
        return (self[index] for index in range(len(self)))

    def select(self, rows: Any) -> "Dataset":
        """The dataset of some rows: a slice, indices or a mask."""
        rows = np.arange(len(self))[rows]
        return replace(
            self,
            spec=f"{self.spec}[{files.digest([rows.tobytes()])[:8]}]",
            ids=[self.ids[row] for row in rows],
            labels=None if self.labels is None else self.labels[rows],
            targets=None if self.targets is None else self.targets[rows],
            fingerprint=files.digest([self.fingerprint, rows.astype("<i8").tobytes()]),
            rows=rows if self.rows is None else self.rows[rows],
        )


def joined(parts: Sequence[Dataset]) -> Dataset:
    """Several datasets of the same classes, one after the other; ids carry the number of the part they are of."""
    first = parts[0]
    for other in parts[1:]:
        if other.classes != first.classes or (other.labels is None) != (first.labels is None):
            raise InputError(f"{first.spec}: its parts have different classes ({len(first.classes)}, {len(other.classes)})")
    return replace(
        first,
        ids=[f"{number}/{row_id}" for number, part in enumerate(parts) for row_id in part.ids],
        image=_Joined(parts),
        fingerprint=files.digest([part.fingerprint for part in parts]),
        labels=None if first.labels is None else np.concatenate([np.asarray(part.labels) for part in parts]),
        targets=None if first.targets is None else np.concatenate([np.asarray(part.targets) for part in parts]),
        rows=None,
    )


class _Joined:
    """Images of several datasets by one row number."""

    def __init__(self, parts: Sequence[Dataset]) -> None:
        self.parts, self.ends = list(parts), np.cumsum([len(part) for part in parts])

    def __call__(self, row: int) -> Image.Image:
        part = int(np.searchsorted(self.ends, row, side="right"))
        return self.parts[part][row - (int(self.ends[part - 1]) if part else 0)]
