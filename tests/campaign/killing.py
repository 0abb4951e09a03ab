"""Kill a command at each of its file-system events, in the middle of each of its writes, or at a random moment.

Afterwards `verify` must find no problem, and a rerun must produce the same bytes as an uninterrupted run.
"""

import contextlib
import os
import random
import resource
import shutil
import signal
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path

from scenarios import Scenario, contents, differing

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT
_TORN = (0, 1, 7, 100, 1000)  # number of bytes of a file that are written before the kill


class Killed:
    """A scenario with its initial home and the files that it leaves when it is not interrupted."""

    def __init__(self, scenario: Scenario, folder: Path) -> None:
        self.scenario, self.folder = scenario, folder
        shutil.rmtree(folder, ignore_errors=True)
        self.begun, whole = folder / "begun", folder / "whole"
        self.begun.mkdir(parents=True)
        check(fork(self.begun, scenario.prepare), f"{scenario.name}: preparation failed")
        shutil.copytree(self.begun, whole)
        counts = folder / "events"
        began = time.monotonic()
        check(fork(whole, lambda home: _counted(home, scenario, counts)), f"{scenario.name}: fails without a kill")
        self.seconds = time.monotonic() - began
        self.events = counts.read_text().split()  # "write" if a file is opened for writing, else "other"
        self.expected = contents(whole)

    def points(self) -> list[str]:
        """Return all kill points: before each event, and after some number of bytes of each write."""
        torn = [f"{n} torn {size}" for n, kind in enumerate(self.events) if kind == "write" for size in _TORN]
        return [f"{n} before" for n in range(len(self.events))] + torn

    def kill_at(self, point: str) -> str | None:
        number, how, *size = point.split()
        left = int(size[0]) if how == "torn" else None
        return self._killed(lambda home: _dying(home, self.scenario, int(number), left))

    def kill_after(self, seconds: float) -> str | None:
        return self._killed(self.scenario.act, seconds)

    def _killed(self, act: Callable[[Path], None], after: float | None = None) -> str | None:
        """Run `act`, kill it and rerun the scenario; return the problem, or None."""
        home = self.folder / "killed"
        shutil.rmtree(home, ignore_errors=True)
        shutil.copytree(self.begun, home)
        status = fork(home, act, after)
        if status not in (0, -signal.SIGKILL, -signal.SIGXFSZ):
            return f"ended with status {status} before it was killed: {_log(home)}"
        if fork(home, self._resumed) != 0:
            return _log(home)
        different = differing(contents(home), self.expected)
        return f"bytes differ from an uninterrupted run: {different}" if different else None

    def _resumed(self, home: Path) -> None:
        _verified(home, "after the kill")
        self.scenario.act(home)
        _verified(home, "at the end")


def fork(home: Path, act: Callable[[Path], None], kill_after: float | None = None) -> int:
    """Run `act` on `home` in a child process and return its exit status; its output is written to `home`.log."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            os.environ["ZOO_HOME"] = str(home)
            with open(f"{home}.log", "w") as log:
                os.dup2(log.fileno(), 1)
                os.dup2(log.fileno(), 2)
                warnings.simplefilter("ignore")
                try:
                    act(home)
                    status = 0
                except BaseException as error:
                    print(f"{type(error).__name__}: {error}", flush=True)
        finally:
            os._exit(status)
    if kill_after is not None:
        time.sleep(kill_after)
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def check(status: int, problem: str) -> None:
    if status != 0:
        raise SystemExit(f"campaign: {problem} (status {status})")


def _log(home: Path) -> str:
    return Path(f"{home}.log").read_text(errors="replace")[-300:]


def _verified(home: Path, when: str = "afterwards") -> None:
    from zoo.outputs import store

    found = store.verify(home)
    if not found.clean:
        raise AssertionError(f"verify {when}: {found.problems}")


def _counted(home: Path, scenario: Scenario, counts: Path) -> None:
    seen: list[str] = []
    _on_events(home, lambda kind: seen.append(kind))
    scenario.act(home)
    counts.write_text(" ".join(seen))


def _dying(home: Path, scenario: Scenario, number: int, left: int | None) -> None:
    """Run the scenario and die before event `number`, or once the file that it opens holds `left` bytes."""
    events = iter(range(10**9))

    def on_event(kind: str) -> None:
        if next(events) != number:
            return
        if left is None:
            os.kill(os.getpid(), signal.SIGKILL)
        resource.setrlimit(resource.RLIMIT_FSIZE, (left, left))

    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)  # kills the process when it writes beyond the limit
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _on_events(home, on_event)
    scenario.act(home)


def _on_events(home: Path, on_event: Callable[[str], None]) -> None:
    """Call `on_event` before each event that changes something below `home`, and before each flush to disk."""
    place, flush = str(home), os.fsync

    def hook(event: str, arguments: tuple) -> None:
        if event == "open":
            path, _, flags = arguments
            if isinstance(path, (str, os.PathLike)) and flags & _WRITING and os.fspath(path).startswith(place):
                on_event("write")
        elif event in ("os.rename", "os.remove", "os.mkdir", "os.rmdir", "os.link", "os.symlink", "os.truncate"):
            path = arguments[0]
            if isinstance(path, (str, os.PathLike)) and os.fspath(path).startswith(place):
                on_event("other")

    def fsync(descriptor: int) -> None:
        on_event("other")
        flush(descriptor)

    sys.addaudithook(hook)
    os.fsync = fsync


def random_moment(killed: Killed, seed: str) -> str | None:
    return killed.kill_after(random.Random(seed).uniform(0, killed.seconds))


def many_writers(killed: Killed, count: int) -> str | None:
    """Run the command in `count` processes at once; all must succeed and leave the same files as one process."""
    home = killed.folder / "shared"
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(killed.begun, home)
    children = []
    for number in range(count):
        child = os.fork()
        if child == 0:
            os._exit(_one_writer(home, killed.scenario, number))
        children.append(child)
    statuses = [os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]
    if any(statuses):
        bad = next(number for number, status in enumerate(statuses) if status)
        return f"{count} writers ended with {statuses}: {Path(f'{home}.log-{bad}').read_text()[-300:]}"
    if fork(home, _verified) != 0:
        return f"verify after {count} writers: {_log(home)}"
    different = differing(contents(home), killed.expected)
    return f"bytes differ from a single writer: {different}" if different else None


def _one_writer(home: Path, scenario: Scenario, number: int) -> int:
    os.environ["ZOO_HOME"] = str(home)
    with open(f"{home}.log-{number}", "w") as log:
        os.dup2(log.fileno(), 1)
        os.dup2(log.fileno(), 2)
        warnings.simplefilter("ignore")
        try:
            scenario.act(home)
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", flush=True)
            return 1
    return 0
