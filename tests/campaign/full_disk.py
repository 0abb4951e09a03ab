"""Fill the disk during a command. The error must name the file; a rerun with free space must produce the same bytes."""

import contextlib
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

from killing import Killed, fork
from scenarios import contents, differing

_BLOCK = 4096


@contextlib.contextmanager
def mounted(place: Path) -> Iterator[Path | None]:
    """Mount a small in-memory file system at `place`; yield None if this user may not mount."""
    place.mkdir(parents=True)
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64m", "tmpfs", place], capture_output=True, check=False)
    if done.returncode:
        yield None
        return
    try:
        yield place
    finally:
        subprocess.run(["umount", place], check=True)


def fill(killed: Killed, disk: Path, blocks: int) -> str | None:
    """Run the scenario on a disk with `blocks` free blocks, then with free space; return the problem, or None."""
    home = disk / "home"
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(killed.begun, home)
    ballast = disk / "ballast"
    free = shutil.disk_usage(disk).free
    with open(ballast, "wb") as file, contextlib.suppress(OSError):
        file.write(bytes(max(0, free - blocks * _BLOCK)))
    log = Path(f"{home}.log")
    status = fork(home, _recording_error(killed, killed.folder / "error"))
    ballast.unlink()
    if status != 0:
        message = (killed.folder / "error").read_text()
        if not message.startswith("ZooError: ") or "the disk is full" not in message or str(disk) not in message:
            return f"unexpected error on a full disk: {message[:300]}"
    if fork(home, killed.scenario.act) != 0:
        return f"the rerun with free space failed: {log.read_text()[-300:]}"
    different = differing(contents(home), killed.expected)
    return f"bytes differ from an uninterrupted run: {different}" if different else None


def _recording_error(killed: Killed, place: Path):
    """Return the scenario's action; it writes its error to `place`, which is not on the full disk."""

    def act(home: Path) -> None:
        place.write_text("")
        try:
            killed.scenario.act(home)
        except BaseException as error:
            place.write_text(f"{type(error).__name__}: {error}")
            raise

    return act
