"""What an engine is given: a model's name, a dataset, and the folder whose missing shards it is to fill."""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from zoo._running.class_matching import Match
from zoo.datasets import Dataset
from zoo.model import Model
from zoo.store import RunFolder


@dataclass(frozen=True)
class Job:
    """One model on one dataset. It can be pickled where `load` can, so workers on other machines take the same job."""

    folder: RunFolder
    dataset: Dataset
    match: Match
    load: Callable[[str], Model]  # the model on a device
    batch_size: int
    workers: int | None  # processes that decode; None: as many as there are cores to use and work to do

    @property
    def name(self) -> str:
        return self.folder.identity.name

    def batches(self, shard: int) -> list[range]:
        """The rows of a shard in batches that begin where the shard does.

        A batch never spans two shards: what else is in a batch can change the last bits of a result, and a shard must
        come out the same whether the run got to it in one go or was killed and resumed.
        """
        rows = self.folder.identity.rows(shard)
        return [rows[start : start + self.batch_size] for start in range(0, len(rows), self.batch_size)]

    def truth(self, rows: np.ndarray) -> tuple[np.ndarray | None, np.ndarray | None]:
        """Labels and targets of some rows."""
        labels, targets = self.match.labels, self.match.targets
        return None if labels is None else labels[rows], None if targets is None else targets[rows]
