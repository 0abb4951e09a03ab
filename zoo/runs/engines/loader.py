"""Decoding and preprocessing of images ahead of the network, in worker processes if that pays."""

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

MAX_WORKERS = 8
MIN_IMAGES_FOR_WORKERS = 512  # fewer are decoded sooner than workers start
_KILLED = "a process that decodes images was killed, maybe because memory ran out"
_KILLED_HINT = "Use fewer {workers} or smaller batches. Finished work is kept"


@dataclass
class Batch:
    """A batch of images after preprocessing.

    An image that cannot be decoded is blank, so that the others keep their rows. If that is true of all images, there are no
    pixels.
    """

    pixels: list[Tensor]  # [N, C, H, W] for each transform
    reasons: list[str | None]  # [N] why an image cannot be decoded; None if it can
    failure: ZooError | None = None  # an error in a worker; raised there, it would arrive wrapped in another traceback

    def pin_memory(self) -> "Batch":
        """Return the batch in pinned memory. Torch's loader calls this for batches that go to a CUDA device."""
        return Batch([pixels.pin_memory() for pixels in self.pixels], self.reasons, self.failure)


def load_batches(
    dataset: Dataset,
    transforms: Sequence[Preprocessing],
    batches: Iterable[list[int]],
    workers: int,
    device: torch.device,
) -> Iterator[Batch]:
    """Yield batches of images, in order. Each image is decoded once, whatever the number of transforms.

    Args:
        dataset: the images.
        transforms: the preprocessing of each model.
        batches: row numbers of each batch.
        workers: number of processes that decode; 0 decodes in this process.
        device: where the batches will be used.
    """
    options: dict[str, Any] = {}
    if workers and sys.platform == "linux":
        options["multiprocessing_context"] = multiprocessing.get_context("fork")  # avoids a second import of torch
    loader = DataLoader(
        _Pixels(dataset, transforms),
        batch_sampler=batches,
        collate_fn=_collate,
        num_workers=workers,
        pin_memory=device.type == "cuda",
        worker_init_fn=_lower_priority if device.type == "cpu" else None,
        **options,
    )
    with killed_worker_told():
        for batch in from_workers(loader):
            if batch.failure is not None:
                raise batch.failure
            yield batch


def from_workers(loader: "DataLoader[Any]") -> Iterator[Any]:
    """Yield the batches of a loader, and end its processes together with this iterator.

    Otherwise they would live as long as the traceback of an error, and torch would report a killed one at the next signal,
    wherever the program is then.
    """
    with warnings.catch_warnings():
        # Newer Pythons warn of a fork beside threads. The children only decode, and torch stops their threads.
        warnings.filterwarnings("ignore", message=".*multi-threaded, use of fork", category=DeprecationWarning)
        started: Any = iter(loader)
    try:
        yield from started
    except (OSError, EOFError) as error:  # maybe of a message that was cut short; a killed worker ends within a moment
        if not loader.num_workers or not wait([worker.sentinel for worker in started._workers], timeout=1):
            raise
        raise ZooError(_KILLED, hint=_KILLED_HINT) from error
    finally:
        if loader.num_workers:
            started._shutdown_workers()


@contextlib.contextmanager
def killed_worker_told() -> Iterator[None]:
    """Turn torch's error about a killed worker into one of ours.

    Torch raises it in the main thread at any point of the work on batches, so an `except` around the loader is not enough.
    """
    try:
        yield
    except RuntimeError as error:
        if "DataLoader worker" not in str(error):
            raise
        raise ZooError(_KILLED, hint=_KILLED_HINT) from error


def useful_workers(requested: int | None, images: int, devices: int) -> int:
    """Return how many processes should decode for each device: as requested, else as many as cores and images allow."""
    if requested is not None:
        return requested
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return 0 if images < MIN_IMAGES_FOR_WORKERS else max(1, min(MAX_WORKERS, cores // devices))


def _lower_priority(worker: int) -> None:
    """Lower the priority of a worker that shares cores with the network.

    The network's threads wait for each other after every layer, so a worker that displaces one of them delays all. At a
    lower priority the workers decode between batches, when cores are idle.
    """
    if hasattr(os, "nice"):
        os.nice(10)


_Row: TypeAlias = "tuple[list[Tensor], ZooError | None]"


class _Pixels(torch.utils.data.Dataset[_Row]):
    """The preprocessed images of a dataset, each with the error that it ended in, if any."""

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
    decoded = next((pixels for pixels, _ in rows if pixels), [])
    blank = [torch.zeros_like(pixels) for pixels in decoded]
    columns = zip(*((pixels or blank) for pixels, _ in rows), strict=True)
    failure = next((error for _, error in rows if error is not None and not isinstance(error, Undecodable)), None)
    reasons = [None if error is None else str(error) for _, error in rows]
    return Batch([torch.stack(column) for column in columns], reasons, failure)
