"""Random views of images for objectives that compare them: batches of uint8 [N, C, H, W] in and out.

Every draw comes from the generator that is given, on the CPU, so that it is the same on every device.
"""

import math

import torch
from torch import Generator, Tensor
from torch.nn import functional

# SimCLR's settings for CIFAR-10 (Chen et al. 2020, B.9), but for crops of at least a fifth of the area, not a twelfth.
LEAST_AREA, ASPECT = 0.2, 4 / 3
LIGHT, HUE = 0.4, 0.1  # brightness, contrast and saturation change by up to a factor of 1 +- LIGHT, hue by HUE turns
RECOLOURED, GREY = 0.8, 0.2  # shares of the images
_TO_YIQ = torch.tensor([[0.299, 0.587, 0.114], [0.596, -0.274, -0.322], [0.211, -0.523, 0.312]])


def random_views(pixels: Tensor, draws: Generator) -> Tensor:
    """Each image cropped, mirrored and recoloured at random."""
    images = crop_and_flip(pixels.float() / 255, draws)
    return (recolour(images, draws) * 255).round().to(torch.uint8)


def crop_and_flip(images: Tensor, draws: Generator) -> Tensor:
    """A random rectangle of each image, mirrored or not, stretched to the image's own size."""
    count = len(images)
    area = LEAST_AREA + (1 - LEAST_AREA) * torch.rand(count, generator=draws)
    stretch = torch.exp((2 * torch.rand(count, generator=draws) - 1) * math.log(ASPECT) / 2)
    size = torch.stack([area.sqrt() * stretch, area.sqrt() / stretch], 1).clamp_max(1)  # width, height; 1: the whole side
    centre = (2 * torch.rand(count, 2, generator=draws) - 1) * (1 - size)
    size[:, 0] *= 1 - 2 * (torch.rand(count, generator=draws) < 0.5).float()  # a negative width mirrors
    where = torch.cat([torch.diag_embed(size), centre[:, :, None]], 2).to(images.device)
    grid = functional.affine_grid(where, list(images.shape), align_corners=False)
    return functional.grid_sample(images, grid, padding_mode="reflection", align_corners=False)


def recolour(images: Tensor, draws: Generator) -> Tensor:
    """Other light and colours for most images [N, 3, H, W] in 0..1, and none at all for some.

    Hue turns and saturation stretches the two colour axes of YIQ, so that both are one 3 x 3 matrix for each image.
    """
    count = len(images)
    bright, contrast, vivid = (1 + LIGHT * (2 * torch.rand(3, count, generator=draws) - 1)).unbind()
    turn = 2 * math.pi * HUE * (2 * torch.rand(count, generator=draws) - 1)
    grey = torch.rand(count, generator=draws) < GREY
    left = torch.rand(count, generator=draws) >= RECOLOURED
    bright, contrast, vivid, turn = (
        bright.where(~left, 1),
        contrast.where(~left, 1),
        vivid.where(~left, 1),
        turn.where(~left, 0),
    )
    vivid = vivid.where(~grey, 0)
    cosine, sine, zero = vivid * turn.cos(), vivid * turn.sin(), torch.zeros(count)
    rows = [torch.ones(count), zero, zero, zero, cosine, -sine, zero, sine, cosine]
    matrix = torch.linalg.inv(_TO_YIQ) @ torch.stack(rows, 1).view(count, 3, 3) @ _TO_YIQ
    matrix = matrix * bright[:, None, None]
    coloured = torch.einsum("nij,njhw->nihw", matrix.to(images), images)
    mean = coloured.mean((1, 2, 3), keepdim=True)
    return (mean + (coloured - mean) * contrast.to(images)[:, None, None, None]).clamp(0, 1)


def rotate(pixels: Tensor, turns: Tensor) -> Tensor:
    """Each image turned by so many quarters.

    >>> rotate(torch.tensor([[[[1, 2], [3, 4]]]]), torch.tensor([1])).tolist()
    [[[[2, 4], [1, 3]]]]
    """
    result = pixels.clone()
    for quarters in (1, 2, 3):
        chosen = turns == quarters
        result[chosen] = pixels[chosen].rot90(quarters, (2, 3))
    return result
