"""What a run tells while it goes on: a bar with pictures a second on a terminal, one line at the end anywhere else."""

import contextlib
import sys
import time
from collections.abc import Iterator

from zoo.engines.extraction import Report


@contextlib.contextmanager
def progress(title: str, total: int, shown: bool) -> Iterator[Report]:
    """A function to be called with the number of pictures just done; everything goes to standard error."""
    done = 0
    start = time.monotonic()
    if not shown:
        yield lambda count: None
        return
    with _bar(title, total) as advance:

        def report(count: int) -> None:
            nonlocal done
            done += count
            advance(count)

        yield report
    seconds = time.monotonic() - start
    print(f"{title}: {done:,} pictures in {seconds:.1f} s, {done / max(seconds, 1e-9):,.1f} a second", file=sys.stderr)


@contextlib.contextmanager
def _bar(title: str, total: int) -> Iterator[Report]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
    from rich.text import Text

    class Speed(ProgressColumn):
        def render(self, task: Task) -> Text:
            return Text(f"{task.speed or 0:,.0f}/s")

    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda count: None
        return
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), Speed(), TimeRemainingColumn())
    with Progress(*columns, console=console, transient=True, speed_estimate_period=10) as bars:
        task = bars.add_task(title, total=total)
        yield lambda count: bars.advance(task, count)
