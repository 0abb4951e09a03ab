"""Decoding and preprocessing of images ahead of the network, in worker processes if that pays."""

import contextlib
import multiprocessing
import os
import sys
import time
import warnings
from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from multiprocessing.connection import wait
from typing import Any, TypeAlias

import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader

from zoo.datasets import Dataset, Undecodable
from zoo.datasets.image_files import take_read_seconds
from zoo.datasets.preprocessing import Preprocessing
from zoo.errors import ZooError

MAX_WORKERS = 8
MIN_IMAGES_FOR_WORKERS = 512  # fewer are decoded sooner than workers start
_KILLED = "a process that decodes images was killed, perhaps because memory ran out"
_KILLED_HINT = "Use fewer {workers} or smaller batches. Finished work is kept"


@dataclass
class Batch:
    """A batch of images after preprocessing.

    An image that cannot be decoded is blank, so that the others keep their rows. If that is true of all images, there are no
    pixels.
    """

    pixels: "list[Tensor | ZooError]"  # [N, C, H, W] for each transform, or the error that the transform ended in
    reasons: list[str | None]  # [N] why an image cannot be decoded; None if it can
    failure: ZooError | None = None  # an error in a worker; raised there, it would arrive wrapped in another traceback
    seconds: dict[str, float] = field(default_factory=dict)  # that reading, decoding and transforming took

    def of_transform(self, number: int) -> Tensor:
        """Return the pixels [N, C, H, W] of one of the transforms, or raise the error that it ended in."""
        pixels = self.pixels[number]
        if isinstance(pixels, ZooError):
            raise pixels
        return pixels

    def pin_memory(self) -> "Batch":
        """Return the batch in pinned memory. Torch's loader calls this for batches that go to a CUDA device."""
        pinned = [pixels.pin_memory() if isinstance(pixels, Tensor) else pixels for pixels in self.pixels]
        return replace(self, pixels=pinned)


def load_batches(
    dataset: Dataset,
    transforms: Sequence[Preprocessing],
    batches: Iterable[list[int]],
    workers: int,
    device: torch.device,
) -> Generator[Batch, None, None]:
    """Yield batches of images, in order. Each image is decoded once, whatever the number of transforms.

    Args:
        dataset: the images.
        transforms: the transforms of the models. If one of them fails, the batch contains its error and the others' images.
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
    with translate_killed_worker():
        for batch in from_workers(loader):
            if batch.failure is not None:
                raise batch.failure
            yield batch


def from_workers(loader: "DataLoader[Any]") -> Iterator[Any]:
    """Yield the batches of a loader, and end its processes together with this iterator.

    Otherwise the processes would live as long as an error's traceback, and torch would report a killed process at the next
    signal, wherever the program is then.
    """
    with warnings.catch_warnings():
        # Newer Pythons warn of a fork beside threads. The children only decode, and torch stops their threads.
        warnings.filterwarnings("ignore", message=".*multi-threaded, use of fork", category=DeprecationWarning)
        started: Any = iter(loader)
    try:
        yield from started
    except (OSError, EOFError) as error:  # perhaps from a message that was cut short; a killed worker ends at once
        if not loader.num_workers or not wait([worker.sentinel for worker in started._workers], timeout=1):
            raise
        raise ZooError(_KILLED, hint=_KILLED_HINT) from error
    finally:
        if loader.num_workers:
            started._shutdown_workers()


@contextlib.contextmanager
def translate_killed_worker() -> Iterator[None]:
    """Turn torch's error about a killed worker into one of ours.

    Torch raises it in the main thread at any point of the work on batches, so an `except` around the loader is not enough.
    """
    try:
        yield
    except RuntimeError as error:
        if not is_killed_worker(error):
            raise
        raise ZooError(_KILLED, hint=_KILLED_HINT) from error


def is_killed_worker(error: BaseException) -> bool:
    """Return whether an error is torch's about a killed worker."""
    return isinstance(error, RuntimeError) and "DataLoader worker" in str(error)


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


_Row: TypeAlias = "tuple[list[Tensor | ZooError], ZooError | None, dict[str, float]]"


class _Pixels(torch.utils.data.Dataset[_Row]):
    """The images of a dataset after each transform, with the error that decoding ended in, if any, and with times."""

    def __init__(self, dataset: Dataset, transforms: Sequence[Preprocessing]) -> None:
        self.dataset, self.transforms = dataset, transforms

    def __len__(self) -> int:
        return len(self.dataset)

    def __getitem__(self, index: int) -> _Row:
        take_read_seconds()
        start = time.thread_time()
        try:
            image = self.dataset[index]
        except ZooError as error:
            return [], error, {}
        decoded, read = time.thread_time(), take_read_seconds()
        results = [self._transformed(image, transform, index) for transform in self.transforms]
        seconds = {"read": read, "decode": decoded - start, "transform": time.thread_time() - decoded}
        return results, None, seconds

    def _transformed(self, image: Image.Image, transform: Preprocessing, index: int) -> Tensor | ZooError:
        try:
            return transform.pixels(image)
        except ZooError as error:
            return error
        except Exception as error:  # a user's function may raise anything
            failure = ZooError(
                f"the transform raised {type(error).__name__}: {error}", where=f"image {self.dataset.ids[index]!r}"
            )
            failure.__cause__ = error
            return failure


def _collate(rows: list[_Row]) -> Batch:
    start = time.thread_time()
    results, errors, times = zip(*rows, strict=True)
    transforms = range(max(map(len, results)))
    pixels = [_stack([row[number] if row else None for row in results]) for number in transforms]
    failure = next((error for error in errors if error is not None and not isinstance(error, Undecodable)), None)
    reasons = [None if error is None else str(error) for error in errors]
    seconds = {stage: sum(one.get(stage, 0.0) for one in times) for stage in ("read", "decode", "transform")}
    seconds["transform"] += time.thread_time() - start
    return Batch(pixels, reasons, failure, seconds)


def _stack(results: "list[Tensor | ZooError | None]") -> Tensor | ZooError:
    """Return one batch of a transform's results, blank where an image was not decoded; or the first error among them."""
    for result in results:
        if isinstance(result, ZooError):
            return result
    shapes = {result.shape for result in results if isinstance(result, Tensor)}
    if len(shapes) > 1:
        return ZooError(
            f"the transform returns inputs of different shapes: {', '.join(str(list(s)) for s in sorted(shapes))}"
        )
    blank = torch.zeros_like(next(result for result in results if isinstance(result, Tensor)))
    return torch.stack([result if isinstance(result, Tensor) else blank for result in results])
