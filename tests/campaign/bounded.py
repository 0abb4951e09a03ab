"""Cases tried one after the other in a forked child that may neither take long nor grow large, nor take others with it."""

import ctypes
import gc
import mmap
import os
import resource
import signal
import struct
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

MEMORY = 2 * 2**30  # bytes that a case may take beyond what the process has already
SECONDS = 10  # of computing, so that a busy machine is no failure
_HUNG = 120  # seconds by the clock, for a case that waits, or that takes no signal


class _TooLong(BaseException):
    pass


def attempt(cases: Sequence[str], trial: Callable[[str], str | None], log: Path) -> dict[str, str]:
    """What was wrong with which case; `trial` says it of one, or None. A case that kills its process is one of them."""
    failed: dict[str, str] = {}
    place = mmap.mmap(-1, 8)  # the number of the case under way, seen by both processes
    start = 0
    while start < len(cases):
        place[:] = struct.pack("q", start)
        log.write_text("")
        child = os.fork()
        if child == 0:
            _run(cases, start, trial, place, log)
        status = _wait(child, place)
        for line in log.read_text(errors="replace").splitlines():
            case, _, problem = line.partition("\t")
            failed[case] = problem
        if status == 0:
            break
        reached = struct.unpack("q", place[:])[0]
        failed[cases[reached]] = f"ended its process (status {status})"
        start = reached + 1
    return failed


def _run(cases: Sequence[str], start: int, trial: Callable[[str], str | None], place: mmap.mmap, log: Path) -> None:
    status = 1
    try:
        _die_with_parent()
        quiet = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):  # decoders in C write there
            os.dup2(quiet, stream)
        warnings.simplefilter("ignore")
        gc.freeze()
        pages = int(Path("/proc/self/statm").read_text().split()[0])
        bound = pages * mmap.PAGESIZE + MEMORY
        resource.setrlimit(resource.RLIMIT_AS, (bound, bound))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        signal.signal(signal.SIGPROF, _too_long)
        with open(log, "w") as found:
            for number in range(start, len(cases)):
                place[:] = struct.pack("q", number)
                signal.setitimer(signal.ITIMER_PROF, SECONDS)
                try:
                    problem = trial(cases[number])
                except _TooLong:
                    problem = f"took longer than {SECONDS} s"
                except BaseException as error:
                    problem = f"uncaught {type(error).__name__}: {error}"
                signal.setitimer(signal.ITIMER_PROF, 0)
                if problem:
                    found.write(f"{cases[number]}\t{' '.join(problem.split())[:300]}\n")
                    found.flush()
        status = 0
    finally:
        os._exit(status)


def _too_long(*_: object) -> None:
    raise _TooLong


def _wait(child: int, place: mmap.mmap) -> int:
    seen, since = place[:], time.monotonic()
    while True:
        done, status = os.waitpid(child, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status)
        if place[:] != seen:
            seen, since = place[:], time.monotonic()
        elif time.monotonic() - since > _HUNG:
            os.kill(child, signal.SIGKILL)
        time.sleep(0.005)


def _die_with_parent() -> None:
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG
