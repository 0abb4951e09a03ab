"""Logits of one label set pooled into another: a model that predicts breeds of dogs predicts "dog"."""

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
    """A head on the source classes, followed by one pooled logit per target class (Gontijo-Lopes et al. 2021, A.2).

    With `logsumexp`, z_t = log sum_{k in t} exp z_k: the softmax of the pooled logits is the sum of the source probabilities
    of each target's classes, renormalised over all mapped classes. With `max`, z_t is the largest source logit.

    Args:
        head: returns the logits of the K source classes.
        groups: for each target the columns of its source classes; a column may be in no group.
        pooling: how the logits of a group are pooled.

    >>> head = ClassMappingHead(nn.Identity(), [[0, 1], [2]])  # terrier and poodle are dogs, tabby is a cat
    >>> head(torch.tensor([[0.5, 0.2, 0.3]]).log()).softmax(1)
    tensor([[0.7000, 0.3000]])
    """

    def __init__(self, head: nn.Module, groups: Sequence[Sequence[int]], pooling: Pooling = "logsumexp") -> None:
        super().__init__()
        self.head = head
        self.pooling = pooling
        self.out_features = len(groups)
        # All groups as one table of indices; shorter groups are padded with -1, which stands for a logit of -inf.
        longest = max(len(group) for group in groups)
        table = torch.tensor([[*group, *[-1] * (longest - len(group))] for group in groups], device="cpu")
        self.register_buffer("table", table, persistent=False)
        self.table: Tensor

    def forward(self, embeddings: Tensor) -> Tensor:
        """Return the pooled logits [N, targets] of embeddings [N, D]."""
        logits = self.head(embeddings)
        table = self.table.to(logits.device)
        gathered = logits[:, table.clamp(min=0)].masked_fill(table < 0, -torch.inf)
        return gathered.logsumexp(2) if self.pooling == "logsumexp" else gathered.amax(2)


def map_classes(
    model: Model, mapping: Mapping[str, Sequence[str]], pooling: Pooling = "logsumexp", name: str | None = None
) -> Model:
    """Return a model that predicts other classes, each pooled from some of the model's classes.

    Args:
        model: predicts the source classes.
        mapping: for each target class the names of its source classes.
        pooling: `logsumexp` adds probabilities, `max` takes the largest logit.
        name: the new model's name; default: the model's name with `+mapped`.

    >>> import zoo
    >>> model = zoo.load("resnet8-cosine", pretrained=False, device="cpu")
    >>> parity = map_classes(model, {"even": list("02468"), "odd": list("13579")})
    >>> image = torch.zeros(3, 8, 8, dtype=torch.uint8)
    >>> sums = model.predict(image).softmax(1).reshape(5, 2).sum(0)
    >>> parity.classes, bool(torch.allclose(parity.predict(image).softmax(1), sums))
    (('even', 'odd'), True)
    """
    if model.head is None:
        raise InputError("is an encoder without classes to map", where=model.name)
    head = ClassMappingHead(model.head, _columns(mapping, model.classes, model.name), pooling)
    card = dataclasses.replace(
        model.card,
        name=name or f"{model.name}+mapped",
        head="class-mapping",
        details=model.card.details | {"classes": {key: list(value) for key, value in mapping.items()}, "pooling": pooling},
    )
    digest = files.digest([model.weights_hash, json.dumps([mapping, pooling], sort_keys=True)])
    return Model(card, Network(model.body, head, model.network.blocks), model.transform, list(mapping), digest)


def from_card(card: Card, head: nn.Module | None, classes: Sequence[str]) -> tuple[nn.Module, str]:
    """Return the head that a card describes, and its hash.

    The card's `details` have `source_labels`, `classes` ({target: [source classes]}) and maybe `pooling`.
    """
    mapping, source = card.details.get("classes"), card.details.get("source_labels")
    if head is None or not isinstance(mapping, Mapping) or not isinstance(source, str):
        problem = "a class-mapping head needs a trained head, details.source_labels and details.classes"
        raise InputError(problem, where=card.name)
    missing = [name for name in classes if name not in mapping]
    if missing or len(mapping) != len(classes):
        problem = f"details.classes maps to {len(mapping)} classes instead of the {len(classes)} of {card.labels}"
        raise InputError(problem + (f", e.g. {missing[0]!r} is missing" if missing else ""), where=card.name)
    pooling = card.details.get("pooling", "logsumexp")
    if pooling not in ("logsumexp", "max"):
        raise InputError(where=f"{card.name}: details.pooling", expected="logsumexp or max", found=pooling)
    ordered = {name: list(mapping[name]) for name in classes}
    columns = _columns(ordered, labels.classes(source), card.name)
    return ClassMappingHead(head, columns, pooling), files.digest([json.dumps([ordered, pooling])])


def _columns(mapping: Mapping[str, Sequence[str]], source: Sequence[str], name: str) -> list[list[int]]:
    """Return the source columns of each target; raise an error if a target has none or a source class is unknown."""
    if not mapping:
        raise InputError(where=name, argument="mapping", expected="at least one target class", found=0)
    for target, sources in mapping.items():
        if not sources or isinstance(sources, str):
            where, expected = f"{name}: class {target!r}", "a list of at least one source class"
            raise InputError(where=where, argument="mapping", expected=expected, found=sources)
    try:
        return [labels.indices(sources, source) for sources in mapping.values()]
    except InputError as error:
        error.inside(name)
        raise
