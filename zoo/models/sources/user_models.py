"""A network or a function of one's own as what a model is made of here: card, network, transform, hash (`zoo.Model.of`)."""

import copy
from collections.abc import Callable, Sequence
from typing import Any, Literal, cast

import torch
from PIL import Image
from torch import Tensor, nn

from zoo.cards import labels
from zoo.cards.card import Card, Training, Transform
from zoo.cards.names import check_user_name
from zoo.core import files
from zoo.core.text import check_unique
from zoo.core.types import Link
from zoo.datasets.preprocessing import Pipeline, Preprocessing
from zoo.datasets.user_transform import UserTransform, noise
from zoo.errors import InputError
from zoo.models.sources.head_split import agree, split, split_last
from zoo.networks import blocks
from zoo.networks.network import Network, Unchanged, state_hash

Gives = Literal["logits", "probabilities"]
AnyTransform = Transform | Preprocessing | Callable[[Image.Image], Any]


class Answers(nn.Module):
    """Any module or function from a batch of inputs to numbers [N, K], as a network that gives logits."""

    def __init__(
        self,
        classifier: Callable[[Tensor], Any],
        name: str,
        kind: Gives = "logits",
        link: Link = "softmax",
        outputs: int = 0,
    ) -> None:
        super().__init__()
        self.classifier = classifier
        self.name, self.kind, self.link = name, kind, link
        self.out_features = outputs  # where it is known

    def forward(self, batch: Tensor) -> Tensor:
        said = self.classifier(batch)
        said = getattr(said, "logits", said)  # of a Hugging Face model
        try:
            numbers = torch.as_tensor(said).float()
        except (TypeError, ValueError, RuntimeError) as error:
            raise InputError(f"{self.name}: gives {type(said).__name__}, expected numbers [N, K]; wrap it") from error
        if numbers.ndim != 2 or len(numbers) != len(batch):
            raise InputError(f"{self.name}: gives shape {list(numbers.shape)} for {len(batch)} images, expected [N, K]")
        return numbers if self.kind == "logits" else self._logits(numbers)

    def _logits(self, p: Tensor) -> Tensor:
        """The logits whose link gives these probabilities; a class of probability 0 is masked."""
        total = p.sum(1)
        if bool((p < 0).any()) or bool((p > 1 + 1e-4).any()) or (
            self.link == "softmax" and not torch.allclose(total, torch.ones_like(total), atol=1e-3)
        ):  # fmt: skip
            raise InputError(f"{self.name}: gives numbers that are no probabilities; say kind='logits' if they are logits")
        return p.log() if self.link == "softmax" else torch.logit(p.clamp(max=1), eps=1e-7)


def adopt(
    classifier: Callable[[Tensor], Any],
    transform: AnyTransform,
    classes: str | Sequence[str] | None,
    name: str,
    final_layer: str | None,
    kind: Gives,
    link: Link,
) -> tuple[Card, Network, Preprocessing, tuple[str, ...], str]:
    """Card, network, transform, classes and hash of a model of one's own. What was passed in is copied, not changed."""
    check_user_name(name)
    if not callable(classifier):
        raise InputError(f"{name}: expected a torch.nn.Module or a function, found {type(classifier).__name__}")
    if kind not in ("logits", "probabilities") or link not in ("softmax", "sigmoid"):
        raise InputError(f"{name}: kind {kind!r}, link {link!r}: expected logits or probabilities, softmax or sigmoid")
    label_set = classes if isinstance(classes, str) else None
    named = labels.classes(classes) if isinstance(classes, str) else tuple(map(str, classes or ()))
    check_unique(named, f"{name}: classes")
    prepared = _prepared(transform, name)
    own = copy.deepcopy(classifier) if isinstance(classifier, nn.Module) else classifier
    whole = Answers(own, name, kind, link).eval().requires_grad_(False)
    device = next((tensor.device for tensor in [*whole.parameters(), *whole.buffers()]), torch.device("cpu"))
    example = _inputs(prepared).to(device)
    with torch.inference_mode():
        expected = whole(example)
        if not torch.allclose(expected, whole(example), rtol=1e-3, atol=1e-3, equal_nan=True):
            raise InputError(f"{name}: gives other numbers for the same images each time; a model must not")
    if named and expected.shape[1] != len(named):
        raise InputError(f"{name}: gives {expected.shape[1]} numbers for an image, there are {len(named)} classes")
    card = Card(
        name=name, source="own", family=_kind_of(classifier).lower(), architecture=_kind_of(classifier),
        labels=label_set or ("own" if named else "none"), link=link, head="trained" if named else "none",
        training=Training("unknown", "unknown", "unknown"),
        transform=prepared.spec if isinstance(prepared, Pipeline) else None,
        details={} if label_set or not named else {"classes": list(named)},
        title=name, body=f"# {name}\n\nA model of one's own code, {_kind_of(classifier)}.",
    )  # fmt: skip
    network = _network(whole, len(named), final_layer, example, expected, name)
    # Two networks may have the same weights and do different things with them.
    digest = files.digest([state_hash(whole), *_summary(expected)])
    return card, network.eval().requires_grad_(False), prepared, named, digest


def _network(whole: Answers, outputs: int, final_layer: str | None, example: Tensor, expected: Tensor, name: str) -> Network:
    found = blocks.find(whole.classifier) if isinstance(whole.classifier, nn.Module) else {}
    if not outputs:
        return Network(whole, None, found)
    if final_layer is None:
        head = split_last(whole, outputs, example)
        return Network(whole, head, found) if head else Network(whole, Unchanged(outputs), found, embeds=False)
    path = f"classifier.{final_layer}"
    if path not in dict(whole.named_modules()):
        raise InputError(f"{name}: has no layer {final_layer!r}; `module.named_modules()` lists them")
    head = split(whole, [path], example, name)
    if not agree(whole, head, example, expected):
        raise InputError(
            f"{name}: {final_layer!r} is not its final layer: what follows changes the answer; name the layer that gives "
            "the logits, or none"
        )
    return Network(whole, head, found)


def _prepared(transform: AnyTransform, name: str) -> Preprocessing:
    if isinstance(transform, Transform):
        return Pipeline(transform)
    if hasattr(transform, "pixels") and hasattr(transform, "fingerprint"):
        return cast(Preprocessing, transform)
    if not callable(transform):
        raise InputError(
            f"{name}: transform: expected a zoo.cards.Transform or a function of an image, found {type(transform).__name__}"
        )
    return UserTransform(transform, name)


def _inputs(transform: Preprocessing) -> Tensor:
    return torch.stack([transform(image) for image in noise()])


def _kind_of(classifier: Any) -> str:
    named = getattr(classifier, "__name__", None)  # of a function
    return str(named or type(classifier).__name__).strip("<>")


def _summary(logits: Tensor) -> list[str]:
    """What a network says about noise, in so few digits that neither the device nor the number of threads shows."""
    rows = [row[row.isfinite()] for row in logits.double().cpu()]
    return [f"{float(row.max()):.4g} {float(row.std()):.4g}" if len(row) > 1 else f"{row.tolist()}" for row in rows]
