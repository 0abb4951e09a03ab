"""Every random draw as a function of where it is needed, so that a resumed run needs no generator's state.

A draw is keyed by the model's name and seed, by its purpose, and by the epoch, step or image it belongs to. The same draw is
made whatever came before it: after a restart, in a loader worker, or when two processes share a batch. Because the name
takes part, two models start from independent initial weights even when their seeds are equal.
"""

from collections.abc import Sequence
from enum import IntEnum

import numpy as np
import torch


class For(IntEnum):
    """What a draw decides. The numbers are part of the recipe: changing one changes every result."""

    START = 0  # initial weights
    HOLDOUT = 1  # which images are kept back
    ORDER = 2  # of the images, by epoch
    IMAGE = 3  # one image's augmentation, by epoch and image
    BATCH = 4  # shifts, flips and mixing, by step
    NETWORK = 5  # dropout and the like, by step and process
    PRETEXT = 6  # what answers the questions of a pretext task, and the questions by step


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
    """Return a seeded generator on the CPU, whatever the device, so that its draws are the same everywhere."""
    return torch.Generator().manual_seed(seed_of(entropy, purpose, *position))


def seed_network(device: torch.device, seed: int) -> None:
    """Seed what networks draw from, on the CPU and on `device`.

    `torch.manual_seed` does so for every kind of device there might be, and notes a whole traceback for each that is not in
    use yet: a tenth of a small network's step.
    """
    torch.default_generator.manual_seed(seed)
    if device.type != "cpu":
        torch.get_device_module(device).manual_seed(seed)
