"""Architectures for training recipes: small networks for small images, and every architecture of timm."""

from zoo.networks.builder import build as build
from zoo.networks.builder import check as check

__all__ = ["build", "check"]
