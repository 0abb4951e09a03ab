"""The one progress bar: on standard error, only where it was asked for and somebody watches."""

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from types import TracebackType

Report = Callable[[int], None]  # to be called with the number of pieces of work just done
PATIENCE = 3.0  # seconds before a bar nobody asked for by name appears
REFRESH = 0.5  # seconds; what a state says may have to be read from a device, so it is not asked for at every step


class Bar:
    """Pieces of work done, how many per second, the time left, and a few words on the state of things."""

    def __init__(self, title: str, total: int, shown: bool = True, done: int = 0) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        console = Console(stderr=True)
        self.bar = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[state]}", markup=False),
            TimeRemainingColumn(),
            console=console,
            disable=not (shown and console.is_terminal),
            transient=True,
            speed_estimate_period=10,
        )
        self.task = self.bar.add_task(title, total=total, completed=done, state="")
        self.last, self.since = 0, time.monotonic()

    def __enter__(self) -> "Bar":
        self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.bar.stop()

    def advance(self, count: int = 1, state: Callable[[float], str] = "{:,.0f}/s".format) -> None:
        """`count` more pieces are done. Now and then `state` is asked for a few words, given the pieces per second."""
        if self.bar.disable:
            return
        self.bar.advance(self.task, count)
        self.last += count
        passed = time.monotonic() - self.since
        if passed >= REFRESH:
            self.bar.update(self.task, state=state(self.last / passed))
            self.last, self.since = 0, time.monotonic()


@contextlib.contextmanager
def counted(title: str, total: int, shown: bool, unit: str) -> Iterator[Callable[[int], None]]:
    """A function to call with the number of pieces just done; at the end one line says how many in what time."""
    done, start = 0, time.monotonic()
    with Bar(title, total, shown) as bar:

        def report(count: int) -> None:
            nonlocal done
            done += count
            bar.advance(count)

        yield report
    if shown:
        seconds = time.monotonic() - start
        speed = done / max(seconds, 1e-9)
        print(f"{title}: {done:,} {unit} in {seconds:.1f} s, {speed:,.1f} per second", file=sys.stderr)


@contextlib.contextmanager
def in_time(title: str, total: int, shown: bool) -> Iterator[Report]:
    """A function to call with the number of pieces just done; a bar appears once the work has taken a few seconds."""
    done, start = 0, time.monotonic()
    with contextlib.ExitStack() as stack:
        bar: Bar | None = None

        def report(count: int) -> None:
            nonlocal bar, done
            done += count
            if bar is not None:
                bar.advance(count, lambda speed: "")
            elif shown and done < total and time.monotonic() - start >= PATIENCE:
                bar = stack.enter_context(Bar(title, total, shown, done))

        yield report
