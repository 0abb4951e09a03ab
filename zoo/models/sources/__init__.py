"""Sources of models. Each module here, except shared helpers, defines a `SOURCE` and is named as on cards."""

from functools import cache
from importlib import import_module

from zoo.models.sources.base import Source


@cache
def source(name: str) -> Source:
    """Return the source of a name in `zoo.cards.sources.SOURCES`. Its library is loaded on first use."""
    found: Source = import_module(f"zoo.models.sources.{name}").SOURCE
    return found
