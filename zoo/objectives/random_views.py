"""Random augmentations for objectives that compare views of an image: batches of uint8 [N, C, H, W] in and out.

All random numbers are drawn on the CPU from the generator that is passed, so that they are the same on every device.
"""

import math

import torch
from torch import Generator, Tensor
from torch.nn import functional

# SimCLR's settings for CIFAR-10 (Chen et al. 2020, B.9), except that crops have at least a fifth of the area (there 0.08).
MIN_AREA, ASPECT = 0.2, 4 / 3
LIGHT, HUE = 0.4, 0.1  # brightness, contrast and saturation change by a factor of up to 1 +- LIGHT, hue by up to HUE turns
RECOLOURED, GREY = 0.8, 0.2  # fractions of the images
_TO_YIQ = torch.tensor([[0.299, 0.587, 0.114], [0.596, -0.274, -0.322], [0.211, -0.523, 0.312]])


def augment(pixels: Tensor, generator: Generator) -> Tensor:
    """Return each image randomly cropped, flipped and recoloured."""
    images = crop_and_flip(pixels.float() / 255, generator)
    return (recolour(images, generator) * 255).round().to(torch.uint8)


def crop_and_flip(images: Tensor, generator: Generator) -> Tensor:
    """Return a random rectangle of each image, flipped with probability 1/2, resized to the size of the image."""
    count = len(images)
    area = MIN_AREA + (1 - MIN_AREA) * torch.rand(count, generator=generator)
    stretch = torch.exp((2 * torch.rand(count, generator=generator) - 1) * math.log(ASPECT) / 2)
    size = torch.stack([area.sqrt() * stretch, area.sqrt() / stretch], 1).clamp_max(1)  # width, height; 1: the full side
    centre = (2 * torch.rand(count, 2, generator=generator) - 1) * (1 - size)
    size[:, 0] *= 1 - 2 * (torch.rand(count, generator=generator) < 0.5).float()  # a negative width flips
    affine = torch.cat([torch.diag_embed(size), centre[:, :, None]], 2).to(images.device)
    grid = functional.affine_grid(affine, list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, padding_mode="reflection", align_corners=False)


def recolour(images: Tensor, generator: Generator) -> Tensor:
    """Return images [N, 3, H, W] in 0..1, most with changed brightness, contrast and colours, some converted to grey.

    Hue rotates and saturation scales the two colour axes of YIQ, so both are one 3 x 3 matrix per image.
    """
    count = len(images)
    factors = 1 + LIGHT * (2 * torch.rand(3, count, generator=generator) - 1)
    turn = 2 * math.pi * HUE * (2 * torch.rand(count, generator=generator) - 1)
    grey = torch.rand(count, generator=generator) < GREY
    unchanged = torch.rand(count, generator=generator) >= RECOLOURED
    brightness, contrast, saturation = factors.where(~unchanged, 1).unbind()
    turn, saturation = turn.where(~unchanged, 0), saturation.where(~grey, 0)
    cosine, sine, zero = saturation * turn.cos(), saturation * turn.sin(), torch.zeros(count)
    rows = [torch.ones(count), zero, zero, zero, cosine, -sine, zero, sine, cosine]
    matrix = torch.linalg.inv(_TO_YIQ) @ torch.stack(rows, 1).view(count, 3, 3) @ _TO_YIQ
    matrix = matrix * brightness[:, None, None]
    coloured = torch.einsum("nij,njhw->nihw", matrix.to(images), images)
    mean = coloured.mean((1, 2, 3), keepdim=True)
    return (mean + (coloured - mean) * contrast.to(images)[:, None, None, None]).clamp(0, 1)


def rotate(pixels: Tensor, turns: Tensor) -> Tensor:
    """Return each image [N, C, H, W] rotated by `turns` [N] quarter turns.

    >>> rotate(torch.tensor([[[[1, 2], [3, 4]]]]), torch.tensor([1])).tolist()
    [[[[2, 4], [1, 3]]]]
    """
    result = pixels.clone()
    for quarters in (1, 2, 3):
        rows = turns == quarters
        result[rows] = pixels[rows].rot90(quarters, (2, 3))
    return result
