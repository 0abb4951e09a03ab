"""Sources of models. Each module here, except shared helpers, has one `SOURCE`, named as cards name it."""

from functools import cache
from importlib import import_module

from zoo.models.sources.base import Source


@cache
def source(name: str) -> Source:
    """Return the source of a name in `zoo.cards.sources.SOURCES`. Its library is not loaded before it is used."""
    found: Source = import_module(f"zoo.models.sources.{name}").SOURCE
    return found
