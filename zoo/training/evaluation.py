"""How good a network is on a labelled dataset: accuracy, NLL and class separation in one pass."""

from typing import cast

import numpy as np
import torch

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
    pipeline = Pipeline(pictures.prepare.recipe.transform)
    classes, features = head.weight.shape
    tally = Tally.empty(classes, features, processes.device)
    mine = np.arange(len(labels))[processes.rank :: processes.count]
    batches = [mine[start : start + BATCH] for start in range(0, len(mine), BATCH)]
    was_training = network.training
    network.eval()
    with torch.inference_mode():
        for numbers, pixels in zip(batches, pictures.batches(0, batches), strict=True):
            embeddings, logits = network(pipeline.normalise(pixels.to(processes.device)))
            tally.add(embeddings, logits, labels[torch.from_numpy(numbers)].to(processes.device), head.objective.link)
    network.train(was_training)
    return tally.over_processes(processes.total).summary()
