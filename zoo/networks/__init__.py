"""Networks for recipes: small ones for small images, and any of timm's."""

from zoo.networks.builder import build as build
from zoo.networks.builder import check as check

__all__ = ["build", "check"]
