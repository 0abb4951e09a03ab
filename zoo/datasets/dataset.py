"""A dataset: images in a fixed order, each with an id, and what is known about their classes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from PIL import Image

from zoo._storage import files
from zoo._storage.text import check_storable
from zoo.errors import InputError

Metric = Literal["accuracy", "mean-per-class", "map", "auc"]


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
    fingerprint: str  # of the contents: changes when a image, a label or the order does
    classes: tuple[str, ...] = ()
    labels: np.ndarray | None = field(default=None, repr=False)
    targets: np.ndarray | None = field(default=None, repr=False)
    metric: Metric = "accuracy"
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
