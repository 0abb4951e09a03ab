"""The time that each stage of a run takes, from reading a file to writing outputs."""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

_LOADING, _COMPUTING = ("read", "decode", "transform"), ("copy", "forward")
STAGES = (*_LOADING, *_COMPUTING, "write")


class Stages:
    """Seconds of each stage, summed over processes and threads. Stages overlap, so that the sum may exceed the run's time.

    - `read`: files from disk, if the images are in files of their own.
    - `decode`: from bytes to an RGB image, in CPU time, because workers may wait for a core.
    - `transform`: resize and crop, in CPU time.
    - `copy`: pixels to the device. A GPU copies while the program goes on, so that most of this time counts as `forward`.
    - `forward`: normalisation and forward pass, until the results are on the CPU.
    - `write`: shards to disk.

    `workers` is the number of processes that read, decode and transform; 0 if the process of the run does so.
    """

    def __init__(self) -> None:
        self.seconds = dict.fromkeys(STAGES, 0.0)
        self.workers = 0
        self._lock = threading.Lock()

    def add(self, seconds: Mapping[str, float]) -> None:
        """Add the seconds of some stages."""
        with self._lock:
            for stage, value in seconds.items():
                self.seconds[stage] += value

    @contextmanager
    def timed(self, stage: str) -> Iterator[None]:
        """Add the seconds that the block takes."""
        start = time.perf_counter()
        try:
            yield
        finally:
            self.add({stage: time.perf_counter() - start})

    @property
    def loading(self) -> float:
        """The seconds of reading, decoding and transforming, divided among the workers."""
        return sum(self.seconds[stage] for stage in _LOADING) / max(self.workers, 1)

    @property
    def computing(self) -> float:
        """The seconds of copying and of forward passes."""
        return sum(self.seconds[stage] for stage in _COMPUTING)

    @property
    def slowest(self) -> str:
        """The stage that a run waits for.

        Workers, device and writer work at the same time. The slowest of the three is found first, then its slowest stage.

        >>> stages = Stages()
        >>> stages.add({"read": 1, "decode": 5, "forward": 4})
        >>> slow = stages.slowest
        >>> stages.workers = 2
        >>> slow, stages.slowest
        ('decode', 'forward')
        """
        parts = [(self.loading, _LOADING), (self.computing, _COMPUTING), (self.seconds["write"], ("write",))]
        return max(max(parts)[1], key=self.seconds.__getitem__)
