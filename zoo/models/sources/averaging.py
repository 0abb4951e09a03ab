"""An ensemble as one network: bodies side by side, and a head that averages calibrated probabilities.

The embedding is the members' embeddings end to end. The logits are log sum_m w_m p_m, with p_m the probabilities of member
m at its temperature and through its link, so that their softmax is the weighted mean itself.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from zoo.cards import labels
from zoo.cards.card import Card, EnsembleMember
from zoo.core import files
from zoo.core.links import to_probabilities
from zoo.datasets.preprocessing import Packed, Preprocessing
from zoo.errors import InputError
from zoo.models.model import Model
from zoo.networks.network import Network


class EnsembleBody(nn.Module):
    """[N, D_1 + ... + D_M]: each member's embedding of its own version of the image."""

    def __init__(self, bodies: Sequence[nn.Module], inputs: Packed | None) -> None:
        super().__init__()
        self.members = nn.ModuleList(bodies)
        self.inputs = inputs  # None: all members see the same input

    def forward(self, batch: Tensor) -> Tensor:
        batches = [batch] * len(self.members) if self.inputs is None else self.inputs.unpack(batch)
        return torch.cat([body(part).float() for body, part in zip(self.members, batches, strict=True)], 1)


class EnsembleHead(nn.Module):
    """The logarithm of the weighted mean of the members' calibrated probabilities."""

    def __init__(self, models: Sequence[Model], members: Sequence[EnsembleMember], widths: Sequence[int]) -> None:
        super().__init__()
        classes = models[0].classes
        self.out_features = len(classes)
        self.heads = nn.ModuleList(model.head for model in models if model.head is not None)
        self.links = [model.card.link for model in models]
        self.orders = [None if model.classes == classes else labels.indices(classes, model.classes) for model in models]
        self.temperatures = [(member.temperature, member.temperature_space) for member in members]
        total = sum(member.weight for member in members)
        self.shares = [member.weight / total for member in members]
        self.widths = list(widths)

    def forward(self, embeddings: Tensor) -> Tensor:
        parts = []
        for number, part in enumerate(embeddings.split(self.widths, 1)):
            parts.append(self.shares[number] * self.probabilities(number, part))
        mean = sum(parts[1:], parts[0])
        return mean.clamp_min(torch.finfo(mean.dtype).tiny).log()

    def probabilities(self, number: int, embeddings: Tensor) -> Tensor:
        """[N, K] of one member, calibrated, its classes in the ensemble's order."""
        logits: Tensor = self.heads[number](embeddings)
        order = self.orders[number]
        aligned = logits if order is None else logits[:, order]
        temperature, temperature_space = self.temperatures[number]
        return torch.as_tensor(
            to_probabilities(aligned, temperature, self.links[number], temperature_space=temperature_space)
        )


def average(card: Card, models: Sequence[Model]) -> Model:
    """The model of an ensemble's card from its members, in the card's order."""
    for model in models:
        if set(model.classes) != set(models[0].classes) or not model.classes:
            raise InputError(
                f"{card.name}: members {models[0].name} and {model.name} have different classes "
                f"({len(models[0].classes)} and {len(model.classes)}); an ensemble needs the same"
            )
    same = len({model.transform.fingerprint for model in models}) == 1
    transform: Preprocessing = models[0].transform if same else Packed(tuple(model.transform for model in models))
    body = EnsembleBody([model.body for model in models], transform if isinstance(transform, Packed) and not same else None)
    head = EnsembleHead(models, card.members, [model.num_features for model in models])
    blocks = {f"{model.name}/{name}": block for model in models for name, block in model.network.blocks.items()}
    embeds = all(model.embeds for model in models)
    network = Network(body, head, blocks, embeds).eval().requires_grad_(False)
    digest = files.digest(
        part
        for model, member in zip(models, card.members, strict=True)
        for part in (model.weights_hash, repr(member.weight), repr(member.temperature), *_other(member.temperature_space))
    )
    return Model(card, network, transform, models[0].classes, digest)


def _other(temperature_space: str) -> list[str]:
    """What the hash says of a temperature_space: nothing of the default, so that ensembles saved before keep their hash."""
    return [] if temperature_space == "logits" else [temperature_space]
