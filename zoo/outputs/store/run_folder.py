"""The folder of one run: which shards are missing, how it is finished, and how it is opened again."""

import functools
import math
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zoo.cards.card import Card
from zoo.core import files
from zoo.core.columns import Column
from zoo.errors import CorruptFile, InputError, ZooError, ZooWarning
from zoo.outputs.outputs import Outputs
from zoo.outputs.store import layout, shards
from zoo.outputs.store.layout import CALIBRATION, MANIFEST, SCHEMA, Identity
from zoo.outputs.store.shards import Shard


@dataclass(frozen=True)
class RunFolder:
    """Outputs of one model on one dataset, in the making or finished."""

    path: Path
    identity: Identity

    @classmethod
    def of(cls, identity: Identity, home: Path | None = None) -> "RunFolder":
        return cls(identity.folder(home), identity)

    @property
    def finished(self) -> bool:
        return (self.path / MANIFEST).is_file()

    @functools.cached_property
    def card(self) -> Card | None:
        """The card of the model that made the outputs, if they were stored with one."""
        text = self.identity.card
        return None if text is None else layout.card_from(text, self.identity.name, str(self.path / MANIFEST))

    def has(self, number: int) -> bool:
        return (self.path / layout.shard_name(number)).is_file()

    def write(self, number: int, shard: Shard) -> None:
        shards.write(self.path, self.identity, number, shard)

    def missing(self) -> list[int]:
        """The shards still to be made. A shard that is there is checked; a damaged one is set aside, and says so."""
        files.make_folder(self.path)
        files.sweep(self.path)
        absent = []
        for number in range(self.identity.shards):
            path = self.path / layout.shard_name(number)
            if path.exists() or path.is_symlink():
                try:
                    shards.read(self.path, self.identity, number, check=True)
                    continue
                except CorruptFile as error:
                    kept = files.set_aside(path)
                    warnings.warn(f"{error}; set aside as {kept.name} and made again", ZooWarning, stacklevel=2)
            absent.append(number)
        return absent

    def finish(self) -> None:
        """Write the manifest over all shards, unless the same one is there already."""
        entries, undecodable = [], []
        for number in range(self.identity.shards):
            shard = shards.read(self.path, self.identity, number, check=False)
            name = layout.shard_name(number)
            entries.append({"file": name, "rows": len(shard), "sha256": checksum(self.path / name)})
            undecodable += shard.undecodable
        value = layout.manifest(self.identity, entries, undecodable)
        try:
            same = files.read_json(self.path / MANIFEST, SCHEMA) == value
        except ZooError:
            same = False
        if not same:
            files.write_json(self.path / MANIFEST, value)

    def problems(self) -> dict[Path, str]:
        """What is wrong with which file of a finished run; every checksum is computed."""
        found = {}
        _, manifest = layout.read_manifest(self.path / MANIFEST)
        for entry in manifest["shards"]:
            path = self.path / entry["file"]
            if not path.exists() and not path.is_symlink():
                found[path] = "is missing"
            elif path.is_symlink() or not path.is_file():
                found[path] = "is not a regular file"
            elif checksum(path) != entry["sha256"]:
                found[path] = "does not match its checksum"
        return found

    def open(self, check: bool = True) -> Outputs:
        """The outputs, memory-mapped; with `check` (the default) after comparing every file with its checksum."""
        for path, problem in (self.problems() if check else {}).items():
            raise CorruptFile(f"{path}: {problem}; `zoo verify --set-aside` puts it aside, `zoo run` makes it again")
        identity, manifest = layout.read_manifest(self.path / MANIFEST)
        parts = [shards.read(self.path, identity, number, check=False) for number in range(identity.shards)]
        ids = _joined_ids(tuple(row_id for part in parts for row_id in part.ids))
        features = _column([part.embeddings for part in parts])
        values = _column([part.values for part in parts])
        if values is None or len(values) == 0:
            raise InputError(f"{identity.name}: no example of {identity.dataset} could be decoded")
        return Outputs(
            name=identity.name,
            kind=identity.kind,
            values=values,
            ids=ids,
            classes=identity.classes,
            labels=_array([part.labels for part in parts]),
            embeddings=features,
            link=identity.link,
            card=self.card,
            dataset=identity.dataset,
            path=self.path,
            targets=_array([part.targets for part in parts]),
            label_classes=identity.label_classes,
            details=manifest["identity"] | {"digest": manifest["digest"], "undecodable": manifest["undecodable"]},
        )


def read_fits(folder: Path) -> dict[str, dict[str, Any]]:
    """The temperatures that were fitted to the outputs in `folder`, each with where it came from, by its split."""
    path = folder / CALIBRATION
    if not path.exists():
        return {}
    fits = files.read_json(path, SCHEMA, limit=2**24).get("fits")
    if not isinstance(fits, dict):
        raise CorruptFile(f"{path}: field 'fits' must be a mapping; put it aside with `zoo verify --set-aside`")
    for split, record in fits.items():
        temperature = record.get("temperature") if isinstance(record, dict) else None
        if not isinstance(temperature, float) or not 0 < temperature < math.inf:
            raise CorruptFile(
                f"{path}: field 'temperature' of {split!r} is {temperature!r}, expected a positive number; put it aside "
                "with `zoo verify --set-aside` and calibrate again"
            )
        if "reading" in record:  # the name of the field before 0.2
            record["temperature_space"] = record.pop("reading")
    return fits


def save_fit(outputs: Outputs, record: dict[str, Any]) -> None:
    """Keep `record`, whose `temperature` was fitted to stored `outputs` on its `split`, beside them.

    It is a record, which nothing applies unasked: `zoo.calibrate(runs, split="stored")` does. Nothing is kept for outputs
    that are in memory only.
    """
    if outputs.path is None:
        return
    temperature = float(record["temperature"])
    if not 0 < temperature < math.inf:
        raise InputError(f"{outputs.name}: temperature is {temperature}, expected a positive number")
    fits = read_fits(outputs.path) | {record["split"]: record | {"temperature": temperature}}
    files.write_json(outputs.path / CALIBRATION, {"schema": SCHEMA, "fits": fits})


def checksum(path: Path) -> str:
    """The file's sha256, computed once per process as long as the file is not touched."""
    try:
        stat = path.stat()
    except OSError as error:
        raise ZooError(f"{path}: cannot be read: {error.strerror or error}") from error
    return _checksum(path, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)


@functools.lru_cache(maxsize=65536)
def _checksum(path: Path, *stamp: int) -> str:
    return files.sha256(path)


@functools.lru_cache(maxsize=16)
def _joined_ids(ids: tuple[str, ...]) -> np.ndarray:
    """The ids as one array, shared by all runs on the same examples."""
    array = np.array(ids)
    array.flags.writeable = False
    return array


def _column(parts: list[np.ndarray | None]) -> Column | None:
    blocks = [part for part in parts if part is not None and len(part)]
    return Column(blocks) if blocks else None


def _array(parts: list[np.ndarray | None]) -> np.ndarray | None:
    blocks = [part for part in parts if part is not None]
    return np.concatenate(blocks) if blocks else None
