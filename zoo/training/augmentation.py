"""From an image to a training example: what is done to each image alone, and what to a batch at once.

Crops and AutoAugment work on one image in its own size, in loader workers. Shifts, flips and mixing work on whole
batches where the network is. Without crops or AutoAugment an image is the same in every epoch and can stay in memory.
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

ASPECT = (3 / 4, 4 / 3)


@dataclass(frozen=True)
class ImageAugmentation:
    """An image as uint8 [C, H, W]: cropped and recoloured at random if the recipe says so, else as prediction sees it."""

    recipe: Recipe

    @property
    def fixed(self) -> bool:
        """Whether an image is the same in every epoch."""
        return not (self.recipe.crop or self.recipe.auto_augment)

    def __call__(self, image: Image.Image, epoch: int, number: int) -> Tensor:
        if self.fixed:
            return Pipeline(self.recipe.transform).pixels(image)
        from torchvision.transforms import InterpolationMode, RandomResizedCrop
        from torchvision.transforms.functional import pil_to_tensor

        # torchvision draws from torch's global generator, which is put back afterwards.
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed_of(self.recipe.entropy, For.IMAGE, epoch, number))
            if self.recipe.crop:
                way = InterpolationMode(self.recipe.transform.interpolation)
                crop = RandomResizedCrop(self.recipe.transform.size[1:], (self.recipe.crop, 1.0), ASPECT, way)
                image = crop(Pipeline(self.recipe.transform).colours(image))
            if self.recipe.auto_augment:
                image = _auto_augment(self.recipe.auto_augment)(image)
        return pil_to_tensor(image) if self.recipe.crop else Pipeline(self.recipe.transform).pixels(image)


@functools.cache
def _auto_augment(policy: str) -> Callable[[Image.Image], Image.Image]:
    """Made once: spelling out a policy takes longer than carrying it out on a small image."""
    from torchvision.transforms import AutoAugment, AutoAugmentPolicy

    return AutoAugment(AutoAugmentPolicy(policy))


def shift_and_flip(pixels: Tensor, recipe: Recipe, step: int, rows: slice) -> Tensor:
    """Move and mirror images [N, C, H, W] at random; they are `rows` of the step's batch over all processes."""
    draws = generator(recipe.entropy, For.BATCH, step)
    offsets = torch.randint(0, 2 * recipe.shift + 1, (recipe.batch_size, 2), generator=draws)[rows].to(pixels.device)
    mirrored = (torch.rand(recipe.batch_size, generator=draws) < 0.5)[rows].to(pixels.device)
    if recipe.shift:
        pixels = _window(functional.pad(pixels, [recipe.shift] * 4), offsets, pixels.shape[2], pixels.shape[3])
    if recipe.flip:
        pixels = torch.where(mirrored[:, None, None, None], pixels.flip(3), pixels)
    return pixels


def _window(pixels: Tensor, offsets: Tensor, height: int, width: int) -> Tensor:
    """The part of each image that begins at its own offset [N, 2], all in one gather."""
    rows = offsets[:, :1] + torch.arange(height, device=pixels.device)
    columns = offsets[:, 1:] + torch.arange(width, device=pixels.device)
    place = (rows[:, :, None] * pixels.shape[3] + columns[:, None, :]).flatten(1)  # in an image's rows one after another
    window = pixels.flatten(2).gather(2, place[:, None].expand(-1, pixels.shape[1], -1))
    return window.unflatten(2, (height, width))


def shrink(images: Tensor, recipe: Recipe, step: int, total: int) -> Tensor:
    """Images [N, C, H, W] at the recipe's early side in the first half of the steps.

    What a network learns of small images carries over to larger ones, at a cost that falls with the area (Howard 2018).
    """
    if not recipe.early_side or 2 * step >= total:
        return images
    return functional.interpolate(images, (recipe.early_side,) * 2, mode="bilinear", antialias=True)


def mix(images: Tensor, targets: Tensor, recipe: Recipe, step: int) -> tuple[Tensor, Tensor]:
    """Mixup: each image and its targets blended with those of the image opposite in the batch.

    The batch's order is random, so the opposite image is a random one. All processes draw the same weight.
    """
    if not recipe.mixup:
        return images, targets
    share = float(np.random.default_rng(seed_of(recipe.entropy, For.BATCH, step)).beta(recipe.mixup, recipe.mixup))
    return images.lerp(images.flip(0), 1 - share), targets.lerp(targets.flip(0), 1 - share)
