"""`Dataset`: images in a fixed order with ids, labels and classes."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

import numpy as np
from PIL import Image

from zoo.core import files
from zoo.core.text import check_storable
from zoo.errors import InputError

Metric = Literal["accuracy", "mean-per-class", "map", "auc"]
# How images are resized. `evaluation`: as the model's card says; for ResNet-50 the shortest side to 256, then a centre
# crop of 224 x 224 (Kornblith et al. 2021, A.1). `transfer`: the shortest side to the size of the network's input, then a
# centre crop (A.2).
ResizeMode = Literal["evaluation", "transfer"]


@dataclass(frozen=True, eq=False)
class Dataset:
    """N images with ids and labels. `dataset[i]` decodes and returns an RGB image, or raises `Undecodable`.

    An unlabelled dataset has neither `labels` nor `targets`; a multi-label dataset has `targets` only.
    """

    name: str
    spec: str
    ids: Sequence[str] = field(repr=False)  # [N], unique
    image: Callable[[int], Image.Image] = field(repr=False)  # returns the image of a row
    fingerprint: str  # of the contents: changes with every image, every label and their order
    classes: tuple[str, ...] = ()  # [K]
    labels: np.ndarray | None = field(default=None, repr=False)  # [N] indices into `classes`
    targets: np.ndarray | None = field(default=None, repr=False)  # [N, K] of 0, 1 and -1 (ignored)
    metric: Metric = "accuracy"
    resize_mode: ResizeMode = "evaluation"
    label_set: str | None = None
    # For a dataset that covers part of its label set: the indices of `classes` in it. Models then predict these classes
    # only.
    class_subset: tuple[int, ...] | None = field(default=None, repr=False)
    rows: np.ndarray | None = field(default=None, repr=False)  # [N] the argument of `image` for each row, after `select`

    def __post_init__(self) -> None:
        check_storable([*self.ids, *self.classes], self.spec)
        if self.labels is not None and len(self.labels) != len(self.ids):
            expected = f"{len(self.ids)} class indices, one per image"
            raise InputError(where=self.spec, argument="labels", expected=expected, found=len(self.labels))
        if self.labels is not None and len(self.labels):
            low, high = int(self.labels.min()), int(self.labels.max())
            if low < 0 or high >= len(self.classes):
                expected, found = f"from 0 to {len(self.classes) - 1}", f"{low} to {high}"
                raise InputError(where=self.spec, argument="labels", expected=expected, found=found)

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
        """Return the dataset of some rows: a slice, indices or a mask."""
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
    """Return the concatenation of datasets with the same classes. Ids get the number of their part as a prefix."""
    first = parts[0]
    for other in parts[1:]:
        if other.classes != first.classes or (other.labels is None) != (first.labels is None):
            problem = f"its parts have different classes ({len(first.classes)} and {len(other.classes)})"
            raise InputError(problem, where=first.spec)
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
    """Images of concatenated datasets by row number."""

    def __init__(self, parts: Sequence[Dataset]) -> None:
        self.parts, self.ends = list(parts), np.cumsum([len(part) for part in parts])

    def __call__(self, row: int) -> Image.Image:
        part = int(np.searchsorted(self.ends, row, side="right"))
        return self.parts[part][row - (int(self.ends[part - 1]) if part else 0)]
