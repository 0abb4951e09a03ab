"""The interface of a source: it describes, finds and loads the models of one origin.

Importing a source's module loads neither torch nor its library, so that the availability of all models is known quickly.
Only `describe` of an ad-hoc name and `load` do.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from zoo.cards.card import Card
from zoo.errors import InputError, UnknownName
from zoo.models import hub

if TYPE_CHECKING:
    from zoo.models.model import Model
    from zoo.models.sources.assembly import Request
    from zoo.models.sources.hints import ModelHints

Availability = Literal["shipped", "local", "to download", "to train", "never published"]  # the most available first


class Source:
    """One origin of networks. A subclass overrides what differs; its module holds one instance as `SOURCE`."""

    def describe(self, id: str, name: str) -> Card:
        """Return the card of the ad-hoc name `PREFIX:id`."""
        raise UnknownName(kind="model", name=name)

    def describe_with_hints(self, id: str, name: str, hints: "ModelHints") -> Card:
        """Return the card of `PREFIX:id`, completed with the user's hints if the file does not say everything."""
        if hints.stated:
            problem = f"already says its {', '.join(hints.stated)}"
            raise InputError(problem, where=name, hint=f"Leave out {', '.join(hints.stated)}")
        return self.describe(id, name)

    def parts(self, card: Card) -> Sequence[str]:
        """Return the names of the models that this model consists of; they are loaded first."""
        return ()

    def files(self, card: Card) -> Sequence[Path]:
        """Return the local files that determine the weights, whether or not they exist yet."""
        return ()

    def present(self, card: Card) -> Availability:
        """Return where the weights are, ignoring parts and fitted heads. Loads no library."""
        return "local" if all(path.exists() for path in self.files(card)) else "to download"

    def prepare(self, card: Card, pretrained: bool) -> None:
        """Train missing weights if that is possible, and raise an error if the model certainly cannot be loaded.

        It runs before torch is loaded.
        """

    def load(self, request: "Request") -> "Model":
        """Return the model of a card."""
        raise NotImplementedError


class FromHub(Source):
    """A source whose weights are in a Hugging Face repository that the card links."""

    def repository(self, card: Card) -> str | None:
        """Return `OWNER/NAME` without loading the library, or None if the weights are elsewhere."""
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


def existing_path(id: str, name: str) -> Path:
    """Return the path of `file:PATH` or `onnx:PATH`; raise an error if it does not exist."""
    path = Path(id).expanduser()
    if not id or "\0" in id or not path.exists():
        raise InputError("there is no such file or folder", where=name)
    return path
