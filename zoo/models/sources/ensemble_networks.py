"""Ensembles and cascades as one network.

An ensemble's body concatenates the members' embeddings. Its head returns log sum_m w_m p_m, where p_m are the calibrated
probabilities of member m, so that the softmax of these logits is the weighted mean of the probabilities. If the card has a
temperature T of the whole ensemble (`details.temperature`), the logits are divided by T: the softmax is then proportional to
(sum_m w_m p_m)^(1/T).

A cascade evaluates its members in order, each only on the images for which the stopping rule was not met before. It has no
embeddings, because not every member sees every image; its logits are the log of the mean over the evaluated members.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from zoo.cards import labels
from zoo.cards.card import Card, EnsembleMember
from zoo.core import files
from zoo.core.links import to_probabilities
from zoo.core.stop_rules import Stopping, certainties
from zoo.datasets.preprocessing import Packed, Preprocessing
from zoo.errors import InputError
from zoo.models.model import Model
from zoo.networks.network import IdentityHead, Network


class EnsembleBody(nn.Module):
    """[N, D_1 + ... + D_M]: the embeddings of all members, each of its own transform of the image."""

    def __init__(self, bodies: Sequence[nn.Module], packed: Packed | None) -> None:
        super().__init__()
        self.members = nn.ModuleList(bodies)
        self.packed = packed  # None: all members have the same transform

    def inputs(self, batch: Tensor) -> list[Tensor]:
        """Return the batch of each member."""
        return [batch] * len(self.members) if self.packed is None else self.packed.unpack(batch)

    def forward(self, batch: Tensor) -> Tensor:
        return torch.cat([body(part).float() for body, part in zip(self.members, self.inputs(batch), strict=True)], 1)


class EnsembleHead(nn.Module):
    """The log of the weighted mean of the members' calibrated probabilities, divided by the ensemble's temperature.

    Args:
        models: the members' models.
        members: the members' weights and temperatures.
        widths: dimensions of the members' embeddings.
        temperature: of the mean.
    """

    def __init__(
        self, models: Sequence[Model], members: Sequence[EnsembleMember], widths: Sequence[int], temperature: float
    ) -> None:
        super().__init__()
        self.temperature = temperature
        classes = models[0].classes
        self.out_features = len(classes)
        self.heads = nn.ModuleList(model.head for model in models if model.head is not None)
        self.links = [model.card.link for model in models]
        self.orders = [None if model.classes == classes else labels.indices(classes, model.classes) for model in models]
        self.temperatures = [(member.temperature, member.temperature_space) for member in members]
        total = sum(member.weight for member in members)
        self.weights = [member.weight / total for member in members]
        self.widths = list(widths)

    def forward(self, embeddings: Tensor) -> Tensor:
        parts = []
        for number, part in enumerate(embeddings.split(self.widths, 1)):
            parts.append(self.weights[number] * self.probabilities(number, part))
        return self.logits(sum(parts[1:], parts[0]))

    def logits(self, mean: Tensor) -> Tensor:
        """Return the logits [N, K] of the members' mean probabilities."""
        return mean.clamp_min(torch.finfo(mean.dtype).tiny).log() / self.temperature

    def probabilities(self, number: int, embeddings: Tensor) -> Tensor:
        """Return the calibrated probabilities [N, K] of one member, with classes in the ensemble's order."""
        logits: Tensor = self.heads[number](embeddings)
        order = self.orders[number]
        aligned = logits if order is None else logits[:, order]
        temperature, temperature_space = self.temperatures[number]
        return torch.as_tensor(
            to_probabilities(aligned, temperature, self.links[number], temperature_space=temperature_space)
        )


class CascadeBody(nn.Module):
    """[N, K]: for each image the logits of the mean probabilities of the members that were evaluated on it."""

    def __init__(self, body: EnsembleBody, head: EnsembleHead, stopping: Stopping) -> None:
        super().__init__()
        self.ensemble, self.head, self.stopping = body, head, stopping

    def forward(self, batch: Tensor) -> Tensor:
        batches = self.ensemble.inputs(batch)
        remaining = torch.arange(len(batch), device=batch.device)
        mean = torch.empty(len(batch), self.head.out_features, device=batch.device)
        # For the remaining images: the weighted sum of probabilities, and the members' predictions [members, images].
        total, predictions = torch.zeros_like(mean), remaining.new_empty(0, len(batch))
        weight = 0.0
        for number, body in enumerate(self.ensemble.members):
            p = self.head.probabilities(number, body(batches[number][remaining]).float())
            total += self.head.weights[number] * p
            weight += self.head.weights[number]
            mean[remaining] = total / weight
            if number == len(self.stopping.thresholds):
                break
            top, predictions = total.argmax(1), torch.cat([predictions, p.argmax(1)[None]])
            votes = (predictions == top).sum(0)
            certainty = certainties(total, top, votes, number + 1, weight)[self.stopping.rule]
            uncertain = certainty < self.stopping.thresholds[number]
            if not uncertain.any():
                break
            remaining, total, predictions = remaining[uncertain], total[uncertain], predictions[:, uncertain]
        return self.head.logits(mean)


def average(card: Card, models: Sequence[Model]) -> Model:
    """Return the model of an ensemble's card from its members, in the card's order."""
    for model in models:
        if set(model.classes) != set(models[0].classes) or not model.classes:
            raise InputError(
                f"the members {models[0].name} and {model.name} have different classes "
                f"({len(models[0].classes)} and {len(model.classes)})",
                where=card.name,
                hint="Use members with the same classes",
            )
    same = len({model.transform.fingerprint for model in models}) == 1
    packed = None if same else Packed(tuple(model.transform for model in models))
    transform: Preprocessing = packed or models[0].transform
    body = EnsembleBody([model.body for model in models], packed)
    temperature = float(card.details.get("temperature", 1.0))
    head = EnsembleHead(models, card.members, [model.num_features for model in models], temperature)
    blocks = {f"{model.name}/{name}": block for model in models for name, block in model.network.blocks.items()}
    embeds = all(model.embeds for model in models)
    network = Network(body, head, blocks, embeds).eval().requires_grad_(False)
    hashed: list[str] = []
    for model, member in zip(models, card.members, strict=True):
        hashed += [model.weights_hash, repr(member.weight), repr(member.temperature)]
        # The defaults are left out, so that ensembles saved by older versions keep their hash.
        hashed += [] if member.temperature_space == "logits" else [member.temperature_space]
    hashed += [] if temperature == 1 else [f"temperature {temperature!r}"]
    return Model(card, network, transform, models[0].classes, files.digest(hashed))


def cascade(card: Card, models: Sequence[Model], stopping: Stopping) -> Model:
    """Return the model of a cascade's card from its members, in the order in which they are evaluated."""
    ensemble = average(card, models)
    assert isinstance(ensemble.body, EnsembleBody)
    assert isinstance(ensemble.head, EnsembleHead)
    body = CascadeBody(ensemble.body, ensemble.head, stopping)
    network = Network(body, IdentityHead(len(ensemble.classes)), {}, embeds=False)
    digest = files.digest([ensemble.weights_hash, stopping.rule, *map(repr, stopping.thresholds)])
    return Model(card, network.eval().requires_grad_(False), ensemble.transform, ensemble.classes, digest)
