"""Calls from a lower layer to a higher one. `zoo/__init__.py`, which may import every layer, sets them."""

from collections.abc import Callable
from typing import Any


def _not_connected(*arguments: Any, **options: Any) -> Any:
    raise RuntimeError("zoo.core.hooks: used before the package zoo was imported")


save_outputs: Callable[..., Any] = _not_connected  # stores `Outputs`
train_missing: Callable[[str], None] = _not_connected  # trains a recipe whose weights `zoo.load` does not find
