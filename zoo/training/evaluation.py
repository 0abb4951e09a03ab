"""How good a network is on a labelled dataset: accuracy, NLL and class separation in one pass."""

from collections.abc import Iterator
from typing import cast

import numpy as np
import torch
from torch import Tensor

from zoo.model import Network
from zoo.objectives import ObjectiveHead
from zoo.preprocessing import Pipeline
from zoo.training.loading import Pictures, labels_of
from zoo.training.measures import Tally
from zoo.training.processes import Processes

BATCH = 256


def evaluate(network: Network, pictures: Pictures, processes: Processes) -> dict[str, float]:
    """Means over labelled pictures, each process taking its share of them."""
    head = cast(ObjectiveHead, network.head)
    labels = torch.from_numpy(labels_of(pictures.dataset))
    classes, features = head.weight.shape
    tally = Tally.empty(classes, features, processes.device)
    for numbers, embeddings, logits in outputs(network, pictures, processes):
        tally.add(embeddings, logits, labels[numbers].to(processes.device), head.objective.link)
    return tally.over_processes(processes.total).summary()


def outputs(network: Network, pictures: Pictures, processes: Processes) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Numbers, embeddings and logits of this process's share of the pictures, batch by batch in order."""
    pipeline = Pipeline(pictures.prepare.recipe.transform)
    mine = np.arange(len(pictures.dataset))[processes.rank :: processes.count]
    batches = [mine[start : start + BATCH] for start in range(0, len(mine), BATCH)]
    was_training = network.training
    network.eval()
    for numbers, pixels in zip(batches, pictures.batches(0, batches), strict=True):
        with torch.inference_mode():
            embeddings, logits = network(pipeline.normalise(pixels.to(processes.device)))
        yield torch.from_numpy(numbers), embeddings, logits
    network.train(was_training)
