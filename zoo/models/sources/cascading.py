"""A cascade as one network: members are asked in order, each only about the images that the ones before left open.

Images leave the batch as they are settled, so what a later network costs is paid for the few that reach it. There are no
embeddings, since not every network sees every image. The logits are the logarithm of the mean of the members asked.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from zoo.cards.card import Card
from zoo.core import files
from zoo.core.stop_rules import Stopping, certainties
from zoo.models.model import Model
from zoo.models.sources.averaging import EnsembleBody, EnsembleHead, average
from zoo.networks.network import Network, Unchanged


class CascadeBody(nn.Module):
    """[N, K]: the logarithm of the mean of the members that were asked about each image."""

    def __init__(self, body: EnsembleBody, head: EnsembleHead, stopping: Stopping) -> None:
        super().__init__()
        self.members, self.inputs, self.head = body.members, body.inputs, head
        self.stopping = stopping

    def forward(self, batch: Tensor) -> Tensor:
        batches = [batch] * len(self.members) if self.inputs is None else self.inputs.unpack(batch)
        open_ = torch.arange(len(batch), device=batch.device)
        mean = torch.empty(len(batch), self.head.out_features, device=batch.device)
        # Of the open images alone: the sum of shares times probabilities, and the class each member has first.
        total, first = torch.zeros_like(mean), open_.new_empty(0, len(batch))
        weight = 0.0
        for number, body in enumerate(self.members):
            p = self.head.probabilities(number, body(batches[number][open_]).float())
            total += self.head.shares[number] * p
            weight += self.head.shares[number]
            mean[open_] = total / weight
            if number == len(self.stopping.thresholds):
                break
            top, first = total.argmax(1), torch.cat([first, p.argmax(1)[None]])
            certainty = certainties(total, top, (first == top).sum(0), number + 1, weight)[self.stopping.rule]
            on = certainty < self.stopping.thresholds[number]
            if not on.any():
                break
            open_, total, first = open_[on], total[on], first[:, on]
        return mean.clamp_min(torch.finfo(mean.dtype).tiny).log()


def cascade(card: Card, models: Sequence[Model], stopping: Stopping) -> Model:
    """The model of a cascade's card from its members, in the order in which they are asked."""
    whole = average(card, models)
    assert isinstance(whole.body, EnsembleBody)
    assert isinstance(whole.head, EnsembleHead)
    network = Network(CascadeBody(whole.body, whole.head, stopping), Unchanged(len(whole.classes)), {}, embeds=False)
    digest = files.digest([whole.weights_hash, stopping.rule, *map(repr, stopping.thresholds)])
    return Model(card, network.eval().requires_grad_(False), whole.transform, whole.classes, digest)
