"""Training several models at once, each in its own process.

The layers of a small network are too short to keep several cores busy, so one network per core is faster. A single network
keeps an accelerator busy, so there models are trained one after another.
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
    """Return how many of these models to train at once: one per core, or one if there is an accelerator."""
    if torch.accelerator.is_available():
        return 1
    return max(1, min(models, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1))


def train_each(
    calls: Sequence[Mapping[str, Any]], jobs: int, failed: Callable[[Mapping[str, Any], ZooError], None] | None = None
) -> Iterator[Trained]:
    """Train several models and yield each as soon as it is finished.

    Args:
        calls: the arguments of `train` for each model.
        jobs: models to train at once, with equal numbers of cores.
        failed: called with a call and its error, after which the other calls continue. By default the first error stops
            all training; the last checkpoints stay.
    """
    function = train if jobs == 1 else functools.partial(train, progress=False)  # progress bars would overwrite each other
    yield from (result for _, result in call_each(function, calls, jobs, failed))


def call_each(
    function: Callable[..., Result],
    calls: Sequence[Mapping[str, Any]],
    jobs: int,
    failed: Callable[[Mapping[str, Any], ZooError], None] | None = None,
) -> Iterator[tuple[Mapping[str, Any], Result]]:
    """Call a function with each set of arguments, `jobs` at a time in separate processes; yield results as they finish."""
    if jobs == 1:
        for call in calls:
            with _errors_to(failed, call):
                yield call, function(**call)
        return
    threads = max(1, torch.get_num_threads() // jobs)
    context = multiprocessing.get_context("spawn")  # forked processes would share torch's thread pool and hang
    other_children = set(multiprocessing.active_children())
    with ProcessPoolExecutor(jobs, context, _start_process, (threads,)) as pool:
        try:
            futures = {pool.submit(function, **call): call for call in calls}
            for done in as_completed(futures):
                with _errors_to(failed, futures[done]):
                    yield futures[done], done.result()
        except BrokenProcessPool as error:
            hint = "Memory may have run out; train fewer models at once with {jobs}"
            raise ZooError("a training process was killed", hint=hint) from error
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            for process in set(multiprocessing.active_children()) - other_children:
                process.terminate()
            raise


@contextmanager
def _errors_to(failed: Callable[[Mapping[str, Any], ZooError], None] | None, call: Mapping[str, Any]) -> Iterator[None]:
    try:
        yield
    except ZooError as error:
        if failed is None:
            raise
        failed(call, error)


def _start_process(threads: int) -> None:
    torch.set_num_threads(threads)
    threading.Thread(target=_exit_with_parent, daemon=True).start()


def _exit_with_parent() -> None:
    """Exit when the parent process ends, even if it was killed. The next call continues from the last checkpoint."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
