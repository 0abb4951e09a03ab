"""Logits of one label set pooled into another: a model that knows breeds of dogs answers for "dog"."""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from zoo.cards import labels
from zoo.cards.card import Card
from zoo.core import files
from zoo.errors import InputError
from zoo.models.model import Model
from zoo.networks.network import Network

Pooling = Literal["logsumexp", "max"]


class ClassMappingHead(nn.Module):
    """A head on the source classes, then one pooled logit for each target class (Gontijo-Lopes et al. 2021, A.2).

    `groups` lists, for each target, its columns among the K logits of `head`; a column may be in none.
    With `logsumexp` the softmax of the pooled logits is the sum of the source probabilities of each target's classes,
    renormalised over the classes that are mapped: z_t = log sum_{k in t} exp z_k. With `max` it is the best of them.

    >>> head = ClassMappingHead(nn.Identity(), [[0, 1], [2]])  # terrier and poodle are dogs, tabby is a cat
    >>> head(torch.tensor([[0.5, 0.2, 0.3]]).log()).softmax(1)
    tensor([[0.7000, 0.3000]])
    """

    def __init__(self, head: nn.Module, groups: Sequence[Sequence[int]], pooling: Pooling = "logsumexp") -> None:
        super().__init__()
        self.head = head
        self.pooling = pooling
        self.out_features = len(groups)
        # All groups as one table of indices, shorter ones filled up with an extra column that is minus infinity.
        longest = max(len(group) for group in groups)
        table = torch.tensor([[*group, *[-1] * (longest - len(group))] for group in groups], device="cpu")
        self.register_buffer("table", table, persistent=False)
        self.table: Tensor

    def forward(self, embeddings: Tensor) -> Tensor:
        """[N, D] to [N, targets]."""
        logits = self.head(embeddings)
        table = self.table.to(logits.device)
        gathered = logits[:, table.clamp(min=0)].masked_fill(table < 0, -torch.inf)
        return gathered.logsumexp(2) if self.pooling == "logsumexp" else gathered.amax(2)


def map_classes(
    model: Model, mapping: Mapping[str, Sequence[str]], pooling: Pooling = "logsumexp", name: str | None = None
) -> Model:
    """`model` predicting the targets of `mapping`, each pooled from the source classes named for it.

    `name` is the new model's, by default the model's own with `+mapped`.

    >>> import zoo
    >>> model = zoo.load("resnet8-cosine", pretrained=False, device="cpu")
    >>> parity = map_classes(model, {"even": list("02468"), "odd": list("13579")})
    >>> image = torch.zeros(3, 8, 8, dtype=torch.uint8)
    >>> sums = model.predict(image).softmax(1).reshape(5, 2).sum(0)
    >>> parity.classes, bool(torch.allclose(parity.predict(image).softmax(1), sums))
    (('even', 'odd'), True)
    """
    if model.head is None:
        raise InputError(f"{model.name}: a bare encoder has no classes to map")
    head = ClassMappingHead(model.head, groups(mapping, model.classes, model.name), pooling)
    card = dataclasses.replace(
        model.card,
        name=name or f"{model.name}+mapped",
        head="class-mapping",
        details=model.card.details | {"classes": {key: list(value) for key, value in mapping.items()}, "pooling": pooling},
    )
    digest = files.digest([model.weights_hash, json.dumps([mapping, pooling], sort_keys=True)])
    return Model(card, Network(model.body, head, model.network.blocks), model.transform, list(mapping), digest)


def groups(mapping: Mapping[str, Sequence[str]], source: Sequence[str], name: str) -> list[list[int]]:
    """The source columns of each target, checked: each target has at least one, each source class exists."""
    if not mapping:
        raise InputError(f"{name}: expected at least one target class, found none")
    for target, sources in mapping.items():
        if not sources or isinstance(sources, str):
            raise InputError(f"{name}: class {target!r} needs a list of at least one source class, found {sources!r}")
    try:
        return [labels.indices(sources, source) for sources in mapping.values()]
    except InputError as error:
        raise InputError(f"{name}: {error}") from error


def from_card(card: Card, head: nn.Module | None, classes: Sequence[str]) -> tuple[nn.Module, str]:
    """The head a card describes by `details`: `source_labels`, `classes` ({target: [source classes]}), `pooling`."""
    mapping, source = card.details.get("classes"), card.details.get("source_labels")
    if head is None or not isinstance(mapping, Mapping) or not isinstance(source, str):
        raise InputError(f"{card.name}: a class-mapping head needs a trained one, details.source_labels and details.classes")
    missing = [name for name in classes if name not in mapping]
    if missing or len(mapping) != len(classes):
        raise InputError(f"{card.name}: details.classes maps to {len(mapping)} classes, expected the {len(classes)} of "
                         f"{card.labels}{f', e.g. {missing[0]!r}' if missing else ''}")  # fmt: skip
    pooling = card.details.get("pooling", "logsumexp")
    if pooling not in ("logsumexp", "max"):
        raise InputError(f"{card.name}: details.pooling is {pooling!r}, expected logsumexp or max")
    ordered = {name: list(mapping[name]) for name in classes}
    indices = groups(ordered, labels.classes(source), card.name)
    return ClassMappingHead(head, indices, pooling), files.digest([json.dumps([ordered, pooling])])
