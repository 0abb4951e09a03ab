"""The local engine: decode, preprocess, compute and write, shard by shard, on the devices of this machine."""

import contextlib
import threading
from collections import deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np
import torch

from zoo.core.pages import kept_pages
from zoo.datasets.preprocessing import Preprocessing
from zoo.outputs.store import Shard
from zoo.runs.engines.forward import Forward
from zoo.runs.engines.job import Failures, Job, Report
from zoo.runs.engines.loader import Batch, is_killed_worker, load_batches, translate_killed_worker, useful_workers
from zoo.runs.engines.stages import Stages


def run(jobs: Sequence[Job], shards: Sequence[int], devices: Sequence[str], report: Report, stages: Stages) -> Failures:
    """Compute and write shards; each device takes the next one as soon as it is free.

    Args:
        jobs: the models that run together, on the same dataset and with the same shards and batches.
        shards: numbers of the shards. A job skips those that exist.
        devices: where to compute.
        report: called with the number of images that all jobs have finished.
        stages: records the time of each stage.
    """
    images = sum(len(jobs[0].folder.identity.rows(shard)) for shard in shards)
    workers = useful_workers(jobs[0].workers, images, len(devices))
    stages.workers = workers * len(devices)
    queue = _SharedQueue(shards)
    groups = [[Member(job, device, stages) for job in jobs] for device in devices]
    if len(groups) == 1:
        extract(groups[0], queue, workers, report)
    else:
        with ThreadPoolExecutor(len(groups)) as pool:
            for running in [pool.submit(extract, members, queue, workers, report) for members in groups]:
                running.result()
    return failures([member for members in groups for member in members])


@translate_killed_worker()
def extract(members: "Sequence[Member]", shards: Iterable[int], workers: int, report: Report) -> None:
    """Compute and write shards, in order, except those that exist or that another process writes in the meantime.

    Each image is decoded once for all members. A member that fails keeps its error and is left out from then on. Workers
    decode ahead, the device computes, and a thread writes finished shards, all at once.
    """
    members = [member for member in members if member.failure is None]
    if not members:
        return
    job, transforms = members[0].job, _transforms(members)
    pending: deque[tuple[int, range, bool, list[Member]]] = deque()  # (shard, rows, whether they are its last, members)

    def rows_of_batches() -> Iterator[list[int]]:
        for shard in shards:
            involved = [member for member in members if member.failure is None and not member.job.folder.has(shard)]
            if not involved:
                report(len(job.folder.identity.rows(shard)))
                continue
            batches = job.batches(shard)
            for number, rows in enumerate(batches):
                pending.append((shard, rows, number == len(batches) - 1, involved))
                yield list(rows)

    batches = load_batches(job.dataset, list(transforms.values()), rows_of_batches(), workers, members[0].model.device)
    with kept_pages(), ThreadPoolExecutor(1) as writer, contextlib.closing(batches):
        for batch in batches:
            shard, rows, last, involved = pending.popleft()
            members[0].stages.add(batch.seconds)
            for member in involved:
                if member.failure is None:
                    with member.kept_failure():
                        member.compute(rows, batch, list(transforms).index(member.model.transform.pixels_key))
                        if last:
                            member.write(shard, writer)
            report(len(rows))
            if all(member.failure is not None for member in members):
                break
        for member in members:
            with member.kept_failure():
                member.wait()


def sample(members: "Sequence[Member]", rows: range) -> dict[str, Shard]:
    """Decode and compute one batch in this process, and return its outputs by model, without writing them."""
    transforms = _transforms([member for member in members if member.failure is None])
    for batch in load_batches(members[0].job.dataset, list(transforms.values()), [list(rows)], 0, torch.device("cpu")):
        members[0].stages.add(batch.seconds)
        for member in members:
            if member.failure is None:
                with member.kept_failure():
                    member.compute(rows, batch, list(transforms).index(member.model.transform.pixels_key))
    return {member.job.name: member.current.take() for member in members}


def _transforms(members: "Sequence[Member]") -> dict[Hashable, Preprocessing]:
    """Return the transforms of some members, one for each kind of pixels."""
    return {member.model.transform.pixels_key: member.model.transform for member in members}


def failures(members: "Iterable[Member]") -> Failures:
    """Return the first error of each job that failed."""
    found: Failures = {}
    for member in members:
        if member.failure is not None:
            found.setdefault(member.job.name, member.failure)
    return found


class Member:
    """A model on a device, one of several that share decoded images. `failure` is the error that stopped it, if any."""

    def __init__(self, job: Job, device: str, stages: Stages) -> None:
        self.job, self.stages = job, stages
        self.current = _CurrentShard(job)
        self.writing: Future[None] | None = None
        self.failure: Exception | None = None
        with self.kept_failure():
            identity = job.folder.identity
            self.model = job.load(device)
            self.forward = Forward(self.model, job.precision, identity.embeddings, job.match.columns, stages, job.fold)

    @contextlib.contextmanager
    def kept_failure(self) -> Iterator[None]:
        """Keep an error of the block as this member's failure, so that the other members can go on."""
        try:
            yield
        except Exception as error:
            if is_killed_worker(error):  # torch raises it wherever the main thread is
                raise
            self.failure = self.failure or error
            self.current = _CurrentShard(self.job)

    def compute(self, rows: range, batch: Batch, transform: int) -> None:
        """Run the forward pass on a batch of the current shard."""
        ids = [self.job.dataset.ids[row] for row in rows]
        results = self.forward(batch.of_transform(transform), ids) if batch.pixels else {}
        self.current.add(rows, results, batch.reasons)

    def write(self, shard: int, writer: ThreadPoolExecutor) -> None:
        """Start to write the current shard, after the previous one is written."""
        self.wait()
        self.writing = writer.submit(self._write, shard, self.current.take())

    def _write(self, number: int, shard: Shard) -> None:
        with self.stages.timed("write"):
            self.job.folder.write(number, shard)

    def wait(self) -> None:
        """Wait until the last shard is written."""
        if self.writing is not None:
            self.writing.result()


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
