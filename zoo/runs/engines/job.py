"""`Job`, what an engine computes. Importable without torch: outputs that exist need no engine."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from zoo.core.types import Precision
from zoo.datasets import Dataset
from zoo.datasets.class_matching import Match
from zoo.outputs.store import RunFolder

if TYPE_CHECKING:
    from zoo.models.model import Model

Report = Callable[[int], None]  # called with the number of images just finished
Failures = dict[str, Exception]  # by name of the model


@dataclass(frozen=True)
class Job:
    """One model on one dataset. It can be pickled if `load` can, so that other machines can compute it."""

    folder: RunFolder
    dataset: Dataset
    match: Match
    load: "Callable[[str], Model]"  # returns the model on a device
    batch_size: int
    workers: int | None  # processes that decode images; None: as many as cores and images allow
    weights_bytes: int = 0  # of the model's parameters and buffers
    precision: Precision = "float32"
    fold: bool = False  # whether to fold batch normalisations into convolutions

    @property
    def name(self) -> str:
        """The model's name."""
        return self.folder.identity.name

    def batches(self, shard: int) -> list[range]:
        """Return the rows of each batch of a shard.

        A batch never spans two shards. The other images of a batch can change the last bits of a result, and a shard must be
        the same whether the run was interrupted or not.
        """
        rows = self.folder.identity.rows(shard)
        return [rows[start : start + self.batch_size] for start in range(0, len(rows), self.batch_size)]

    def labels_and_targets(self, rows: np.ndarray) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Return the labels [R] and targets [R, K] of some rows, each None if the dataset has none."""
        labels, targets = self.match.labels, self.match.targets
        return None if labels is None else labels[rows], None if targets is None else targets[rows]
