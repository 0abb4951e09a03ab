"""What every source shares: how a network is begun, and how it becomes a model with the head its card asks for."""

import contextlib
import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from zoo.cards import labels
from zoo.cards.card import Card
from zoo.datasets.preprocessing import Pipeline
from zoo.errors import InputError, ZooError
from zoo.models.heads import class_mapping, linear, zero_shot
from zoo.models.model import Model
from zoo.networks.network import Network


@dataclass(frozen=True)
class Request:
    """What `zoo.load` was asked for."""

    card: Card
    pretrained: bool
    device: torch.device
    classes: tuple[str, ...] | None = None  # other class names for a zero-shot head
    parts: tuple[Model, ...] = ()  # the models that the card's source named as its parts

    @contextlib.contextmanager
    def beginning(self) -> Iterator[None]:
        """Networks made inside have random weights that depend on the model's name alone, and are on the CPU or on meta.

        The caller's own random numbers go on as if nothing had happened.
        """
        seed = int.from_bytes(hashlib.sha256(self.card.name.encode()).digest()[:4], "little")
        with torch.random.fork_rng(devices=[]), torch.device("meta" if self.device.type == "meta" else "cpu"):
            torch.manual_seed(seed)
            yield

    def example(self) -> torch.Tensor:
        """One image of noise, for the few networks that are known only by looking."""
        if self.card.transform is None:
            raise ZooError(f"{self.card.name}: its card has no transform, so its input is not known")
        size = (1, *self.card.transform.size)
        if self.device.type == "meta":
            return torch.empty(size, device="meta")
        return torch.randn(size, generator=torch.Generator().manual_seed(0))


def assemble(
    request: Request,
    network: Network,
    weights_hash: str | None,
    classes: Sequence[str] | None = None,
    text: Callable[[], zero_shot.TextTower] | None = None,
) -> Model:
    """The model: its head replaced where the card asks for another, checked against the label set, moved to its device.

    `network` has the head its weights came with, if any. `classes` are those of its label set where the source knows
    better than the card; `text` gives the text tower of a model that has one.
    """
    card = request.card
    classes = tuple(classes if classes is not None else card_classes(card))
    if request.classes is not None and card.head != "zero-shot":
        raise InputError(f"{card.name}: has a {card.head} head; only a zero-shot head takes other classes")
    if card.head == "none":
        network, classes = Network(network.body, None, network.blocks), ()
    elif card.head == "linear":
        width = _width(network, request)
        with request.beginning():
            head, digest = linear.stored(card, width, classes, request.pretrained)
        network, weights_hash = Network(network.body, head, network.blocks), _join(weights_hash, digest)
    elif card.head == "zero-shot":
        classes = request.classes or classes
        if text is None:
            raise InputError(
                f"{card.name}: a zero-shot head needs a text tower, which {card.source} models here do not have"
            )
        tower = text()
        with contextlib.nullcontext() if tower.encode else request.beginning():
            head, digest = zero_shot.build(tower, classes, weights_hash)
        network, weights_hash = Network(network.body, head, network.blocks), _join(weights_hash, digest)
    elif card.head == "class-mapping":
        head, digest = class_mapping.from_card(card, network.head, classes)
        network, weights_hash = Network(network.body, head, network.blocks), _join(weights_hash, digest)
    check_width(card.name, network.head, classes)
    if card.transform is None:
        raise ZooError(f"{card.name}: its card has no transform, so no image can be given to it")
    network.eval().requires_grad_(False).to(request.device)
    return Model(card, network, Pipeline(card.transform), classes, weights_hash)


def card_classes(card: Card) -> Sequence[str]:
    """The class names of a card: its own list where it has one, else those of its label set."""
    own = card.details.get("classes")
    if isinstance(own, list):
        return [str(name) for name in own]
    return () if card.labels == "none" else labels.classes(card.labels)


def check_width(name: str, head: nn.Module | None, classes: Sequence[str]) -> None:
    """An error where a head has another number of outputs than there are class names: 1,001 for 1,000, say."""
    if head is None:
        return
    # A head's own word, else that of its last layer.
    widths = [getattr(module, key, None) for module in head.modules() for key in ("out_features", "out_channels")]
    outputs = getattr(head, "out_features", None) or [width for width in widths if width][-1]
    if outputs != len(classes):
        raise InputError(f"{name}: its head has {outputs} outputs, the label set of its card {len(classes)} classes")


def fit(name: str, network: nn.Module, state: dict[str, torch.Tensor], where: str) -> None:
    """Load a state dictionary, every key and every shape of it, or say which do not fit."""
    own = network.state_dict()
    missing, extra = sorted(own.keys() - state.keys()), sorted(state.keys() - own.keys())
    missing = [key for key in missing if not key.endswith("num_batches_tracked")]  # old checkpoints lack these
    if missing or extra:
        raise InputError(
            f"{name}: {where} does not fit the network: {len(missing)} keys missing, {len(extra)} not expected, "
            f"e.g. {(missing or extra)[0]!r}"
        )
    for key, values in state.items():
        if values.shape != own[key].shape:
            raise InputError(
                f"{name}: {where} does not fit the network: {key!r} has shape {list(values.shape)}, "
                f"expected {list(own[key].shape)}"
            )
    network.load_state_dict(state)


def _width(network: Network, request: Request) -> int:
    """The number of dimensions of the embeddings."""
    network.eval()
    with torch.inference_mode():
        return int(network.body(request.example()).shape[1])


def _join(weights_hash: str | None, head_hash: str | None) -> str | None:
    """One hash of body and head; None where either is random, for then the numbers themselves are hashed."""
    if weights_hash is None or head_hash is None:
        return None
    return hashlib.sha256(f"{weights_hash} {head_hash}".encode()).hexdigest()
