"""Where networks come from. A source is one object, `SOURCE` in the module that has its name; this line registers it."""

from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoo.sources.base import Source

NAMES = ("timm", "open_clip", "transformers", "packaged", "local", "recipe", "ensemble", "fitted", "reference")


@cache
def get(name: str) -> "Source":
    """The source of a name that a card may have; its library loads when it is used."""
    source: Source = import_module(f"zoo.sources.{name}").SOURCE
    return source


def by_prefix() -> "dict[str, Source]":
    """The sources whose models need no card, by what stands before the colon: `timm` in `timm:resnet18`."""
    return {source.prefix: source for source in map(get, NAMES) if source.prefix}
