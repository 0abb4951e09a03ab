"""Model cards (everything known about a model before its weights are loaded), model names, label sets and recipes."""

from typing import TYPE_CHECKING

from zoo.core.lazy import lazy_exports

if TYPE_CHECKING:
    from zoo.cards.card import Card, Training, Transform, parse, read, write

__all__ = ["Card", "Training", "Transform", "parse", "read", "write"]

__getattr__, __dir__ = lazy_exports(__name__, dict.fromkeys(__all__, "zoo.cards.card"))
