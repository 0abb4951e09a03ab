"""Several models trained at once on one machine's processors.

A small network leaves most of a processor's cores idle: its layers are too short to share. Training one network a core is
faster then. An accelerator is kept busy by one network, so there they go one after another.
"""

import functools
import multiprocessing
import os
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any, TypeVar

import torch

from zoo.errors import ZooError
from zoo.training.trainer import Trained, train

Result = TypeVar("Result")


def default_jobs(models: int) -> int:
    """How many of so many models to train at once: one per core, or one where there is an accelerator."""
    if torch.accelerator.is_available():
        return 1
    return max(1, min(models, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1))


def train_each(
    calls: Sequence[Mapping[str, Any]], jobs: int, failed: Callable[[Mapping[str, Any], ZooError], None] | None = None
) -> Iterator[Trained]:
    """Train several models, `jobs` at a time with equal numbers of cores, and yield each as soon as it is finished.

    `calls` are the arguments of `train`. The first error stops all training and leaves the last checkpoints in place. With
    `failed`, a call that raises an error is passed to `failed` with the error, and the other calls continue.
    """
    function = train if jobs == 1 else functools.partial(train, progress=False)  # progress bars would overwrite each other
    yield from (result for _, result in call_each(function, calls, jobs, failed))


def call_each(
    function: Callable[..., Result],
    calls: Sequence[Mapping[str, Any]],
    jobs: int,
    failed: Callable[[Mapping[str, Any], ZooError], None] | None = None,
) -> Iterator[tuple[Mapping[str, Any], Result]]:
    """Call a function with each set of arguments, `jobs` at a time in their own processes; yield results as they come."""
    if jobs == 1:
        for call in calls:
            with _handed_to(failed, call):
                yield call, function(**call)
        return
    threads = max(1, torch.get_num_threads() // jobs)
    context = multiprocessing.get_context("spawn")  # a fork would share torch's threads, which does not go well
    others = set(multiprocessing.active_children())
    with ProcessPoolExecutor(jobs, context, _begin, (threads,)) as pool:
        try:
            under_way = {pool.submit(function, **call): call for call in calls}
            for done in as_completed(under_way):
                with _handed_to(failed, under_way[done]):
                    yield under_way[done], done.result()
        except BrokenProcessPool as error:
            raise ZooError("a training process was killed, maybe for want of memory; train fewer at once") from error
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()
            raise


@contextmanager
def _handed_to(failed: Callable[[Mapping[str, Any], ZooError], None] | None, call: Mapping[str, Any]) -> Iterator[None]:
    try:
        yield
    except ZooError as error:
        if failed is None:
            raise
        failed(call, error)


def _begin(threads: int) -> None:
    """The start of a training process: its share of the cores, and an end of its own when there is nobody to train for."""
    torch.set_num_threads(threads)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Wait for the parent's end, however it comes about; its last checkpoint is where the next call goes on."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
