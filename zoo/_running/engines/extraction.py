"""The work itself: decode, transform, forward, write, shard by shard."""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from zoo._running.engines.forward import Forward
from zoo._running.engines.job import Job
from zoo._running.engines.loading import killed_worker_told, load_batches
from zoo.model import Model
from zoo.store import Shard

Report = Callable[[int], None]  # called with the number of images just done


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
    with ThreadPoolExecutor(1) as writer:
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
