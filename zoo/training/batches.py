"""Batches of images: which ones, in what order, on which process; decoded by workers or kept in memory."""

import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from zoo.cards.recipes import Recipe
from zoo.datasets import Dataset
from zoo.errors import InputError, ZooError
from zoo.runs.engines.loader import from_workers
from zoo.training.augmentation import ImageAugmentation
from zoo.training.randomness import For, generator

MEMORY = 2**29  # bytes of images that may stay in memory
Key = tuple[int, int]  # epoch, number of the image


class ImageBatches:
    """The images of a dataset as uint8 tensors [C, H, W], by epoch and number.

    Those that are the same in every epoch, and few, are decoded once; the others by worker processes when they are needed.
    """

    def __init__(self, dataset: Dataset, prepare: ImageAugmentation, workers: int | None = None) -> None:
        self.dataset, self.prepare = dataset, prepare
        self.workers = max(1, min(8, (os.cpu_count() or 1) - 1)) if workers is None else workers
        size = int(np.prod(prepare.recipe.transform.size)) * len(dataset)
        self.kept = self._decode_all() if prepare.fixed and size <= MEMORY else None

    def __getitem__(self, key: Key) -> "Tensor | Exception":
        epoch, number = key
        try:
            return self.prepare(self.dataset[number], epoch, number)
        except InputError as error:  # returned, not raised: a loader would wrap it in its worker's traceback
            return error.inside(f"{self.dataset.spec}: image {self.dataset.ids[number]}")
        except OSError as error:
            return ZooError(str(error), where=f"{self.dataset.spec}: image {self.dataset.ids[number]}")

    def batches(self, epoch: int, batches: Sequence[np.ndarray]) -> Iterator[Tensor]:
        """The images of each batch of numbers, uint8 [N, C, H, W]."""
        if self.kept is not None:
            yield from (self.kept[torch.from_numpy(numbers)] for numbers in batches)
            return
        keys = [[(epoch, int(number)) for number in numbers] for numbers in batches]
        loader: Any = torch.utils.data.DataLoader(
            self,  # type: ignore[arg-type]
            batch_sampler=keys,
            num_workers=self.workers,
            collate_fn=_stack,
            pin_memory=torch.cuda.is_available(),
        )
        yield from map(_checked, from_workers(loader))

    def plain(self) -> "ImageBatches":
        """The same as prediction sees them."""
        return (
            self
            if self.prepare.fixed
            else ImageBatches(self.dataset, ImageAugmentation(self.prepare.recipe.plain()), self.workers)
        )

    def _decode_all(self) -> Tensor:
        return torch.stack([_checked(self[0, number]) for number in range(len(self.dataset))])


def _stack(items: "list[Tensor | Exception]") -> "Tensor | Exception":
    failed = next((item for item in items if isinstance(item, Exception)), None)
    return failed if failed is not None else torch.stack(items)  # type: ignore[arg-type]


def _checked(result: "Tensor | Exception") -> Tensor:
    if isinstance(result, Exception):
        raise result
    return result


def order(count: int, recipe: Recipe, epoch: int) -> np.ndarray:
    """The epoch's order of `count` images, cut into batches [steps, batch_size]; the rest waits for another epoch.

    It depends on the model's name, its seed and the epoch alone, so a resumed run takes up any batch of it.
    """
    steps = recipe.steps_per_epoch(count)
    shuffled = torch.randperm(count, generator=generator(recipe.entropy, For.ORDER, epoch))
    return shuffled[: steps * recipe.batch_size].reshape(steps, recipe.batch_size).numpy()


def split_holdout(dataset: Dataset, recipe: Recipe) -> tuple[Dataset, Dataset | None]:
    """The images to learn from and those kept back."""
    if not recipe.holdout:
        return dataset, None
    if recipe.holdout >= len(dataset):
        raise InputError(
            f"recipe: holdout is {recipe.holdout}, expected fewer than the {len(dataset)} images of {dataset.spec}"
        )
    learnt, kept_back = split_rows(len(dataset), recipe)
    return dataset.select(learnt), dataset.select(kept_back)


def split_rows(count: int, recipe: Recipe) -> tuple[np.ndarray, np.ndarray]:
    """Return the training rows and the held-out rows of a dataset.

    The split depends on the seed alone, not on the model's name: models of one seed are judged on the same holdout.
    """
    if not recipe.holdout:
        return np.arange(count), np.arange(0)
    shuffled = torch.randperm(count, generator=generator([recipe.seed], For.HOLDOUT)).numpy()
    return np.sort(shuffled[recipe.holdout :]), np.sort(shuffled[: recipe.holdout])


def labels_of(dataset: Dataset) -> np.ndarray:
    """The labels of a dataset, or an error that says it has none."""
    if dataset.labels is None:
        raise InputError(f"{dataset.spec}: has no labels to learn from; a classifier needs one class per image")
    return dataset.labels


def check_classes(dataset: Dataset) -> None:
    """An error unless there are images of at least two classes to tell apart."""
    present = np.unique(labels_of(dataset))
    if len(present) < 2:
        found = f"only {dataset.classes[int(present[0])]!r}" if len(present) else "no image at all"
        raise InputError(f"{dataset.spec}: expected images of at least two classes, found {found}")
