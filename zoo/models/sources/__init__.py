"""From the name of a source, as a card has it, to the one object that its module keeps as `SOURCE`."""

from functools import cache
from importlib import import_module

from zoo.models.sources.base import Source


@cache
def source(name: str) -> Source:
    """The source of a name in `zoo.cards.sources.SOURCES`; its library loads when it is used."""
    found: Source = import_module(f"zoo.models.sources.{name}").SOURCE
    return found
