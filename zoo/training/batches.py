"""Batches of training images, decoded by workers or kept in memory; their order; and the held-out images."""

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

MEMORY = 2**29  # bytes of decoded images that may stay in memory


class ImageBatches:
    """The images of a dataset as uint8 tensors [C, H, W], indexed by (epoch, image number).

    Images that are the same in every epoch are decoded once if they fit into `MEMORY`; all others are decoded by worker
    processes when they are needed.

    Args:
        dataset: the images.
        prepare: decodes and augments one image.
        workers: number of worker processes; default: one per core, less one, at most 8.
    """

    def __init__(self, dataset: Dataset, prepare: ImageAugmentation, workers: int | None = None) -> None:
        self.dataset, self.prepare = dataset, prepare
        self.workers = max(1, min(8, (os.cpu_count() or 1) - 1)) if workers is None else workers
        size = int(np.prod(prepare.recipe.transform.size)) * len(dataset)
        self.decoded = self._decode_all() if prepare.fixed and size <= MEMORY else None

    def __getitem__(self, key: tuple[int, int]) -> "Tensor | Exception":
        epoch, number = key
        try:
            return self.prepare(self.dataset[number], epoch, number)
        except InputError as error:  # returned, because a loader would wrap a raised error in its worker's traceback
            return error.inside(f"{self.dataset.spec}: image {self.dataset.ids[number]}")
        except OSError as error:
            return ZooError(str(error), where=f"{self.dataset.spec}: image {self.dataset.ids[number]}")

    def batches(self, epoch: int, batches: Sequence[np.ndarray]) -> Iterator[Tensor]:
        """Yield uint8 pixels [N, C, H, W] for each batch of image numbers [N]."""
        if self.decoded is not None:
            yield from (self.decoded[torch.from_numpy(numbers)] for numbers in batches)
            return
        keys = [[(epoch, int(number)) for number in numbers] for numbers in batches]
        loader: Any = torch.utils.data.DataLoader(
            self,  # type: ignore[arg-type]
            batch_sampler=keys,
            num_workers=self.workers,
            collate_fn=_stack,
            pin_memory=torch.cuda.is_available(),
        )
        yield from map(_raise_errors, from_workers(loader))

    def plain(self) -> "ImageBatches":
        """Return the same images as for prediction, without random crops and AutoAugment."""
        if self.prepare.fixed:
            return self
        return ImageBatches(self.dataset, ImageAugmentation(self.prepare.recipe.plain()), self.workers)

    def _decode_all(self) -> Tensor:
        return torch.stack([_raise_errors(self[0, number]) for number in range(len(self.dataset))])


def _stack(items: "list[Tensor | Exception]") -> "Tensor | Exception":
    failed = next((item for item in items if isinstance(item, Exception)), None)
    return failed if failed is not None else torch.stack(items)  # type: ignore[arg-type]


def _raise_errors(result: "Tensor | Exception") -> Tensor:
    if isinstance(result, Exception):
        raise result
    return result


def order(count: int, recipe: Recipe, epoch: int) -> np.ndarray:
    """Return the image numbers of an epoch's batches, [steps, batch_size]; images that do not fill a batch are left out.

    The order depends on the model's name, its seed and the epoch only, so that a resumed run can start at any batch.
    """
    steps = recipe.steps_per_epoch(count)
    shuffled = torch.randperm(count, generator=generator(recipe.entropy, For.ORDER, epoch))
    return shuffled[: steps * recipe.batch_size].reshape(steps, recipe.batch_size).numpy()


def split_holdout(dataset: Dataset, recipe: Recipe) -> tuple[Dataset, Dataset | None]:
    """Return the images to train on and the held-out images; None if the recipe has no holdout."""
    if not recipe.holdout:
        return dataset, None
    if recipe.holdout >= len(dataset):
        expected = f"fewer than the {len(dataset)} images of {dataset.spec}"
        raise InputError(argument="holdout", expected=expected, found=recipe.holdout)
    training, held_out = split_rows(len(dataset), recipe)
    return dataset.select(training), dataset.select(held_out)


def split_rows(count: int, recipe: Recipe) -> tuple[np.ndarray, np.ndarray]:
    """Return the training rows and the held-out rows of a dataset of `count` images.

    The split depends on the seed only, not on the model's name: models of one seed have the same holdout.
    """
    if not recipe.holdout:
        return np.arange(count), np.arange(0)
    shuffled = torch.randperm(count, generator=generator([recipe.seed], For.HOLDOUT)).numpy()
    return np.sort(shuffled[recipe.holdout :]), np.sort(shuffled[: recipe.holdout])


def labels_of(dataset: Dataset) -> np.ndarray:
    """Return the labels [N] of a dataset, or raise an error if it has none."""
    if dataset.labels is None:
        raise InputError("has no labels; training a classifier needs one class per image", where=dataset.spec)
    return dataset.labels


def check_classes(dataset: Dataset) -> None:
    """Raise an error unless the dataset has images of at least two classes."""
    present = [dataset.classes[number] for number in np.unique(labels_of(dataset))]
    if len(present) < 2:
        raise InputError(where=dataset.spec, expected="images of at least two classes", found=present)
