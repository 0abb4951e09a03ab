"""The progress bar of a training run, on standard error and only where somebody watches."""

import time
from types import TracebackType

from torch import Tensor

REFRESH = 0.5  # seconds; reading the loss waits for the device, so it is not read at every step


class Bar:
    """Steps done, the loss, pictures a second and the time left."""

    def __init__(self, title: str, total: int, done: int, batch_size: int, visible: bool) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        console = Console(stderr=True)
        self.bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=None),
            TextColumn("{task.fields[state]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            disable=not (visible and console.is_terminal),
            transient=True,
        )
        self.task = self.bar.add_task(title, total=total, completed=done, state="")
        self.batch_size, self.step, self.last, self.since = batch_size, done, done, time.monotonic()

    def __enter__(self) -> "Bar":
        self.bar.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.bar.stop()

    def advance(self, epoch: int, loss: Tensor) -> None:
        """One more step."""
        self.step += 1
        passed = time.monotonic() - self.since
        if self.bar.disable or passed < REFRESH:
            return
        speed = (self.step - self.last) * self.batch_size / passed
        state = f"epoch {epoch}  loss {float(loss):.3f}  {speed:.0f} pictures/s"
        self.bar.update(self.task, completed=self.step, state=state)
        self.last, self.since = self.step, time.monotonic()
