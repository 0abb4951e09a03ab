"""Run test cases in a forked child process with limits on time and memory, so that a crash fails only its own case."""

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

MEMORY = 2 * 2**30  # bytes that a case may allocate beyond what the process already uses
SECONDS = 10  # of CPU time, so that a busy machine causes no failure
_HUNG = 120  # seconds of wall-clock time, for a case that blocks or ignores signals


class _TooLong(BaseException):
    pass


def attempt(cases: Sequence[str], trial: Callable[[str], str | None], log: Path) -> dict[str, str]:
    """Return the problem of each failed case. `trial` returns the problem of one case, or None.

    A case that terminates its process fails too.
    """
    failed: dict[str, str] = {}
    place = mmap.mmap(-1, 8)  # the number of the current case, shared by both processes
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
        failed[cases[reached]] = f"terminated its process (status {status})"
        start = reached + 1
    return failed


def _run(cases: Sequence[str], start: int, trial: Callable[[str], str | None], place: mmap.mmap, log: Path) -> None:
    status = 1
    try:
        _die_with_parent()
        quiet = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):  # C decoders write to these directly
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
