"""Ensembles and cascades as one network.

An ensemble's body concatenates the members' embeddings. Its head returns log sum_m w_m p_m, where p_m are the calibrated
probabilities of member m, so that the softmax of these logits is the weighted mean of the probabilities. If the card has a
temperature T of the whole ensemble (`details.temperature`), the logits are divided by T: the softmax is then proportional to
(sum_m w_m p_m)^(1/T).

A cascade evaluates its members in order, each only on the images for which the stopping rule was not met before. It has no
embeddings, because not every member sees every image; its logits are the log of the mean over the evaluated members.

`Combination` and `stopped_mean` do not need the networks: `zoo.outputs.combined` uses them on existing outputs of members.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from zoo.cards import labels
from zoo.cards.card import Card, EnsembleMember
from zoo.core import files
from zoo.core.links import to_probabilities
from zoo.core.stop_rules import Stopping, certainties
from zoo.core.types import Link
from zoo.datasets.preprocessing import Packed, Preprocessing
from zoo.errors import InputError
from zoo.models.model import Model
from zoo.networks.network import IdentityHead, Network


class EnsembleBody(nn.Module):
    """The concatenated embeddings [N, D_1 + ... + D_M] of all members. Each member gets its own transform of the image."""

    def __init__(self, bodies: Sequence[nn.Module], packed: Packed | None) -> None:
        super().__init__()
        self.members = nn.ModuleList(bodies)
        self.packed = packed  # None: all members have the same transform

    def inputs(self, batch: Tensor) -> list[Tensor]:
        """Return the batch of each member."""
        return [batch] * len(self.members) if self.packed is None else self.packed.unpack(batch)

    def forward(self, batch: Tensor) -> Tensor:
        return torch.cat([body(part).float() for body, part in zip(self.members, self.inputs(batch), strict=True)], 1)


class Combination:
    """Turns the members' logits into the ensemble's.

    Args:
        members: the members' weights and temperatures.
        links: how the logits of each member become probabilities.
        classes: the classes of each member; the ensemble has the first member's.
        temperature: the ensemble's.
    """

    def __init__(
        self, members: Sequence[EnsembleMember], links: Sequence[Link], classes: Sequence[Sequence[str]], temperature: float
    ) -> None:
        self.temperature = temperature
        self.links = list(links)
        self.classes = len(classes[0])
        self.orders = [None if tuple(one) == tuple(classes[0]) else labels.indices(classes[0], one) for one in classes]
        self.temperatures = [(member.temperature, member.temperature_space) for member in members]
        total = sum(member.weight for member in members)
        self.weights = [member.weight / total for member in members]

    def probabilities(self, number: int, logits: Tensor) -> Tensor:
        """Return the calibrated probabilities [N, K] of one member, with classes in the ensemble's order."""
        order = self.orders[number]
        aligned = logits if order is None else logits[:, order]
        temperature, temperature_space = self.temperatures[number]
        return torch.as_tensor(
            to_probabilities(aligned, temperature, self.links[number], temperature_space=temperature_space)
        )

    def mean(self, logits: Sequence[Tensor]) -> Tensor:
        """Return the weighted mean [N, K] of the members' calibrated probabilities."""
        parts = [self.weights[number] * self.probabilities(number, one) for number, one in enumerate(logits)]
        return sum(parts[1:], parts[0])

    def logits(self, mean: Tensor) -> Tensor:
        """Return the ensemble's logits [N, K] of the members' mean probabilities."""
        return mean.clamp_min(torch.finfo(mean.dtype).tiny).log() / self.temperature


def stopped_mean(
    combination: Combination, stopping: Stopping, remaining: Tensor, read: Callable[[int, Tensor], Tensor]
) -> Tensor:
    """Return the mean probabilities [N, K] of the members that a cascade evaluates on each example.

    Args:
        combination: combines the members.
        stopping: the stop rule.
        remaining: [N] the row numbers 0 to N - 1, on the device that computes.
        read: returns the logits of a member on some of the examples.
    """
    mean = torch.empty(len(remaining), combination.classes, device=remaining.device)
    # For the remaining examples: the weighted sum of probabilities, and the members' predictions [members, examples].
    total, predictions = torch.zeros_like(mean), remaining.new_empty(0, len(remaining))
    weight = 0.0
    for number in range(len(combination.weights)):
        p = combination.probabilities(number, read(number, remaining))
        total += combination.weights[number] * p
        weight += combination.weights[number]
        mean[remaining] = total / weight
        if number == len(stopping.thresholds):
            break
        top, predictions = total.argmax(1), torch.cat([predictions, p.argmax(1)[None]])
        votes = (predictions == top).sum(0)
        uncertain = certainties(total, top, votes, number + 1, weight)[stopping.rule] < stopping.thresholds[number]
        if not uncertain.any():
            break
        remaining, total, predictions = remaining[uncertain], total[uncertain], predictions[:, uncertain]
    return mean


class EnsembleHead(nn.Module):
    """The log of the weighted mean of the members' calibrated probabilities, divided by the ensemble's temperature.

    Args:
        models: the members' models.
        combination: combines the members' logits.
        widths: dimensions of the members' embeddings.
    """

    def __init__(self, models: Sequence[Model], combination: Combination, widths: Sequence[int]) -> None:
        super().__init__()
        self.out_features = combination.classes
        self.heads = nn.ModuleList(model.head for model in models if model.head is not None)
        self.combination = combination
        self.widths = list(widths)

    def forward(self, embeddings: Tensor) -> Tensor:
        parts = embeddings.split(self.widths, 1)
        return self.combination.logits(
            self.combination.mean([head(part) for head, part in zip(self.heads, parts, strict=True)])
        )


class CascadeBody(nn.Module):
    """The logits [N, K] of the mean probabilities of the members that were evaluated on each image."""

    def __init__(self, body: EnsembleBody, head: EnsembleHead, stopping: Stopping) -> None:
        super().__init__()
        self.ensemble, self.head, self.stopping = body, head, stopping

    def forward(self, batch: Tensor) -> Tensor:
        batches = self.ensemble.inputs(batch)

        def read(number: int, rows: Tensor) -> Tensor:
            logits: Tensor = self.head.heads[number](self.ensemble.members[number](batches[number][rows]).float())
            return logits

        everything = torch.arange(len(batch), device=batch.device)
        combination = self.head.combination
        return combination.logits(stopped_mean(combination, self.stopping, everything, read))


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
    combination = Combination(
        card.members, [model.card.link for model in models], [model.classes for model in models], temperature_of(card)
    )
    head = EnsembleHead(models, combination, [model.num_features for model in models])
    blocks = {f"{model.name}/{name}": block for model in models for name, block in model.network.blocks.items()}
    embeds = all(model.embeds for model in models)
    network = Network(body, head, blocks, embeds).eval().requires_grad_(False)
    digest = weights_hash(card, [model.weights_hash for model in models])
    return Model(card, network, transform, models[0].classes, digest)


def cascade(card: Card, models: Sequence[Model], stopping: Stopping) -> Model:
    """Return the model of a cascade's card from its members, in the order in which they are evaluated."""
    ensemble = average(card, models)
    assert isinstance(ensemble.body, EnsembleBody)
    assert isinstance(ensemble.head, EnsembleHead)
    body = CascadeBody(ensemble.body, ensemble.head, stopping)
    network = Network(body, IdentityHead(len(ensemble.classes)), {}, embeds=False)
    digest = weights_hash(card, [model.weights_hash for model in models], stopping)
    return Model(card, network.eval().requires_grad_(False), ensemble.transform, ensemble.classes, digest)


def temperature_of(card: Card) -> float:
    """Return the temperature of an ensemble, by which its logits are divided after averaging."""
    return float(card.details.get("temperature", 1.0))


def weights_hash(card: Card, members: Sequence[str], stopping: Stopping | None = None) -> str:
    """Return the hash of an ensemble or cascade, given those of its members."""
    hashed: list[str] = []
    for one, member in zip(members, card.members, strict=True):
        hashed += [one, repr(member.weight), repr(member.temperature)]
        # The defaults are left out, so that ensembles saved by older versions keep their hash.
        hashed += [] if member.temperature_space == "logits" else [member.temperature_space]
    temperature = temperature_of(card)
    digest = files.digest([*hashed, *([] if temperature == 1 else [f"temperature {temperature!r}"])])
    return digest if stopping is None else files.digest([digest, stopping.rule, *map(repr, stopping.thresholds)])
