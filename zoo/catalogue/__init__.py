"""A card for any model that a library knows, made from that library's own registry; no weights are touched.

`timm:NAME`, `open_clip:ARCH/TAG` and `hf:REPO` name such models. Licence, input size, transform and number of classes are
what the installed library says; the training methodology is read off the tag as far as tags go, else it is `unknown`.
"""

from importlib import import_module

from zoo.cards import Card
from zoo.errors import InputError, UnknownName
from zoo.names import near

__all__ = ["LIBRARIES", "describe"]

LIBRARIES = {"timm": "timm", "open_clip": "open_clip", "hf": "transformers"}


def describe(name: str) -> Card:
    """The card of an ad-hoc name.

    >>> card = describe("timm:resnet18")
    >>> card.id, card.license, card.transform.size
    ('resnet18.a1_in1k', 'apache-2.0', (3, 224, 224))
    """
    library, colon, id = name.partition(":")
    if library not in LIBRARIES:
        raise UnknownName(f"unknown model {name!r}: a name without a card starts with timm:, open_clip:, hf: or file:"
                          f"{near(library, LIBRARIES) if colon else ''}")  # fmt: skip
    if not id:
        raise InputError(f"name {name!r}: expected a model after {library}:")
    card: Card = import_module(f"zoo.catalogue.{LIBRARIES[library]}").describe(id, name)
    return card
