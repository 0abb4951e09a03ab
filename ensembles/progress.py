"""A progress bar on standard error, only where it was asked for."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def progress_bar(text: str, total: int, show: bool) -> Iterator[Callable[[], None]]:
    """Yields a function to call after each of `total` pieces of work; it does nothing unless `show`."""
    from rich.console import Console
    from rich.progress import Progress

    console = Console(stderr=True)
    if not (show and console.is_terminal):
        yield lambda: None
        return
    with Progress(console=console, transient=True) as bar:
        task = bar.add_task(text, total=total)
        yield lambda: bar.advance(task)
