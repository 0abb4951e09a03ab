"""The folder of one run: find its missing shards, finish it, and open it."""

import functools
import math
import warnings
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

import numpy as np

from zoo.cards.card import Card
from zoo.core import files
from zoo.core.columns import Column
from zoo.core.types import TemperatureSpace
from zoo.errors import CorruptFile, InputError, ZooError, ZooWarning
from zoo.outputs.outputs import Outputs
from zoo.outputs.store import layout, shards
from zoo.outputs.store.layout import CALIBRATION, MANIFEST, SCHEMA, Identity
from zoo.outputs.store.shards import Shard

_SPACES = get_args(TemperatureSpace)


@dataclass(frozen=True)
class RunFolder:
    """Stored outputs of one model on one dataset, finished or in progress."""

    path: Path
    identity: Identity

    @classmethod
    def of(cls, identity: Identity, home: Path | None = None) -> "RunFolder":
        """Return the folder of a run."""
        return cls(identity.folder(home), identity)

    @property
    def finished(self) -> bool:
        """Whether the run has a manifest."""
        return (self.path / MANIFEST).is_file()

    @functools.cached_property
    def card(self) -> Card | None:
        """The card that was stored with the outputs, if any."""
        text = self.identity.card
        return None if text is None else layout.card_from(text, self.identity.name, str(self.path / MANIFEST))

    def has(self, number: int) -> bool:
        """Return whether the file of a shard exists."""
        return (self.path / layout.shard_name(number)).is_file()

    def write(self, number: int, shard: Shard) -> None:
        """Write a shard."""
        shards.write(self.path, self.identity, number, shard)

    def missing(self) -> list[int]:
        """Return the shards that are missing. Existing shards are checked; damaged ones are set aside with a warning."""
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
                    if path.exists() or path.is_symlink():  # else another process replaced the run
                        moved = files.set_aside(path)
                        warnings.warn(f"{error}; set aside as {moved.name}, to be written again", ZooWarning, stacklevel=2)
            absent.append(number)
        return absent

    def finish(self) -> None:
        """Write the manifest of all shards, unless the same manifest exists already."""
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
        """Return what is wrong with each damaged file of a finished run, after computing every checksum."""
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
        """Return the outputs, memory-mapped; `check` compares every file with its checksum first."""
        for path, problem in (self.problems() if check else {}).items():
            raise CorruptFile(
                problem, where=path, hint="Set it aside with `zoo verify --set-aside`, then compute it again with `zoo run`"
            )
        identity, manifest = layout.read_manifest(self.path / MANIFEST)
        parts = [shards.read(self.path, identity, number, check=False) for number in range(identity.shards)]
        values = _column([part.values for part in parts])
        if values is None or len(values) == 0:
            raise InputError(f"no image of {identity.dataset} could be decoded", where=identity.name)
        return Outputs(
            name=identity.name,
            kind=identity.kind,
            values=values,
            ids=_joined_ids(tuple(row_id for part in parts for row_id in part.ids)),
            classes=identity.classes,
            labels=_array([part.labels for part in parts]),
            embeddings=_column([part.embeddings for part in parts]),
            link=identity.link,
            card=self.card,
            dataset=identity.dataset,
            path=self.path,
            targets=_array([part.targets for part in parts]),
            label_classes=identity.label_classes,
            details=manifest["identity"] | {"digest": manifest["digest"], "undecodable": manifest["undecodable"]},
        )


def read_fits(folder: Path) -> dict[str, dict[str, Any]]:
    """Return the records of the temperatures fitted to the outputs in a folder, by the split they were fitted on."""
    path = folder / CALIBRATION
    if not path.exists():
        return {}
    try:
        return check_fits(files.read_json(path, SCHEMA, limit=2**24).get("fits"))
    except InputError as error:
        hint = "Set the file aside with `zoo verify --set-aside`, then calibrate again"
        raise CorruptFile(error.problem, expected=error.expected, where=path, hint=hint) from error


def check_fits(fits: Any) -> dict[str, dict[str, Any]]:
    """Return records of fitted temperatures by split, after checking them; older names of fields are updated."""
    if not isinstance(fits, dict):
        raise InputError("field 'fits' is not a mapping")
    for split, record in fits.items():
        if not isinstance(record, dict):
            raise InputError(where=repr(split), expected="a mapping", found=record)
        if "reading" in record:  # the field's name before 0.2
            record["temperature_space"] = record.pop("reading")
        temperature, rows = record.get("temperature"), record.get("rows", 0)
        for name, valid, expected in (
            ("temperature", isinstance(temperature, float) and 0 < temperature < math.inf, "a finite number above 0"),
            ("split", isinstance(record.get("split"), str), "text"),
            ("rows", type(rows) is int and rows >= 0, "a whole number"),
            ("temperature_space", record.get("temperature_space", "logits") in _SPACES, f"one of {', '.join(_SPACES)}"),
        ):
            if not valid:
                raise InputError(f"field {name!r} of {split!r} is {record.get(name)!r}", expected=expected)
    return fits


def save_fit(outputs: Outputs, record: dict[str, Any]) -> None:
    """Store the record of a temperature beside stored outputs; outputs in memory keep none.

    The record is applied only by `zoo.calibrate(runs, temperatures_from="stored")`.

    Args:
        outputs: the outputs that the temperature was fitted for.
        record: `temperature`, `split` (what it was fitted on) and anything else worth keeping.
    """
    if outputs.path is None:
        return
    temperature = float(record["temperature"])
    if not 0 < temperature < math.inf:
        raise InputError(where=outputs.name, argument="temperature", expected="a finite number above 0", found=temperature)
    write_fits(outputs.path, {record["split"]: record | {"temperature": temperature}})


def write_fits(folder: Path, fits: dict[str, dict[str, Any]]) -> None:
    """Add records of temperatures, by split, to those stored in a folder."""
    files.write_json(folder / CALIBRATION, {"schema": SCHEMA, "fits": read_fits(folder) | fits})


def checksum(path: Path) -> str:
    """Return the sha256 of a file, computed once per process as long as the file does not change."""
    try:
        stat = path.stat()
    except OSError as error:
        raise ZooError(f"cannot be read: {error.strerror or error}", where=path) from error
    return _checksum(path, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns, stat.st_ino)


@functools.lru_cache(maxsize=65536)
def _checksum(path: Path, *stamp: int) -> str:
    return files.sha256(path)


@functools.lru_cache(maxsize=16)
def _joined_ids(ids: tuple[str, ...]) -> np.ndarray:
    """Return ids as one array, which all runs on the same examples share."""
    array = np.array(ids)
    array.flags.writeable = False
    return array


def _column(parts: list[np.ndarray | None]) -> Column | None:
    blocks = [part for part in parts if part is not None and len(part)]
    return Column(blocks) if blocks else None


def _array(parts: list[np.ndarray | None]) -> np.ndarray | None:
    blocks = [part for part in parts if part is not None]
    return np.concatenate(blocks) if blocks else None
