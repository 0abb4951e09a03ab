"""What a source is: it describes, finds and loads the models of one origin.

A module of a source loads neither torch nor its library before `describe` of an ad-hoc name or `load` is called, so that
all of them can be asked where weights are in no time.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, get_args

from zoo.cards.card import Card
from zoo.errors import InputError, UnknownName
from zoo.models import hub

if TYPE_CHECKING:
    from zoo.models.model import Model
    from zoo.models.sources.assembly import Request
    from zoo.models.sources.hints import ModelHints

Availability = Literal["shipped", "local", "to download", "to train", "never published"]
_ORDER: tuple[Availability, ...] = get_args(Availability)


class Source:
    """One origin of networks. A subclass overrides what is different there; `SOURCE` in its module is the one object."""

    def describe(self, id: str, name: str) -> Card:
        """The card of the ad-hoc name `PREFIX:id`."""
        raise UnknownName(f"unknown model {name!r}: this source has no names of its own")

    def describe_with_hints(self, id: str, name: str, hints: "ModelHints") -> Card:
        """The same with what the user says about it, for sources whose files do not say all."""
        if hints.stated:
            raise InputError(f"{name}: its source says by itself what it is; leave out {', '.join(hints.stated)}")
        return self.describe(id, name)

    def parts(self, card: Card) -> Sequence[str]:
        """The names of other models that this one is made of; they are loaded first."""
        return ()

    def files(self, card: Card) -> Sequence[Path]:
        """The files on this machine that decide what the weights are, whether or not they exist yet."""
        return ()

    def present(self, card: Card) -> Availability:
        """Where the weights are, parts and fitted heads left aside; asks no library."""
        return "local" if all(path.exists() for path in self.files(card)) else "to download"

    def prepare(self, card: Card, pretrained: bool) -> None:
        """An error, before torch is loaded, if the model surely cannot be loaded now; what can be made is made."""

    def load(self, request: "Request") -> "Model":
        """The model of a card."""
        raise NotImplementedError


class FromHub(Source):
    """A source whose weights are in a repository of the Hugging Face hub that the card links."""

    def repository(self, card: Card) -> str | None:
        """`OWNER/NAME`, without asking the library; None where the weights come from elsewhere."""
        return hub.linked(card.body)

    def files(self, card: Card) -> Sequence[Path]:
        repository = self.repository(card)
        return [] if repository is None else hub.cached_weights(repository)

    def present(self, card: Card) -> Availability:
        return "local" if self.files(card) else "to download"

    def prepare(self, card: Card, pretrained: bool) -> None:
        repository = self.repository(card)
        if pretrained and repository is not None:
            hub.require(card.name, repository)


def furthest(found: Sequence[Availability]) -> Availability:
    """What a model made of such parts is: as far away as the furthest of them.

    >>> furthest(["local", "to train", "shipped"])
    'to train'
    """
    return max(found, key=_ORDER.index)
