"""Whether a card's weights are on this machine; looked up without loading any library."""

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from zoo import recipes, settings
from zoo.cards import Card
from zoo.weights import linked_repository


def weights_here(card: Card, known: Mapping[str, Card]) -> bool:
    """Whether loading `card` would find its weights; `known` are the cards an ensemble's members are looked for in."""
    if card.head == "linear" and not (settings.home() / "weights" / card.name / "head.safetensors").exists():
        return False
    if "base" in card.details:
        base = known.get(card.details["base"])
        return base is not None and weights_here(base, known)
    if card.source == "recipe":
        return recipes.weights_path(card.name).exists()
    if card.source == "packaged":
        return find_spec(card.id or "") is not None
    if card.source == "local" or card.name.startswith("file:"):
        return Path(card.id or "").exists()
    if card.source == "ensemble":
        return all(member.name in known and weights_here(known[member.name], known) for member in card.members)
    repository = linked_repository(card)
    return repository is not None and _cached(repository)


def _cached(repository: str) -> bool:
    """Whether the hub's cache holds a file of weights of a repository."""
    from huggingface_hub import constants

    snapshots = Path(constants.HF_HUB_CACHE) / f"models--{repository.replace('/', '--')}" / "snapshots"
    return any(path.suffix in (".safetensors", ".bin", ".pt", ".pth") for path in snapshots.glob("*/*"))
