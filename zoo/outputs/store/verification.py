"""Verify every checksum: of stored runs, trained weights, all other files in the home, and shipped files."""

import functools
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from zoo.cards import card_index
from zoo.core import files, tensorfile
from zoo.core import home as home_layout
from zoo.errors import CorruptFile, ZooError
from zoo.outputs.store import layout, shards
from zoo.outputs.store.layout import CALIBRATION, MANIFEST, SCHEMA
from zoo.outputs.store.run_folder import RunFolder, read_fits
from zoo.outputs.stored_names import REINSTALL

State = Literal["ok", "unfinished", "corrupt"]
_SEALED = (  # files outside of outputs/ that carry their own checksum: weights, heads, checkpoints, caches
    "weights/*/*.safetensors",
    "heads/*.safetensors", "datasets/*.safetensors", "models/*.json", "fingerprints/*.json", "cache/*.json", "hashes.json",
)  # fmt: skip


@dataclass(frozen=True)
class Checked:
    """The state of a stored run, or of a single damaged file such as weights.

    An `unfinished` run is not damaged: the same command completes it.
    """

    path: Path
    model: str
    dataset: str | None
    state: State
    files: int  # number of undamaged files
    problems: dict[Path, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Verification:
    """The result of `verify`."""

    runs: list[Checked]
    set_aside: dict[Path, Path] = field(default_factory=dict)  # damaged file -> its new path

    @property
    def clean(self) -> bool:
        """Whether no file is damaged."""
        return all(run.state != "corrupt" for run in self.runs)

    @property
    def problems(self) -> dict[Path, str]:
        """What is wrong with each damaged file."""
        return {path: problem for run in self.runs for path, problem in run.problems.items()}


def verify(home: Path | str | None = None, set_aside: bool = False) -> Verification:
    """Compute and compare the checksum of every stored and shipped file.

    A run whose damaged shards were set aside is completed by running it again: only those shards are computed.

    Args:
        home: the home to verify; default `ZOO_HOME`.
        set_aside: whether to rename damaged files, so that they are no longer used. Shipped files are never renamed.

    >>> import tempfile
    >>> from zoo import Outputs, store
    >>> home = Path(tempfile.mkdtemp())
    >>> outputs = store.save(Outputs.from_arrays("a", predictions=[0, 1], labels=[0, 1]), home)
    >>> verify(home).clean
    True
    >>> shard = outputs.path / "00000.safetensors"
    >>> cut = shard.write_bytes(shard.read_bytes()[:-1])
    >>> found = verify(home, set_aside=True)
    >>> [(run.model, run.state) for run in found.runs], shard in found.set_aside
    ([('a', 'corrupt')], True)
    """
    home = home_layout.root(home)
    folders = [path for path in sorted(layout.outputs_folder(home).glob("[!.]*/[!.]*")) if path.is_dir()]
    others = [path for pattern in _SEALED for path in sorted(home.glob(pattern))]
    with ThreadPoolExecutor(4) as pool:
        checked = (*pool.map(_check, folders), *pool.map(_check_sealed, others))
        local = [run for run in checked if run is not None]
        shipped = [run for run in pool.map(_check_shipped, _shipped_files()) if run is not None]
    moved = {}
    for run in local if set_aside else []:
        for path in run.problems:
            if path.exists() or path.is_symlink():
                moved[path] = files.set_aside(path)
    return Verification(local + shipped, moved)


def _check(folder: Path) -> Checked | None:
    try:
        found = sorted(folder.glob("*.safetensors"))
    except FileNotFoundError:  # replaced in the meantime
        return None
    manifest = folder / MANIFEST
    finished = manifest.exists()
    problems: dict[Path, str] = {}
    model, dataset = folder.name, None
    if finished:
        try:
            identity, _ = layout.read_manifest(manifest)
            model, dataset = identity.name, identity.dataset
            problems |= RunFolder(folder, identity).problems()
        except ZooError as error:
            problems[manifest] = _reason(error, manifest)
    elif not found:
        return None
    else:
        for path in found:
            try:
                shards.check_alone(path)
            except CorruptFile as error:
                problems[path] = _reason(error, path)
    try:
        read_fits(folder)
    except ZooError as error:
        problems[folder / CALIBRATION] = _reason(error, folder / CALIBRATION)
    if not folder.exists():  # replaced in the meantime
        return None
    state: State = "ok" if finished else "unfinished"
    undamaged = len([path for path in found if path not in problems])
    return Checked(folder, model, dataset, "corrupt" if problems else state, undamaged, problems)


def _check_sealed(path: Path) -> Checked | None:
    """Return None for an undamaged file, since there can be hundreds."""
    try:
        if path.suffix == ".json":
            files.read_json(path, SCHEMA)
        else:
            tensorfile.read_sealed(path)
    except ZooError as error:
        return _damaged(path, _reason(error, path))
    return None


def _shipped_files() -> Iterator[tuple[Path, str | None]]:
    """Yield every shipped file of weights with the checksum on its card, and every shipped file of outputs with None."""
    folder = card_index.shipped_folder()
    for name, card in card_index.shipped().items():
        for path in (folder / f"{name}.safetensors", folder / f"{name}.head.safetensors"):
            if card.sha256 is not None and path.exists():
                yield path, card.sha256
    for path in folder.glob("*.outputs.safetensors"):
        yield path, None


def _check_shipped(shipped: tuple[Path, str | None]) -> Checked | None:
    path, sha256 = shipped
    stat = path.stat()
    problem = _shipped_problem(path, sha256, stat.st_size, stat.st_mtime_ns)
    return None if problem is None else _damaged(path, f"{problem}. {REINSTALL}")


@functools.lru_cache(maxsize=4096)
def _shipped_problem(path: Path, sha256: str | None, *stamp: int) -> str | None:
    """Return what is wrong with a shipped file, computed once per process as long as the file does not change."""
    try:
        if sha256 is None:
            tensorfile.read_note(path.resolve())
        elif files.sha256(path) != sha256:
            return "does not match the checksum on its card"
    except ZooError as error:
        return _reason(error, path.resolve())
    return None


def _damaged(path: Path, problem: str) -> Checked:
    return Checked(path.parent, path.name, None, "corrupt", 0, {path: problem})


def _reason(error: ZooError, path: Path) -> str:
    return str(error).removeprefix(f"{path}").lstrip(": ")
