"""How good a network is on a labelled dataset: accuracy, NLL and class separation in one pass."""

from collections.abc import Iterator
from typing import cast

import numpy as np
import torch
from torch import Tensor

from zoo.datasets.preprocessing import Pipeline
from zoo.networks.network import Network
from zoo.objectives import ObjectiveHead
from zoo.training.batches import ImageBatches, labels_of
from zoo.training.processes import Processes
from zoo.training.tally import Tally

BATCH = 256


def evaluate(network: Network, images: ImageBatches, processes: Processes) -> dict[str, float]:
    """Means over labelled images, each process taking its share of them."""
    head = cast(ObjectiveHead, network.head)
    labels = torch.from_numpy(labels_of(images.dataset))
    classes, features = head.weight.shape
    tally = Tally.empty(classes, features, processes.device)
    for numbers, embeddings, logits in outputs(network, images, processes):
        tally.add(embeddings, logits, labels[numbers].to(processes.device), head.objective.link)
    return tally.over_processes(processes.total).summary()


def outputs(network: Network, images: ImageBatches, processes: Processes) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Numbers, embeddings and logits of this process's share of the images, batch by batch in order."""
    pipeline = Pipeline(images.prepare.recipe.transform)
    mine = np.arange(len(images.dataset))[processes.rank :: processes.count]
    batches = [mine[start : start + BATCH] for start in range(0, len(mine), BATCH)]
    was_training = network.training
    network.eval()
    for numbers, pixels in zip(batches, images.batches(0, batches), strict=True):
        with torch.inference_mode():
            embeddings, logits = network(pipeline.normalise(pixels.to(processes.device)))
        yield torch.from_numpy(numbers), embeddings, logits
    network.train(was_training)
