"""Calls from a lower layer to a higher one. `zoo/__init__.py`, which may import every layer, connects them."""

from collections.abc import Callable


def _not_connected(name: str) -> None:
    raise RuntimeError("zoo.core.hooks: imported without the package zoo")


train_missing: Callable[[str], None] = _not_connected  # trains a recipe whose weights `zoo.load` does not find
