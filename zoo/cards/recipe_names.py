"""The objectives, architectures and datasets in recipe names. Importing this module does not import torch."""

import re
from typing import Literal

Framework = Literal["supervised", "contrastive", "self-supervised", "distilled", "pseudo-label", "unknown"]

OBJECTIVES: tuple[str, ...] = (
    "softmax",
    "label-smoothing",
    "dropout",
    "extra-l2",
    "logit-penalty",
    "logit-norm",
    "cosine",
    "sigmoid",
    "squared-error",
)

# Objectives that belong to another training framework than supervised learning.
FRAMEWORKS: dict[str, Framework] = {
    "simclr": "contrastive",
    "supcon": "contrastive",
    "rotation": "self-supervised",
    "distillation": "distilled",
}

# Networks for 32 x 32 images, and their family. Every other wrn-DEPTH-FACTOR is such a network too.
FAMILIES: dict[str, str] = {
    "resnet8": "resnet",
    "resnet7": "resnet",
    "resnet7x2": "resnet",
    "resnet20": "resnet",
    "all-cnn-c": "all-cnn",
    "wrn-16-8": "wrn",
    "wrn-10-2": "wrn",
    "vit-mini": "vit",
    "mixer-mini": "mixer",
    "convnext-mini": "convnext",
    "mobilenet-mini": "mobilenet",
    "densenet-mini": "densenet",
}
SMALL_ARCHITECTURES: tuple[str, ...] = tuple(FAMILIES)
WIDE_RESNET = re.compile(r"wrn-(?P<depth>\d+)-(?P<factor>\d+)\Z")

DATASETS: tuple[str, ...] = ("digits", "cifar10", "cifar100", "fashion-mnist", "in1k")  # with dataset-specific settings

_registered: list[str] = []


def known() -> tuple[str, ...]:
    """Return all objectives that recipe names may contain: supervised ones, other frameworks, and registered ones."""
    return (*OBJECTIVES, *FRAMEWORKS, *_registered)


def add(name: str) -> None:
    """Register an objective, so that recipe names may contain it."""
    _registered.append(name)


def remove(name: str) -> None:
    """Remove a registered objective."""
    _registered.remove(name)


def framework(objective: str) -> Framework:
    """Return the training framework of an objective, or of a combination."""
    return next((FRAMEWORKS[part] for part in objective.split("+") if part in FRAMEWORKS), "supervised")


def small_family(architecture: str) -> str | None:
    """Return the family of a network for 32 x 32 images; None for any other architecture.

    >>> small_family("wrn-22-4"), small_family("wrn-22-5x"), small_family("resnet50")
    ('wrn', None, None)
    """
    wide = WIDE_RESNET.match(architecture)
    if wide and int(wide["depth"]) >= 10 and int(wide["depth"]) % 6 == 4 and int(wide["factor"]):
        return "wrn"
    return FAMILIES.get(architecture)
