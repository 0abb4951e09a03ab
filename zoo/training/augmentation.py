"""Augmentation: of single images (random crops, AutoAugment) and of batches (shifts, flips, mixup).

Crops and AutoAugment run in loader workers, on one image in its original size. Shifts, flips and mixup run on whole batches,
on the network's device. Without crops and AutoAugment an image is the same in every epoch and can stay in memory.
"""

import functools
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.nn import functional

from zoo.cards.recipes import Recipe
from zoo.datasets.preprocessing import Pipeline
from zoo.training.randomness import For, generator, seed_of

ASPECT_RATIOS = (3 / 4, 4 / 3)  # of random crops


@dataclass(frozen=True)
class ImageAugmentation:
    """Turns an image into uint8 pixels [C, H, W]: with the recipe's random crop and AutoAugment, else as for prediction."""

    recipe: Recipe

    @property
    def fixed(self) -> bool:
        """Whether an image is the same in every epoch."""
        return not (self.recipe.crop or self.recipe.auto_augment)

    def __call__(self, image: Image.Image, epoch: int, number: int) -> Tensor:
        """Return the pixels of an image; epoch and image number decide the random draws."""
        pipeline = Pipeline(self.recipe.transform)
        if self.fixed:
            return pipeline.pixels(image)
        from torchvision.transforms import InterpolationMode, RandomResizedCrop
        from torchvision.transforms.functional import pil_to_tensor

        # torchvision draws from torch's global generator; its state is restored afterwards.
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed_of(self.recipe.entropy, For.IMAGE, epoch, number))
            if self.recipe.crop:
                mode = InterpolationMode(self.recipe.transform.interpolation)
                crop = RandomResizedCrop(self.recipe.transform.size[1:], (self.recipe.crop, 1.0), ASPECT_RATIOS, mode)
                image = crop(pipeline.colours(image))
            if self.recipe.auto_augment:
                image = _auto_augment(self.recipe.auto_augment)(image)
        return pil_to_tensor(image) if self.recipe.crop else pipeline.pixels(image)


@functools.cache
def _auto_augment(policy: str) -> Callable[[Image.Image], Image.Image]:
    # Cached, because constructing a policy takes longer than applying it to a small image.
    from torchvision.transforms import AutoAugment, AutoAugmentPolicy

    return AutoAugment(AutoAugmentPolicy(policy))


def shift_and_flip(pixels: Tensor, recipe: Recipe, step: int, rows: slice) -> Tensor:
    """Return randomly shifted and mirrored images.

    Args:
        pixels: [N, C, H, W].
        recipe: its `shift` and `flip` are applied.
        step: training step, which decides the random draws.
        rows: which rows of the step's whole batch, over all processes, the images are.
    """
    draws = generator(recipe.entropy, For.BATCH, step)
    offsets = torch.randint(0, 2 * recipe.shift + 1, (recipe.batch_size, 2), generator=draws)[rows].to(pixels.device)
    mirrored = (torch.rand(recipe.batch_size, generator=draws) < 0.5)[rows].to(pixels.device)
    if recipe.shift:
        pixels = _crop_each(functional.pad(pixels, [recipe.shift] * 4), offsets, pixels.shape[2], pixels.shape[3])
    if recipe.flip:
        pixels = torch.where(mirrored[:, None, None, None], pixels.flip(3), pixels)
    return pixels


def _crop_each(pixels: Tensor, offsets: Tensor, height: int, width: int) -> Tensor:
    """Crop each image at its offset (row, column) [N, 2], all in one gather."""
    rows = offsets[:, :1] + torch.arange(height, device=pixels.device)
    columns = offsets[:, 1:] + torch.arange(width, device=pixels.device)
    index = (rows[:, :, None] * pixels.shape[3] + columns[:, None, :]).flatten(1)  # into an image's flattened pixels
    crops = pixels.flatten(2).gather(2, index[:, None].expand(-1, pixels.shape[1], -1))
    return crops.unflatten(2, (height, width))


def shrink(images: Tensor, recipe: Recipe, step: int, total: int) -> Tensor:
    """Return images [N, C, H, W] resized to the recipe's `early_side` in the first half of the `total` steps.

    Weights learnt on small images suit larger ones too, and the cost per image falls with its area (Howard 2018).
    """
    if not recipe.early_side or 2 * step >= total:
        return images
    return functional.interpolate(images, (recipe.early_side,) * 2, mode="bilinear", antialias=True)


def mix(images: Tensor, targets: Tensor, recipe: Recipe, step: int) -> tuple[Tensor, Tensor]:
    """Return images and targets after mixup: each blended with its mirror position in the batch, i with N - 1 - i.

    The order of a batch is random, so the partner is random. All processes draw the same mixing weight.
    """
    if not recipe.mixup:
        return images, targets
    weight = float(np.random.default_rng(seed_of(recipe.entropy, For.BATCH, step)).beta(recipe.mixup, recipe.mixup))
    return images.lerp(images.flip(0), 1 - weight), targets.lerp(targets.flip(0), 1 - weight)
