"""Models made from a user's network or function; used by `zoo.Model.of`."""

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
from zoo.models.sources.head_split import outputs_agree, split, split_last
from zoo.networks import blocks
from zoo.networks.network import IdentityHead, Network, state_hash

OutputKind = Literal["logits", "probabilities"]
AnyTransform = Transform | Preprocessing | Callable[[Image.Image], Any]
# Sides of square images, common ones first, to try on a network whose transform does not resize.
_TRIAL_SIDES = (32, 28, 64, 224, 96, 128, 48, 256, 299, 16, 8, 40, 56, 72, 80, 84, 112, 160, 192, 240, 288, 336, 384, 448)


class ClassifierModule(nn.Module):
    """A module or function from a batch of inputs to numbers [N, K], as a module that returns logits.

    Args:
        classifier: the module or function.
        name: the model's name, for errors.
        kind: what the classifier returns.
        link: how logits become probabilities.
        outputs: number of outputs, if it is known.
    """

    def __init__(
        self,
        classifier: Callable[[Tensor], Any],
        name: str,
        kind: OutputKind = "logits",
        link: Link = "softmax",
        outputs: int = 0,
    ) -> None:
        super().__init__()
        self.classifier = classifier
        self.name, self.kind, self.link = name, kind, link
        self.out_features = outputs

    def forward(self, batch: Tensor) -> Tensor:
        result = self.classifier(batch)
        result = getattr(result, "logits", result)  # of a Hugging Face model
        try:
            numbers = torch.as_tensor(result).float()
        except (TypeError, ValueError, RuntimeError) as error:
            problem = f"the classifier returns {type(result).__name__}"
            raise InputError(problem, where=self.name, expected="numbers [N, K]") from error
        if numbers.ndim != 2 or len(numbers) != len(batch):
            problem = f"the classifier returns shape {list(numbers.shape)} for {len(batch)} images"
            raise InputError(problem, where=self.name, expected="[N, K]")
        return numbers if self.kind == "logits" else self._to_logits(numbers)

    def _to_logits(self, p: Tensor) -> Tensor:
        """Return logits whose link gives these probabilities; a probability of 0 becomes -inf, a masked class."""
        total = p.sum(1)
        if bool((p < 0).any()) or bool((p > 1 + 1e-4).any()) or (
            self.link == "softmax" and not torch.allclose(total, torch.ones_like(total), atol=1e-3)
        ):  # fmt: skip
            raise InputError(
                "the classifier returns numbers that are not probabilities",
                where=self.name,
                argument="kind",
                hint="Pass {kind=logits} if they are logits",
            )
        return p.log() if self.link == "softmax" else torch.logit(p.clamp(max=1), eps=1e-7)


def adopt(
    classifier: Callable[[Tensor], Any],
    transform: AnyTransform,
    classes: str | Sequence[str] | None,
    name: str,
    final_layer: str | None,
    kind: OutputKind,
    link: Link,
) -> tuple[Card, Network, Preprocessing, tuple[str, ...], str]:
    """Return card, network, transform, classes and weights hash of a user's model; see `Model.of` for the arguments."""
    check_user_name(name)
    if not callable(classifier):
        expected = "a torch.nn.Module or a function"
        raise InputError(where=name, argument="classifier", expected=expected, found=type(classifier).__name__)
    if kind not in ("logits", "probabilities"):
        raise InputError(where=name, argument="kind", expected="logits or probabilities", found=kind)
    if link not in ("softmax", "sigmoid"):
        raise InputError(where=name, argument="link", expected="softmax or sigmoid", found=link)
    label_set = classes if isinstance(classes, str) else None
    class_names = labels.classes(classes) if isinstance(classes, str) else tuple(map(str, classes or ()))
    check_unique(class_names, f"{name}: classes")
    prepared = _preprocessing(transform, name)
    copied = copy.deepcopy(classifier) if isinstance(classifier, nn.Module) else classifier
    whole = ClassifierModule(copied, name, kind, link).eval().requires_grad_(False)
    with torch.inference_mode():
        example = _example(prepared, whole, len(class_names))
        expected = whole(example)
        if not torch.allclose(expected, whole(example), rtol=1e-3, atol=1e-3, equal_nan=True):
            raise InputError("the classifier returns different numbers for the same images", where=name)
    if class_names and expected.shape[1] != len(class_names):
        problem = f"the classifier has {expected.shape[1]} outputs, but there are {len(class_names)} classes"
        raise InputError(problem, where=name, argument="classes")
    architecture = str(getattr(classifier, "__name__", None) or type(classifier).__name__).strip("<>")
    card = Card(
        name=name, source="own", family=architecture.lower(), architecture=architecture,
        labels=label_set or ("own" if class_names else "none"), link=link, head="trained" if class_names else "none",
        training=Training("unknown", "unknown", "unknown"),
        transform=prepared.spec if isinstance(prepared, Pipeline) else None,
        details={} if label_set or not class_names else {"classes": list(class_names)},
        title=name, body=f"# {name}\n\nA user's model in Python code, {architecture}.",
    )  # fmt: skip
    network = _network(whole, len(class_names), final_layer, example, expected, name)
    # The results are part of the hash, because two networks with the same weights may compute different things.
    digest = files.digest([state_hash(whole), *_summary(expected)])
    return card, network.eval().requires_grad_(False), prepared, class_names, digest


def _network(
    whole: ClassifierModule, outputs: int, final_layer: str | None, example: Tensor, expected: Tensor, name: str
) -> Network:
    hidden = blocks.find(whole.classifier) if isinstance(whole.classifier, nn.Module) else {}
    if not outputs:
        return Network(whole, None, hidden)
    if final_layer is None:
        head = split_last(whole, outputs, example)
        return Network(whole, head, hidden) if head else Network(whole, IdentityHead(outputs), hidden, embeds=False)
    path = f"classifier.{final_layer}"
    if path not in dict(whole.named_modules()):
        hint = "`module.named_modules()` lists the layers"
        raise InputError(f"there is no layer {final_layer!r}", where=name, argument="final_layer", hint=hint)
    head = split(whole, [path], example, name)
    if not outputs_agree(whole, head, example, expected):
        raise InputError(
            f"{final_layer!r} is not the final layer: what follows it changes the result",
            where=name,
            argument="final_layer",
            hint="Pass the layer that returns the logits, or none",
        )
    return Network(whole, head, hidden)


def _preprocessing(transform: AnyTransform, name: str) -> Preprocessing:
    if isinstance(transform, Transform):
        return Pipeline(transform)
    if hasattr(transform, "pixels") and hasattr(transform, "fingerprint"):
        return cast(Preprocessing, transform)
    if not callable(transform):
        expected = "a zoo.cards.Transform or a function of an image"
        raise InputError(where=name, argument="transform", expected=expected, found=type(transform).__name__)
    return UserTransform(transform, name)


def _example(transform: Preprocessing, network: ClassifierModule, outputs: int) -> Tensor:
    """Return the inputs [4, ...] of the noise images; if the transform keeps sizes, at one that the network accepts."""
    tensors = [*network.parameters(), *network.buffers()]
    device = tensors[0].device if tensors else torch.device("cpu")
    if not isinstance(transform, UserTransform) or not transform.keeps_size:
        return torch.stack([transform(image) for image in noise()]).to(device)
    accepted: list[Tensor] = []
    error: Exception | None = None
    for side in _TRIAL_SIDES:
        batch = transform.squares(side).to(device)
        try:
            columns = network(batch).shape[1]
        except (RuntimeError, ValueError, IndexError, AssertionError) as refusal:  # an image size that does not fit
            error = error or refusal
            continue
        accepted.append(batch)
        if columns == outputs or not outputs:
            break
    if not accepted:
        if isinstance(error, InputError):
            raise error
        raise InputError(
            f"the network accepts no square images with a side of {', '.join(map(str, _TRIAL_SIDES))}",
            where=network.name,
            argument="transform",
            hint="Add a Resize to the transform",
        ) from error
    example = accepted[-1] if columns == outputs else accepted[0]
    transform.default_size = tuple(example.shape[1:])
    return example


def _summary(logits: Tensor) -> list[str]:
    """Return maximum and standard deviation of each row, rounded so that they do not depend on device and threads."""
    rows = [row[row.isfinite()] for row in logits.double().cpu()]
    return [f"{float(row.max()):.4g} {float(row.std()):.4g}" if len(row) > 1 else f"{row.tolist()}" for row in rows]
