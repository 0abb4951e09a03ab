"""Names that outputs are stored under, read from their manifests alone: no torch, no shard, no checksum."""

from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from zoo.cards import card as cards
from zoo.cards.card import Card
from zoo.core import files, home
from zoo.errors import ZooError

_MANIFEST, _SCHEMA = "manifest.json", 1


@dataclass(frozen=True)
class Stored:
    """Outputs of one name on one dataset."""

    name: str
    dataset: str
    kind: str
    examples: int
    classes: int
    path: Path
    text: str | None  # of the card of the model they came from, where it has one

    @cached_property
    def card(self) -> Card | None:
        """That card, read only when it is asked for: there may be hundreds."""
        if self.text is None:
            return None
        return replace(cards.parse(self.text, str(self.path / _MANIFEST)), name=self.name)


def stored_names() -> dict[str, list[Stored]]:
    """What is stored, by name. A manifest that cannot be read is passed over: `zoo verify` says what is wrong with it."""
    found: dict[str, list[Stored]] = {}
    for path in sorted(home.folder("outputs").glob(f"[!.]*/[!.]*/{_MANIFEST}")):
        try:
            said = files.read_json(path, _SCHEMA)["identity"]
            own = Stored(
                str(said["name"]), str(said["dataset"]), str(said["kind"]), int(said["examples"]), len(said["classes"]),
                path.parent, said.get("card"),
            )  # fmt: skip
        except (ZooError, KeyError, TypeError, ValueError):
            continue
        found.setdefault(own.name, []).append(own)
    return found
