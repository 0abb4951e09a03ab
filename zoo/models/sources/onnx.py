"""ONNX files: `onnx:PATH`, with a card beside the file or its classes and transform told; run by onnxruntime.

The first output is taken. Embeddings are what goes into the graph's final linear layer, or the tensor that the card names
(`details.embedding`); the graph is cut there, and both parts are run.
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
from zoo.models.sources.base import Source
from zoo.models.sources.hints import ModelHints

if TYPE_CHECKING:
    from zoo.models.model import Model
    from zoo.models.sources.assembly import Request
    from zoo.networks.network import Network


class Onnx(Source):
    def describe(self, id: str, name: str) -> Card:
        """The card beside the file, `NAME.md` for `NAME.onnx`."""
        path = _existing(id, name)
        beside = path.with_suffix(".md")
        if not beside.is_file():
            raise InputError(
                f"{name}: nothing says its classes and its transform; say it with `zoo card new {name} --classes "
                f"classes.txt --mean 0.485,0.456,0.406 --std 0.229,0.224,0.225 --as my-model`, or write a card at {beside}"
            )
        card = cards.parse(cards.read_text(beside), str(beside))
        return dataclasses.replace(card, name=name, source="onnx", id=str(path.absolute()), path=beside)

    def describe_with_hints(self, id: str, name: str, hints: ModelHints) -> Card:
        """The card of a bare graph: what it says itself, its input and whether it ends in a softmax, and what is told."""
        from zoo.models.sources import onnx_graph

        path = _existing(id, name)
        model = onnx_graph.read(path, name, data=False)
        _, (_, channels, *sides), _ = onnx_graph.image_input(model, name)
        hints.require(name, "classes", "mean", "std", *([] if None not in sides else ["size"]))
        height, width = (side or hints.size or 0 for side in sides)
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
            transform=Transform(
                (channels or 3, height, width),
                (height,) if height == width else (height, width),
                "bilinear",
                tuple(hints.mean or ()),
                tuple(hints.std or ()),
            ),
            details={"kind": kind} | ({"embedding": hints.embedding} if hints.embedding else {}) | details,
        )

    def files(self, card: Card) -> Sequence[Path]:
        path = Path(card.id or "")
        beside = path.with_name(f"{path.name}.data")  # where torch puts the weights
        return [path, beside] if beside.is_file() else [path]

    def load(self, request: "Request") -> "Model":
        from zoo.models.sources import onnx_graph
        from zoo.models.sources.assembly import assemble, card_classes

        card, path = request.card, Path(request.card.id or "")
        if not request.pretrained:
            raise InputError(f"{card.name}: the weights of an ONNX file are part of it; it cannot have random ones")
        if not path.is_file():
            raise InputError(f"{card.name}: there is no file {path}; its card says that it is there")
        beside = onnx_graph.external_files(onnx_graph.read(path, card.name, data=False), path)
        hashes = [weights.verify(card, one) for one in (path, *beside)]
        classes = card_classes(card)
        network = _network(request, onnx_graph.read(path, card.name), len(classes))
        return assemble(request, network, hashes[0] if len(hashes) == 1 else files.digest(hashes), classes)


SOURCE = Onnx()


def _network(request: "Request", model: Any, outputs: int) -> "Network":
    import torch

    from zoo.models.sources import onnx_graph
    from zoo.models.sources.user_models import Answers
    from zoo.networks.network import Network, Unchanged

    card = request.card
    named = card.details.get("embedding")
    kind = card.details.get("kind", "logits")
    last = onnx_graph.image_input(model, card.name)[2]
    whole = Answers(onnx_graph.Graph(model, card.name, last), card.name, kind, card.link)
    with torch.inference_mode():
        logits = whole(request.example())
    if logits.shape[1] != outputs:
        raise InputError(f"{card.name}: its graph gives {logits.shape[1]} numbers for an image, its card {outputs} classes")
    embedding = named or onnx_graph.last_embedding(model)
    if embedding is None:
        return Network(whole, Unchanged(outputs), {}, embeds=False)
    before, after = onnx_graph.cut(model, embedding, card.name)
    body = onnx_graph.Graph(before, card.name, last)
    head = Answers(onnx_graph.Graph(after, card.name), card.name, kind, card.link, outputs)
    with torch.inference_mode():
        features = body(request.example())
        agrees = features.ndim == 2 and torch.allclose(head(features), logits, rtol=1e-3, atol=1e-3)
    if agrees:
        return Network(body, head, {})
    if named:
        raise InputError(f"{card.name}: its tensor {named!r} has shape {list(features.shape)}, expected embeddings [N, D]")
    return Network(whole, Unchanged(outputs), {}, embeds=False)


def _existing(id: str, name: str) -> Path:
    path = Path(id).expanduser()
    if not id or "\0" in id or not path.is_file():
        raise InputError(f"{name}: there is no such file; expected an ONNX model")
    return path
