"""Networks for recipes: small ones for small images, and any of timm's."""

from zoo.architectures.building import build as build
from zoo.architectures.building import check as check

__all__ = ["build", "check"]
