"""The work itself: decode, transform, forward, write, shard by shard; and the local engine: this process, its devices."""

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

Report = Callable[[int], None]  # called with the number of images just done


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


def run(job: Job, shards: Sequence[int], devices: Sequence[str], report: Report) -> None:
    """Fill the given shards; each device takes the next one as soon as it is free."""
    images = sum(len(job.folder.identity.rows(shard)) for shard in shards)
    workers = useful_workers(job.workers, images, len(devices))
    queue = _Shared(shards)
    if len(devices) == 1:
        extract(job, job.load(devices[0]), queue, workers, report)
        return
    with ThreadPoolExecutor(len(devices)) as pool:
        models = [job.load(device) for device in devices]
        for running in [pool.submit(extract, job, model, queue, workers, report) for model in models]:
            running.result()


@killed_worker_told()
def extract(job: Job, model: Model, shards: Iterable[int], workers: int, report: Report) -> None:
    """Compute and write these shards, in order, skipping those that another process has written in the meantime.

    Three things go on at once: workers decode ahead, the device computes, a thread writes what is finished.
    """
    identity = job.folder.identity
    forward = Forward(model, identity.precision, identity.embeddings, job.match.columns)  # type: ignore[arg-type]
    under_way: deque[tuple[int, range, bool]] = deque()  # (shard, rows, whether they are its last)

    def plan() -> Iterator[list[int]]:
        for shard in shards:
            if job.folder.has(shard):
                report(len(identity.rows(shard)))
                continue
            batches = job.batches(shard)
            for number, rows in enumerate(batches):
                under_way.append((shard, rows, number == len(batches) - 1))
                yield list(rows)

    unfinished = _Unfinished(job)
    with kept_pages(), ThreadPoolExecutor(1) as writer:
        writing: Future[None] | None = None
        for batch in load_batches(job.dataset, [model.transform], plan(), workers, model.device):
            shard, rows, last = under_way.popleft()
            results = forward(batch.pixels[0], [job.dataset.ids[row] for row in rows]) if batch.pixels else {}
            unfinished.add(rows, results, batch.reasons)
            report(len(rows))
            if last:
                if writing is not None:
                    writing.result()
                writing = writer.submit(job.folder.write, shard, unfinished.take())
        if writing is not None:
            writing.result()


class _Unfinished:
    """The batches of the shard under way."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self._clear()

    def _clear(self) -> None:
        self.rows: list[int] = []
        self.results: dict[str, list[np.ndarray]] = {}
        self.undecodable: list[dict[str, str]] = []

    def add(self, rows: range, results: dict[str, np.ndarray], reasons: list[str | None]) -> None:
        good = np.array([reason is None for reason in reasons])
        for row, reason in zip(rows, reasons, strict=True):
            if reason is not None:
                self.undecodable.append({"id": self.job.dataset.ids[row], "reason": reason})
        self.rows += np.array(rows)[good].tolist()
        for name, values in results.items():
            self.results.setdefault(name, []).append(values[good])

    def take(self) -> Shard:
        """The shard of all batches added since the last one was taken."""
        rows = np.array(self.rows, np.int64)
        labels, targets = self.job.truth(rows)
        results = {name: np.concatenate(parts) for name, parts in self.results.items()}
        if not results:  # not one image of the shard could be decoded: rows of the right width, none of them
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


class _Shared:
    """Numbers handed out once, to whichever thread asks first."""

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
