"""Seeds of all random draws, derived from what is drawn and when, so that a resumed run needs no generator state.

A seed depends on the model's name and seed, on the purpose of the draw, and on its epoch, step or image. It does not depend
on earlier draws: a restarted run, a loader worker, and two processes that share a batch all draw the same numbers. Because
it depends on the name, two models have independent initial weights even if their seeds are equal.
"""

from collections.abc import Sequence
from enum import IntEnum

import numpy as np
import torch


class For(IntEnum):
    """The purpose of a random draw. Changing a number changes every trained network."""

    START = 0  # initial weights
    HOLDOUT = 1  # which images are held out
    ORDER = 2  # order of the images, by epoch
    IMAGE = 3  # augmentation of an image, by epoch and image
    BATCH = 4  # shifts, flips and mixup, by step
    NETWORK = 5  # dropout, by step and process
    PRETEXT = 6  # initial weights of the pretext head; inputs of the pretext task, by step


def seed_of(entropy: Sequence[int], purpose: For, *position: int) -> int:
    """Return a 63-bit seed that depends on all arguments.

    Args:
        entropy: integers that identify the training run, `Recipe.entropy`.
        purpose: what is drawn.
        position: epoch, step or image that the draw belongs to.

    >>> seed_of([0], For.ORDER, 1) == seed_of([0], For.ORDER, 2)
    False
    """
    state = np.random.SeedSequence([*entropy, int(purpose), *position]).generate_state(1, np.uint64)
    return int(state[0] >> np.uint64(1))


def generator(entropy: Sequence[int], purpose: For, *position: int) -> torch.Generator:
    """Return a seeded generator on the CPU, so that its draws are the same for every device."""
    return torch.Generator().manual_seed(seed_of(entropy, purpose, *position))


def seed_network(device: torch.device, seed: int) -> None:
    """Seed the generators that layers such as dropout draw from, on the CPU and on `device`.

    `torch.manual_seed` would seed every kind of device, and record a traceback for each one that is not in use yet, which
    takes a tenth of a small network's step.
    """
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(seed)
