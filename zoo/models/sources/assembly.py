"""Shared by all sources: initialise a network, and turn it into a model with the head that its card names."""

import contextlib
import hashlib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from zoo.cards import labels
from zoo.cards.card import Card
from zoo.core import settings
from zoo.datasets.preprocessing import Pipeline
from zoo.errors import InputError, ZooError
from zoo.models.heads import class_mapping, linear, zero_shot
from zoo.models.model import Model
from zoo.networks.network import Network


@dataclass(frozen=True)
class Request:
    """The arguments of `zoo.load`, after the name was looked up."""

    card: Card
    pretrained: bool
    device: torch.device
    classes: tuple[str, ...] | None = None  # other class names for a zero-shot head
    parts: tuple[Model, ...] = ()  # the loaded models that `Source.parts` named

    @contextlib.contextmanager
    def initialising(self) -> Iterator[None]:
        """Return a context in which networks get random weights that depend on the model's name alone.

        They are built on the CPU, or on the meta device. The caller's random state is restored afterwards.
        """
        seed = int.from_bytes(hashlib.sha256(self.card.name.encode()).digest()[:4], "little")
        with torch.random.fork_rng(devices=[]), torch.device("meta" if self.device.type == "meta" else "cpu"):
            torch.manual_seed(seed)
            yield

    def example(self) -> torch.Tensor:
        """Return one input of noise [1, C, H, W], for finding out what a network computes."""
        if self.card.transform is None:
            raise ZooError("the card has no transform, so the input size is unknown", where=self.card.name)
        size = (1, *self.card.transform.size)
        if math.prod(size) > settings.max_pixels():
            raise InputError(
                f"the card has an input size of {' x '.join(map(str, size[1:]))}",
                where=self.card.name,
                expected=f"at most {settings.max_pixels()} numbers",
                hint="Correct the card's transform, or raise ZOO_MAX_PIXELS",
            )
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
    """Return the model on its device, with the head that its card names, after checking its number of outputs.

    Args:
        request: what was asked for.
        network: has the head that its weights came with, if any.
        weights_hash: hash of the weights; None if they are random.
        classes: class names; default: the card's.
        text: returns the text tower of a model that has one.
    """
    card = request.card
    classes = tuple(classes if classes is not None else card_classes(card))
    if request.classes is not None and card.head != "zero-shot":
        problem = f"the model has a {card.head} head, and only a zero-shot head takes other classes"
        raise InputError(problem, where=card.name, argument="classes")
    digest: str | None = None
    if card.head == "none":
        network, classes = Network(network.body, None, network.blocks), ()
    elif card.head == "linear":
        with torch.inference_mode():
            width = network.eval().body(request.example()).shape[1]
        with request.initialising():
            head, digest = linear.stored(card, width, classes, request.pretrained)
    elif card.head == "zero-shot":
        classes = request.classes or classes
        if text is None:
            problem = f"a zero-shot head needs a text tower, which models of the source {card.source} do not have"
            raise InputError(problem, where=card.name)
        tower = text()
        with contextlib.nullcontext() if tower.encode else request.initialising():
            head, digest = zero_shot.build(tower, classes, weights_hash)
    elif card.head == "class-mapping":
        head, digest = class_mapping.from_card(card, network.head, classes)
    if card.head in ("linear", "zero-shot", "class-mapping"):
        network, weights_hash = Network(network.body, head, network.blocks), _join(weights_hash, digest)
    check_outputs(card.name, network.head, classes)
    if card.transform is None:
        raise ZooError("the card has no transform, so the model cannot take images", where=card.name)
    network.eval().requires_grad_(False).to(request.device)
    return Model(card, network, Pipeline(card.transform), classes, weights_hash)


def card_classes(card: Card) -> Sequence[str]:
    """Return the class names of a card: those it lists, else those of its label set."""
    listed = card.details.get("classes")
    if isinstance(listed, list):
        return [str(name) for name in listed]
    return () if card.labels == "none" else labels.classes(card.labels)


def check_outputs(name: str, head: nn.Module | None, classes: Sequence[str]) -> None:
    """Raise an error if the number of a head's outputs differs from the number of classes, such as 1001 and 1000."""
    if head is None:
        return
    # The outputs of the head itself, else of its last layer.
    widths = [getattr(module, key, None) for module in head.modules() for key in ("out_features", "out_channels")]
    outputs = getattr(head, "out_features", None) or [width for width in widths if width][-1]
    if outputs != len(classes):
        raise InputError(f"the head has {outputs} outputs, but the card has {len(classes)} classes", where=name)


def fit(name: str, network: nn.Module, state: dict[str, torch.Tensor], where: str) -> None:
    """Load a state dictionary into a network; raise an error unless every key and shape fits."""
    expected = network.state_dict()
    missing, extra = sorted(expected.keys() - state.keys()), sorted(state.keys() - expected.keys())
    missing = [key for key in missing if not key.endswith("num_batches_tracked")]  # old checkpoints lack these
    problem = ""
    if missing or extra:
        problem = f"{len(missing)} keys are missing and {len(extra)} are unexpected, e.g. {(missing or extra)[0]!r}"
    else:
        wrong = next((key for key, values in state.items() if values.shape != expected[key].shape), None)
        if wrong is not None:
            problem = f"{wrong!r} has shape {list(state[wrong].shape)} instead of {list(expected[wrong].shape)}"
    if problem:
        raise InputError(f"does not fit the network: {problem}", where=f"{name}: {where}")
    network.load_state_dict(state)


def _join(weights_hash: str | None, head_hash: str | None) -> str | None:
    """Return one hash of body and head, or None if either is random, in which case the numbers are hashed."""
    if weights_hash is None or head_hash is None:
        return None
    return hashlib.sha256(f"{weights_hash} {head_hash}".encode()).hexdigest()
