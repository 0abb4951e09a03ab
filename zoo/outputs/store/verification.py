"""Re-check every checksum: of every stored run, of trained weights, and of every other file of ours in the home."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from zoo.core import files, tensorfile
from zoo.core import home as home_layout
from zoo.errors import CorruptFile, ZooError
from zoo.outputs.store import layout, shards
from zoo.outputs.store.layout import CALIBRATION, MANIFEST, SCHEMA
from zoo.outputs.store.run_folder import RunFolder, read_fits

State = Literal["ok", "unfinished", "corrupt"]
_SEALED = (  # beside the outputs: weights, heads, checkpoints, and what is remembered of models, datasets and cards
    "weights/*/*.safetensors",
    "heads/*.safetensors", "datasets/*.safetensors", "models/*.json", "fingerprints/*.json", "cache/*.json", "hashes.json",
)  # fmt: skip


@dataclass(frozen=True)
class Checked:
    """The state of a run, or of one file that is no dataset's: weights, heads, what is remembered of models.

    `unfinished` is no fault: what is whole is kept, and the same command goes on from there.
    """

    path: Path
    model: str
    dataset: str | None
    state: State
    files: int  # whole ones
    problems: dict[Path, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Verification:
    """What `verify` found."""

    runs: list[Checked]
    set_aside: dict[Path, Path] = field(default_factory=dict)  # damaged file -> where it went

    @property
    def clean(self) -> bool:
        return all(run.state != "corrupt" for run in self.runs)

    @property
    def problems(self) -> dict[Path, str]:
        return {path: problem for run in self.runs for path, problem in run.problems.items()}


def verify(home: Path | str | None = None, set_aside: bool = False) -> Verification:
    """Compute the checksum of every stored file and compare; with `set_aside` damaged ones are renamed out of the way.

    A run whose damaged shards were set aside is completed by running it again: only those shards are computed.

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
        runs = [run for run in checked if run is not None]
    moved = {}
    for run in runs if set_aside else []:
        for path in run.problems:
            if path.exists() or path.is_symlink():
                moved[path] = files.set_aside(path)
    return Verification(runs, moved)


def _check(folder: Path) -> Checked | None:
    found = sorted(folder.glob("*.safetensors"))
    manifest = folder / MANIFEST
    problems: dict[Path, str] = {}
    model, dataset = folder.name, None
    if manifest.exists():
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
    state: State = "ok" if manifest.exists() else "unfinished"
    whole = len([path for path in found if path not in problems])
    return Checked(folder, model, dataset, "corrupt" if problems else state, whole, problems)


def _check_sealed(path: Path) -> Checked | None:
    """Nothing of a file that is whole: there can be hundreds."""
    try:
        if path.suffix == ".json":
            files.read_json(path, SCHEMA)
        else:
            tensorfile.read_sealed(path)
    except ZooError as error:
        return Checked(path.parent, path.name, None, "corrupt", 0, {path: _reason(error, path)})
    return None


def _reason(error: ZooError, path: Path) -> str:
    return str(error).removeprefix(f"{path}").lstrip(": ")
