"""ONNX files: `onnx:PATH`, with a card next to the file or with hints about classes and transform; run by onnxruntime.

The graph's first output is used. Embeddings are the input of the final linear layer, or the tensor that the card names
(`details.embedding`): the graph is cut there, and both parts are run.
"""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.cards import card as cards
from zoo.cards.card import Card, Training, Transform
from zoo.core import files
from zoo.errors import InputError
from zoo.models import weights
from zoo.models.sources.base import Source, existing_path
from zoo.models.sources.hints import ModelHints

if TYPE_CHECKING:
    from zoo.models.model import Model
    from zoo.models.sources.assembly import Request
    from zoo.networks.network import Network


class Onnx(Source):
    def describe(self, id: str, name: str) -> Card:
        """Return the card next to the file, `NAME.md` for `NAME.onnx`."""
        path = existing_path(id, name)
        card_file = path.with_suffix(".md")
        if not card_file.is_file():
            raise InputError(
                "the classes and the transform are unknown",
                where=name,
                argument="classes",
                hint="Pass {classes=classes.txt}, {mean=0.485,0.456,0.406} and {std=0.229,0.224,0.225}. To describe it "
                f"permanently, run `zoo card new {name} --classes ... --mean ... --std ... --name my-model` or write a card "
                f"to {card_file}",
            )
        card = cards.parse(cards.read_text(card_file), str(card_file))
        return dataclasses.replace(card, name=name, source="onnx", id=str(path.absolute()), path=card_file)

    def describe_with_hints(self, id: str, name: str, hints: ModelHints) -> Card:
        """Return the card of a bare graph, from its input, its final operation and the user's hints.

        A card next to the file gives what the hints leave out.
        """
        from zoo.models.sources import onnx_graph

        path = existing_path(id, name)
        if path.with_suffix(".md").is_file() and not {"classes", "mean", "std"} <= {*hints.stated}:
            return _with_hints(self.describe(id, name), hints)
        model = onnx_graph.read(path, name)
        _, (_, channels, *sides), _ = onnx_graph.image_input(model, name)
        hints.require(name, "classes", "mean", "std", *([] if None not in sides else ["size"]))
        height, width = (side or hints.size or 0 for side in sides)
        channels = channels or 3
        normalisation = dataclasses.replace(hints, size=None)  # a side that the graph fixes takes precedence
        size, resize = (channels, height, width), (height,) if height == width else (height, width)
        labels, details = hints.labels(name)
        last = onnx_graph.final_operation(model)
        kind = hints.kind or ("probabilities" if last in ("Softmax", "Sigmoid") else "logits")
        return Card(
            name=name,
            source="onnx",
            id=str(path.absolute()),
            family="onnx",
            architecture=model.graph.name or path.stem,
            labels=labels,
            link="sigmoid" if last == "Sigmoid" else "softmax",
            head="trained",
            training=Training("unknown", "unknown", "unknown"),
            transform=normalisation.over(Transform(size, resize, "bilinear", (0.0,) * channels, (1.0,) * channels)),
            details={"kind": kind} | ({"embedding": hints.embedding} if hints.embedding else {}) | details,
        )

    def files(self, card: Card) -> Sequence[Path]:
        path = Path(card.id or "")
        data = path.with_name(f"{path.name}.data")  # where torch writes the weights
        return [path, data] if data.is_file() else [path]

    def load(self, request: "Request") -> "Model":
        from zoo.models.sources import onnx_graph
        from zoo.models.sources.assembly import assemble, card_classes

        card, path = request.card, Path(request.card.id or "")
        if not request.pretrained:
            problem = "the weights are part of an ONNX file, so they cannot be random"
            raise InputError(problem, where=card.name, argument="pretrained")
        model = onnx_graph.read(path, card.name)
        paths = (path, *onnx_graph.external_files(model, path, card.name))
        hashes = [weights.verify(card, one) for one in paths]
        onnx_graph.load_external_data(model, path, card.name)
        classes = card_classes(card)
        network = _network(request, model, len(classes))
        return assemble(request, network, hashes[0] if len(hashes) == 1 else files.digest(hashes), classes)


SOURCE = Onnx()


def _with_hints(card: Card, hints: ModelHints) -> Card:
    """Return a card in which the user's hints replace its own facts."""
    details = dict(card.details)
    details |= {key: value for key in ("kind", "embedding") if (value := getattr(hints, key)) is not None}
    labels = card.labels
    if hints.classes is not None:
        details.pop("classes", None)
        labels, classes = hints.labels(card.name)
        details |= classes
    transform = card.transform and hints.over(card.transform)
    return dataclasses.replace(card, labels=labels, transform=transform, details=details)


def _network(request: "Request", model: Any, outputs: int) -> "Network":
    import torch

    from zoo.models.sources import onnx_graph
    from zoo.models.sources.user_models import ClassifierModule
    from zoo.networks.network import IdentityHead, Network

    card = request.card
    named = card.details.get("embedding")
    kind = card.details.get("kind", "logits")
    channels_last = onnx_graph.image_input(model, card.name)[2]
    whole = ClassifierModule(onnx_graph.Graph(model, card.name, channels_last), card.name, kind, card.link)
    with torch.inference_mode():
        logits = whole(request.example())
    if logits.shape[1] != outputs:
        problem = f"the graph has {logits.shape[1]} outputs, but the card has {outputs} classes"
        raise InputError(problem, where=card.name)
    embedding = named or onnx_graph.last_embedding(model)
    if embedding is None:
        return Network(whole, IdentityHead(outputs), {}, embeds=False)
    before, after = onnx_graph.cut(model, embedding, card.name)
    body = onnx_graph.Graph(before, card.name, channels_last)
    head = ClassifierModule(onnx_graph.Graph(after, card.name), card.name, kind, card.link, outputs)
    with torch.inference_mode():
        features = body(request.example())
        agrees = features.ndim == 2 and torch.allclose(head(features), logits, rtol=1e-3, atol=1e-3)
    if agrees:
        return Network(body, head, {})
    if named:
        where, expected = f"{card.name}: tensor {named!r}", "embeddings of shape [N, D]"
        raise InputError(where=where, argument="embedding", expected=expected, found=list(features.shape))
    return Network(whole, IdentityHead(outputs), {}, embeds=False)
