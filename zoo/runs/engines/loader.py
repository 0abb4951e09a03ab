"""Images decoded and transformed ahead of the network, by worker processes where that pays."""

import contextlib
import multiprocessing
import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing.connection import wait
from typing import Any, TypeAlias

import torch
from torch import Tensor
from torch.utils.data import DataLoader

from zoo.datasets import Dataset, Undecodable
from zoo.datasets.preprocessing import Preprocessing
from zoo.errors import ZooError

MOST_WORKERS = 8
WORTH_WORKERS = 512  # images; fewer are decoded sooner than workers start
_KILLED = (
    "a process that decodes images was killed, maybe for want of memory; use fewer of them or smaller batches, what is "
    "finished is kept"
)


@dataclass
class Batch:
    """Pixels [N, C, H, W] for each transform, and for each row why it does not decode (None if it does).

    An image that does not decode is blank, so that the others keep their places; a batch of nothing else has no pixels.
    `failure` is an error met on the way, carried here because one raised in a worker would arrive wrapped in a traceback.
    """

    pixels: list[Tensor]
    reasons: list[str | None]
    failure: ZooError | None = None

    def pin_memory(self) -> "Batch":
        """Called by torch's loader for a batch on its way to a CUDA device."""
        return Batch([pixels.pin_memory() for pixels in self.pixels], self.reasons, self.failure)


def load_batches(
    dataset: Dataset,
    transforms: Sequence[Preprocessing],
    batches: Iterable[list[int]],
    workers: int,
    device: torch.device,
) -> Iterator[Batch]:
    """The batches of these rows, in order; each image is decoded once, whatever the number of transforms."""
    options: dict[str, Any] = {}
    if workers and sys.platform == "linux":
        options["multiprocessing_context"] = multiprocessing.get_context("fork")  # no second import of torch
    loader = DataLoader(
        _Pixels(dataset, transforms),
        batch_sampler=batches,
        collate_fn=_collate,
        num_workers=workers,
        pin_memory=device.type == "cuda",
        worker_init_fn=_step_back if device.type == "cpu" else None,
        **options,
    )
    with killed_worker_told():
        for batch in from_workers(loader):
            if batch.failure is not None:
                raise batch.failure
            yield batch


def from_workers(loader: "DataLoader[Any]") -> Iterator[Any]:
    """What a loader gives; its processes end with this iterator, however that ends.

    Else they would live as long as the traceback of an error, and torch tells of a killed one at the next signal, wherever
    the program then is.
    """
    with warnings.catch_warnings():
        # Newer Pythons warn of any fork beside threads; the children here only decode, and torch stops their threads.
        warnings.filterwarnings("ignore", message=".*multi-threaded, use of fork", category=DeprecationWarning)
        started: Any = iter(loader)
    try:
        yield from started
    except (OSError, EOFError) as error:  # maybe of a message that was cut short; a killed worker is gone within a moment
        if not loader.num_workers or not wait([worker.sentinel for worker in started._workers], timeout=1):
            raise
        raise ZooError(_KILLED) from error
    finally:
        if loader.num_workers:
            started._shutdown_workers()


@contextlib.contextmanager
def killed_worker_told() -> Iterator[None]:
    """Around the work on batches: a worker that the system killed is an error of ours.

    Torch raises its own in the main thread at whatever point that is, so an `except` around the batches is not enough.
    """
    try:
        yield
    except RuntimeError as error:
        if "DataLoader worker" not in str(error):
            raise
        raise ZooError(_KILLED) from error


def useful_workers(asked: int | None, images: int, devices: int) -> int:
    """How many processes should decode for each device."""
    if asked is not None:
        return asked
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 0 if images < WORTH_WORKERS else max(1, min(MOST_WORKERS, cores // devices))


def _step_back(worker: int) -> None:
    """Lower a worker's priority where the network computes on the same cores.

    The network's threads wait for each other after every layer: one that a worker pushes off its core holds up all. Given
    way to, they go on at full speed, and decoding happens in the moments between batches when every core is free.
    """
    if hasattr(os, "nice"):
        os.nice(10)


_Row: TypeAlias = "tuple[list[Tensor], ZooError | None]"


class _Pixels(torch.utils.data.Dataset[_Row]):
    """A dataset's images as models take them in, or the error that one ended in."""

    def __init__(self, dataset: Dataset, transforms: Sequence[Preprocessing]) -> None:
        self.dataset, self.transforms = dataset, transforms

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> _Row:
        try:
            image = self.dataset[index]
            return [transform.pixels(image) for transform in self.transforms], None
        except ZooError as error:
            return [], error


def _collate(rows: list[_Row]) -> Batch:
    whole = next((pixels for pixels, _ in rows if pixels), [])
    blank = [torch.zeros_like(pixels) for pixels in whole]
    columns = zip(*((pixels or blank) for pixels, _ in rows), strict=True)
    failure = next((error for _, error in rows if error is not None and not isinstance(error, Undecodable)), None)
    reasons = [None if error is None else str(error) for _, error in rows]
    return Batch([torch.stack(column) for column in columns], reasons, failure)
