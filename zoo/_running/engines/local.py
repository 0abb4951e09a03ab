"""The local engine: this process, its loader workers, every visible device."""

import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from zoo._running.engines.extraction import Job, Report, extract
from zoo._running.engines.loading import useful_workers


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
