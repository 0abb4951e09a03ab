"""What a teacher thinks of the training images: the targets of distillation."""

from pathlib import Path

import torch
from torch import Tensor

from zoo.calibration import to_probabilities
from zoo.datasets import Dataset
from zoo.errors import InputError


def probabilities(name: str, train_set: Dataset, home: Path, progress: bool = True) -> Tensor:
    """The probabilities [N, K] of a model, such as a saved ensemble with its members' temperatures, for each image.

    They are for the images as prediction sees them, computed once and kept as the model's outputs: shifts and flips in
    training do not change what the teacher said, and a resumed run reads the same numbers.
    """
    from zoo._running.runner import run

    outputs = run(name, data=train_set, home=home, embeddings=False, progress=progress)[name]
    if outputs.classes != train_set.classes or list(outputs.ids) != list(train_set.ids):
        raise InputError(
            f"teacher {name}: predicts {len(outputs.classes)} classes for {len(outputs)} images, expected the "
            f"{len(train_set.classes)} classes of {train_set.spec} for all {len(train_set)}; name a model of this dataset"
        )
    return torch.as_tensor(to_probabilities(torch.tensor(outputs.logits), 1.0, outputs.link))
