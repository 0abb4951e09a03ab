"""A disk that fills while a command writes: an error that names the file, and, once there is room, the same bytes."""

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
    """A small file system in memory at `place`, or None where this user may not mount one."""
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
    """What is wrong with how the scenario meets a disk with room for so many blocks more, or None."""
    home = disk / "home"
    shutil.rmtree(home, ignore_errors=True)
    shutil.copytree(killed.begun, home)
    ballast = disk / "ballast"
    free = shutil.disk_usage(disk).free
    with open(ballast, "wb") as file, contextlib.suppress(OSError):
        file.write(bytes(max(0, free - blocks * _BLOCK)))
    said = Path(f"{home}.said")
    status = fork(home, _told(killed, killed.folder / "told"))
    ballast.unlink()
    if status != 0:
        message = (killed.folder / "told").read_text()
        if not message.startswith("ZooError: ") or "the disk is full" not in message or str(disk) not in message:
            return f"a full disk: {message[:300]}"
    if fork(home, killed.scenario.act) != 0:
        return f"the same command with room again: {said.read_text()[-300:]}"
    different = differing(contents(home), killed.expected)
    return f"other bytes than undisturbed: {different}" if different else None


def _told(killed: Killed, place: Path):
    """The scenario, whose error is written to another disk than the full one."""

    def act(home: Path) -> None:
        place.write_text("")
        try:
            killed.scenario.act(home)
        except BaseException as error:
            place.write_text(f"{type(error).__name__}: {error}")
            raise

    return act
