"""What is stored, how large it is and since when; and how it is removed, without touching what is not ours."""

import datetime
import itertools
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from zoo.core import files
from zoo.datasets import canonical, is_user_dataset, user_datasets
from zoo.errors import InputError
from zoo.outputs.store import RunFolder, stored
from zoo.outputs.store.lookup import select_runs

# All that a folder of outputs may hold; anything else was put there by somebody, and stays.
_OURS = re.compile(r"(manifest|calibration)\.json|\d{5,}\.safetensors|.*\.corrupt-\d+|\..*\.(part|lock)|\.lock")


@dataclass(frozen=True)
class Kept:
    """Stored outputs of one model on one dataset."""

    model: str
    dataset: str | None
    kind: str
    examples: int
    bytes: int
    when: str  # they were finished, local time
    path: Path


def outputs(models: Sequence[str] = (), data: str | None = None, home: Path | None = None) -> list[Kept]:
    """Stored outputs of the models named (or matching a pattern; all by default), on one dataset or on all."""
    return [_kept(run) for run in _selected(models, data, home)]


def remove(models: Sequence[str] = (), data: str | None = None, home: Path | None = None) -> list[Kept]:
    """Remove those outputs, and a dataset of one's own with the last of them; what was removed.

    Nothing is removed where any of the folders holds a file that is not one of ours.
    """
    runs = _selected(models, data, home)
    for run in runs:
        _check_ours(run.path)
    gone = [_kept(run) for run in runs]
    for run in runs:
        with files.writing(run.path):
            # Out of sight in one step, so that a reader never meets half of it.
            for number in itertools.count(1):
                aside = run.path.with_name(f".removed-{number}-{run.path.name}")
                if not aside.exists():
                    break
            run.path.rename(aside)
            shutil.rmtree(aside)
            if not any(run.path.parent.iterdir()):
                run.path.parent.rmdir()
    left = {run.identity.dataset for run in stored(home)}
    for spec in {kept.dataset for kept in gone} - left:
        if spec is not None and is_user_dataset(spec):
            user_datasets.forget(spec, home)
    return gone


def _selected(models: Sequence[str], data: str | None, home: Path | None) -> list[RunFolder]:
    spec = None if data is None else canonical(data)
    runs = [run for run in stored(home) if spec is None or run.identity.dataset == spec]
    return select_runs(list(models), runs) if models else runs


def _kept(run: RunFolder) -> Kept:
    entries = [entry.stat() for entry in run.path.iterdir() if entry.is_file()]
    when = datetime.datetime.fromtimestamp(max(stat.st_mtime for stat in entries))
    identity = run.identity
    size = sum(stat.st_size for stat in entries)
    return Kept(identity.name, identity.dataset, identity.kind, identity.examples, size, f"{when:%Y-%m-%d %H:%M}", run.path)


def _check_ours(folder: Path) -> None:
    if folder.is_symlink():
        raise InputError(f"{folder}: is a link to another place; remove it yourself")
    foreign = next((e for e in folder.iterdir() if e.is_symlink() or not e.is_file() or not _OURS.fullmatch(e.name)), None)
    if foreign is not None:
        raise InputError(f"{foreign}: is not a file of stored outputs, so nothing is removed; move it out of the way")
