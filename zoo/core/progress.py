"""Progress on standard error: a bar in a terminal, elsewhere (a log file, a notebook, a pipe) a line every ten seconds."""

import contextlib
import datetime
import sys
import time
from collections.abc import Callable, Iterator
from types import TracebackType

Report = Callable[[int], None]  # takes the number of items just finished
PATIENCE = 3.0  # seconds before `in_time` shows a bar
REFRESH = 0.5  # seconds between updates of the state, which may have to be read from a device
LINE_INTERVAL = 10.0  # seconds between lines where there is no terminal


class Bar:
    """A progress bar with the number of finished items, a short state (by default items per second) and the time left.

    Without a terminal, lines with the percentage, the state and the time left replace the bar. Work that takes less than
    `LINE_INTERVAL` seconds prints none.

    Args:
        title: text before the bar.
        total: number of items.
        shown: whether to show the bar or print the lines.
        done: number of items that are finished at the start.
    """

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
        self.title, self.total, self.done = title, total, done
        self.prints_lines = shown and not console.is_terminal
        self.start, self.done_at_start = time.monotonic(), done
        self.last, self.since = 0, self.start

    def __enter__(self) -> "Bar":
        self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.bar.stop()

    def advance(self, count: int = 1, state: Callable[[float], str] = "{:,.0f}/s".format) -> None:
        """Count finished items.

        Args:
            count: number of items just finished.
            state: returns the text after the bar, given the items per second. It is called every `REFRESH` seconds, or
                once per line. If it is empty, a line shows the items per second instead.
        """
        if self.bar.disable and not self.prints_lines:
            return
        if not self.prints_lines:
            self.bar.advance(self.task, count)
        self.done += count
        self.last += count
        passed = time.monotonic() - self.since
        if passed < (LINE_INTERVAL if self.prints_lines else REFRESH):
            return
        rate = self.last / max(passed, 1e-9)
        if self.prints_lines:
            self._print_line(state(rate) or f"{rate:,.1f}/s")
        else:
            self.bar.update(self.task, state=state(rate))
        self.last, self.since = 0, time.monotonic()

    def _print_line(self, state: str) -> None:
        seconds_per_item = (time.monotonic() - self.start) / max(self.done - self.done_at_start, 1)
        left = datetime.timedelta(seconds=round(seconds_per_item * max(self.total - self.done, 0)))
        print(f"{self.title}: {self.done / max(self.total, 1):.0%}, {state}, {left} left", file=sys.stderr, flush=True)


@contextlib.contextmanager
def counted(
    title: str, total: int, shown: bool, unit: str, state: Callable[[float], str] = "{:,.0f}/s".format
) -> Iterator[Report]:
    """Show a bar, yield the function that counts finished items, and print one line with their number and the time.

    Args:
        title: text before the bar and the line.
        total: number of items.
        shown: whether to show the bar and print the line.
        unit: what the items are called in the line, such as "images".
        state: returns the text after the bar, given the items per second.
    """
    done, start = 0, time.monotonic()
    with Bar(title, total, shown) as bar:

        def report(count: int) -> None:
            nonlocal done
            done += count
            bar.advance(count, state)

        yield report
    if shown:
        seconds = time.monotonic() - start
        speed = done / max(seconds, 1e-9)
        print(f"{title}: {done:,} {unit} in {seconds:.1f} s, {speed:,.1f} per second", file=sys.stderr)


@contextlib.contextmanager
def in_time(title: str, total: int, shown: bool) -> Iterator[Report]:
    """Yield the function that counts finished items; a bar appears once the work has taken `PATIENCE` seconds."""
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
