"""`--replace` under load: writers replace the same outputs and some are killed. Readers and `verify` must not fail."""

import os
import random
import shutil
import signal
import time
import warnings
from collections.abc import Callable
from pathlib import Path

import numpy as np

_Z = np.random.default_rng(5).normal(size=(40, 3)).astype(np.float32)


def under_load(home: Path, seed: str, seconds: float = 5.0, writers: int = 3, readers: int = 2) -> str | None:
    """Replace, read and verify the same outputs in concurrent processes; return the problem, or None."""
    from zoo.outputs import store

    shutil.rmtree(home, ignore_errors=True)
    home.mkdir(parents=True)
    store.save(_outputs(0), home)
    until = time.monotonic() + seconds
    roles: list[Callable[[Path, float, int], None]] = [_replace] * writers + [_read] * readers + [_verify]
    children = {_fork(role, home, until, number): role for number, role in enumerate(roles)}
    victims = [child for child, role in children.items() if role is _replace][:-1]  # the last writer survives
    draw = random.Random(seed)
    for victim in victims:
        time.sleep(draw.uniform(0, seconds / len(victims)))
        os.kill(victim, signal.SIGKILL)
    statuses = {child: os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children}
    for number, (child, status) in enumerate(statuses.items()):
        if status != 0 and not (child in victims and status == -signal.SIGKILL):
            log = _log(home, number)
            return f"{children[child].__name__} ended with {status}: {log.read_text()[-300:] if log.exists() else ''}"
    if not store.verify(home).clean:
        return f"verify at the end: {store.verify(home).problems}"
    stored = store.save(_outputs(1), home, replace=True)  # a rerun of the same command
    left = store.stored(home)
    if [run.path for run in left] != [stored.path]:
        return f"expected one run, found {len(left)}"
    return None


def _outputs(shift: int):
    from zoo.outputs.outputs import Outputs

    return Outputs.from_arrays("a", logits=_Z + shift, labels=np.arange(40) % 3, dataset="cifar10:test")


def _replace(home: Path, until: float, number: int) -> None:
    from zoo.outputs import store

    shift = 0
    while time.monotonic() < until:
        shift = 10 * number + (shift + 1) % 7
        found = np.asarray(store.save(_outputs(shift), home, replace=True).logits)
        assert np.array_equal(found, _Z + shift), "outputs differ from those saved"


def _read(home: Path, until: float, number: int) -> None:
    from zoo.outputs import store

    warnings.simplefilter("error")
    while time.monotonic() < until:
        shift = np.asarray(store.open_runs("a", data="cifar10:test", home=home)["a"].logits) - _Z
        assert np.ptp(np.round(shift, 3)) == 0, "outputs mix two imports"


def _verify(home: Path, until: float, number: int) -> None:
    from zoo.outputs import store

    while time.monotonic() < until:
        found = store.verify(home)
        assert found.clean, f"verify reports problems: {found.problems}"


def _fork(role: Callable[[Path, float, int], None], home: Path, until: float, number: int) -> int:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            warnings.simplefilter("ignore")
            role(home, until, number)
            status = 0
        except BaseException as error:
            _log(home, number).write_text(f"{type(error).__name__}: {error}")
        finally:
            os._exit(status)
    return child


def _log(home: Path, number: int) -> Path:
    return Path(f"{home}.failed-{number}")
