"""The local engine: decode, preprocess, compute and write, shard by shard, on the devices of this machine."""

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np

from zoo.core.pages import kept_pages
from zoo.datasets import Dataset
from zoo.datasets.class_matching import Match
from zoo.models.model import Model
from zoo.outputs.store import RunFolder, Shard
from zoo.runs.engines.forward import Forward
from zoo.runs.engines.loader import killed_worker_told, load_batches, useful_workers

Report = Callable[[int], None]  # called with the number of images just finished


@dataclass(frozen=True)
class Job:
    """One model on one dataset. It can be pickled if `load` can, so that other machines can do it."""

    folder: RunFolder
    dataset: Dataset
    match: Match
    load: Callable[[str], Model]  # returns the model on a device
    batch_size: int
    workers: int | None  # processes that decode images; None: as many as cores and images allow

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


def run(job: Job, shards: Sequence[int], devices: Sequence[str], report: Report) -> None:
    """Compute and write shards; each device takes the next one as soon as it is free."""
    images = sum(len(job.folder.identity.rows(shard)) for shard in shards)
    workers = useful_workers(job.workers, images, len(devices))
    queue = _SharedQueue(shards)
    if len(devices) == 1:
        extract(job, job.load(devices[0]), queue, workers, report)
        return
    with ThreadPoolExecutor(len(devices)) as pool:
        models = [job.load(device) for device in devices]
        for running in [pool.submit(extract, job, model, queue, workers, report) for model in models]:
            running.result()


@killed_worker_told()
def extract(job: Job, model: Model, shards: Iterable[int], workers: int, report: Report) -> None:
    """Compute and write shards, in order, except those that another process has written in the meantime.

    Workers decode ahead, the device computes, and a thread writes finished shards, all at once.
    """
    identity = job.folder.identity
    forward = Forward(model, identity.precision, identity.embeddings, job.match.columns)  # type: ignore[arg-type]
    pending: deque[tuple[int, range, bool]] = deque()  # (shard, rows, whether they are its last)

    def rows_of_batches() -> Iterator[list[int]]:
        for shard in shards:
            if job.folder.has(shard):
                report(len(identity.rows(shard)))
                continue
            batches = job.batches(shard)
            for number, rows in enumerate(batches):
                pending.append((shard, rows, number == len(batches) - 1))
                yield list(rows)

    current = _CurrentShard(job)
    with kept_pages(), ThreadPoolExecutor(1) as writer:
        writing: Future[None] | None = None
        for batch in load_batches(job.dataset, [model.transform], rows_of_batches(), workers, model.device):
            shard, rows, last = pending.popleft()
            results = forward(batch.pixels[0], [job.dataset.ids[row] for row in rows]) if batch.pixels else {}
            current.add(rows, results, batch.reasons)
            report(len(rows))
            if last:
                if writing is not None:
                    writing.result()
                writing = writer.submit(job.folder.write, shard, current.take())
        if writing is not None:
            writing.result()


class _CurrentShard:
    """The batches of the shard that is being computed."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._clear()

    def _clear(self) -> None:
        self.rows: list[int] = []
        self.results: dict[str, list[np.ndarray]] = {}
        self.undecodable: list[dict[str, str]] = []

    def add(self, rows: range, results: dict[str, np.ndarray], reasons: list[str | None]) -> None:
        """Add the results of a batch, without the rows of undecodable images."""
        decoded = np.array([reason is None for reason in reasons])
        for row, reason in zip(rows, reasons, strict=True):
            if reason is not None:
                self.undecodable.append({"id": self.job.dataset.ids[row], "reason": reason})
        self.rows += np.array(rows)[decoded].tolist()
        for name, values in results.items():
            self.results.setdefault(name, []).append(values[decoded])

    def take(self) -> Shard:
        """Return the shard of all batches added since the last call."""
        labels, targets = self.job.labels_and_targets(np.array(self.rows, np.int64))
        results = {name: np.concatenate(parts) for name, parts in self.results.items()}
        if not results:  # no image of the shard could be decoded
            results = {name: np.empty((0, 0), np.float32) for name in ("embeddings", "logits")}
        identity = self.job.folder.identity
        shard = Shard(
            ids=[self.job.dataset.ids[row] for row in self.rows],
            values=results.get("logits") if identity.kind == "logits" else None,
            embeddings=results.get("embeddings") if identity.embeddings else None,
            labels=labels,
            targets=targets,
            undecodable=self.undecodable,
        )
        self._clear()
        return shard


class _SharedQueue:
    """Shard numbers, each handed out once, to whichever thread asks first."""

    def __init__(self, numbers: Sequence[int]) -> None:
        self.numbers = iter(numbers)
        self.lock = threading.Lock()

    def __iter__(self) -> Iterator[int]:
        while True:
            with self.lock:
                number = next(self.numbers, None)
            if number is None:
                return
            yield number
