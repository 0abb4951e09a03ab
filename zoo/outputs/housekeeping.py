"""List and remove stored outputs. Files that are not part of stored outputs are never removed."""

import datetime
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from zoo.core import files
from zoo.datasets import canonical, is_user_dataset, user_datasets
from zoo.errors import InputError
from zoo.outputs.store import RunFolder, layout, stored
from zoo.outputs.store.layout import IMPORTED
from zoo.outputs.store.lookup import imports_like, select_runs

# Names of all files that the package writes into a folder of outputs. Any other file belongs to the user.
_OUTPUT_FILES = re.compile(r"(manifest|calibration)\.json|\d{5,}\.safetensors|.*\.corrupt-\d+|\..*\.(part|lock)|\.lock")


@dataclass(frozen=True)
class Kept:
    """Stored outputs of one model on one dataset."""

    model: str
    dataset: str | None
    kind: str
    examples: int
    bytes: int
    when: str  # local time of the last change
    path: Path


def outputs(models: Sequence[str] = (), data: str | None = None, home: Path | None = None) -> list[Kept]:
    """Return the stored outputs of models on a dataset.

    Args:
        models: names, patterns, filters or named sets; default: all models.
        data: the dataset; default: all datasets.
        home: where outputs are stored; default `ZOO_HOME`.
    """
    return [_describe(run) for run in _selected(models, data, home)]


def remove(models: Sequence[str] = (), data: str | None = None, home: Path | None = None) -> list[Kept]:
    """Remove stored outputs, and return the removed ones.

    A user-defined dataset is removed with the last outputs on it. Nothing is removed if any of the folders contains a file
    that is not part of stored outputs.

    Args:
        models: names, patterns, filters or named sets; default: all models.
        data: the dataset; default: all datasets.
        home: where outputs are stored; default `ZOO_HOME`.
    """
    selected = _selected(models, data, home)
    # Imports that a removed import has replaced are removed too, or they would become current again.
    runs = [one for run in selected for one in (imports_like(run) if run.identity.fingerprint == IMPORTED else [run])]
    for run in runs:
        _check_removable(run.path)
    removed = [_describe(run) for run in selected]
    for run in runs:
        with files.writing(run.path):
            # Renamed first, so that a reader never finds a partly removed folder.
            aside = layout.put_aside(run.path, "removed")
            if aside is not None:
                shutil.rmtree(aside)
            if run.path.parent.is_dir() and not any(run.path.parent.iterdir()):
                run.path.parent.rmdir()
    remaining = {run.identity.dataset for run in stored(home)}
    for spec in {entry.dataset for entry in removed} - remaining:
        if spec is not None and is_user_dataset(spec):
            user_datasets.forget(spec, home)
    return removed


def _selected(models: Sequence[str], data: str | None, home: Path | None) -> list[RunFolder]:
    spec = None if data is None else canonical(data)
    runs = [run for run in stored(home) if spec is None or run.identity.dataset == spec]
    return select_runs(list(models), runs) if models else runs


def _describe(run: RunFolder) -> Kept:
    entries = [entry.stat() for entry in run.path.iterdir() if entry.is_file()]
    when = datetime.datetime.fromtimestamp(max(stat.st_mtime for stat in entries))
    identity = run.identity
    size = sum(stat.st_size for stat in entries)
    return Kept(identity.name, identity.dataset, identity.kind, identity.examples, size, f"{when:%Y-%m-%d %H:%M}", run.path)


def _check_removable(folder: Path) -> None:
    if folder.is_symlink():
        raise InputError("is a symbolic link", where=folder, hint="Remove it yourself")
    for entry in folder.iterdir():
        if entry.is_symlink() or not entry.is_file() or not _OUTPUT_FILES.fullmatch(entry.name):
            raise InputError(
                "is not a file of stored outputs, so nothing is removed", where=entry, hint="Move it to another folder"
            )
