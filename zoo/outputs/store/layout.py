"""Where stored outputs are, and what identifies them. Importable without torch, so that `zoo list` is fast.

`<home>/outputs/<dataset>-<fingerprint>/<model>-<digest>/` holds `manifest.json`, the shards `00000.safetensors`, ... and,
once calibrated, `calibration.json`, the record of the fitted temperatures. The digest is that of the run's identity, so
outputs of another model, weights, transform, precision, label set or dataset are in another folder.

There is one current import per name and dataset. An import that replaces another one goes into a folder of the next
generation, `<model>-<digest>.2`, and readers take the highest generation. The replacement therefore becomes visible in one
step, when a rename puts its manifest in place, whatever happens to the old folder afterwards. Folders with a leading dot are
out of use.
"""

import dataclasses
import errno
import functools
import itertools
import json
import os
import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.cards import card as cards
from zoo.cards.card import Card
from zoo.core import files, text, typed
from zoo.core import home as home_layout
from zoo.core.types import Link
from zoo.errors import CorruptFile, InputError, ZooError
from zoo.outputs.kinds import Kind

if TYPE_CHECKING:
    from zoo.datasets import ResizeMode

SCHEMA = 1
SHARD_ROWS = 4096
MANIFEST = "manifest.json"
CALIBRATION = "calibration.json"
IMPORTED = "imported"  # in place of the dataset's fingerprint in the identity of imported outputs
RANDOM = "random:"  # how the hash of random weights begins
_UNSAFE = re.compile(r"[^A-Za-z0-9_+-]+")
_GENERATION = re.compile(r"\.(\d+)\Z")
_MAX_LISTINGS = 1000


@dataclass(frozen=True)
class Identity:
    """What identifies stored outputs. Every field except the last three enters the digest."""

    name: str
    kind: Kind
    link: Link
    classes: tuple[str, ...]
    weights: str  # checksum of the weights, or how they were made
    transform: str  # fingerprint of the preprocessing
    precision: str
    embeddings: bool
    fingerprint: str  # of the dataset
    examples: int  # of the dataset, undecodable ones included
    shard_rows: int = SHARD_ROWS
    label_classes: tuple[str, ...] | None = None  # the dataset's classes, if the model predicts others
    predicts: str = ""  # digest of the classes the model predicts, in the model's order
    dataset: str | None = None  # spec
    dataset_name: str = "unnamed"
    card: str | None = None  # text of the card

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.shard_rows < 1 or self.examples < 0:
            raise InputError(f"{self.examples} examples in shards of {self.shard_rows} rows", expected="positive numbers")

    @functools.cached_property
    def digest(self) -> str:
        """Checksum of the fields that identify the outputs."""
        excluded = ("dataset", "dataset_name", "card")
        names = [field.name for field in dataclasses.fields(self) if field.name not in excluded]
        return files.digest([json.dumps({name: getattr(self, name) for name in names}, sort_keys=True)])

    def folder(self, home: Path | None, generation: int = 1) -> Path:
        """Return the folder of the outputs; `generation` counts replacements of an import."""
        dataset = f"{slug(self.dataset_name)}-{self.fingerprint[:12]}"
        suffix = f".{generation}" if generation > 1 else ""
        return outputs_folder(home) / dataset / f"{slug(self.name)}-{self.digest[:8]}{suffix}"

    @property
    def resize_mode(self) -> "ResizeMode":
        """How the images were resized."""
        return resize_mode(self.transform)

    @property
    def shards(self) -> int:
        """Number of shards."""
        return -(-self.examples // self.shard_rows)

    def rows(self, shard: int) -> range:
        """Return the rows of the dataset that a shard holds."""
        return range(shard * self.shard_rows, min((shard + 1) * self.shard_rows, self.examples))

    def replaces(self, other: "Identity") -> bool:
        """Return whether both are imports with the same name and dataset, of which only one is current."""
        return self.fingerprint == other.fingerprint == IMPORTED and (self.name, self.dataset) == (other.name, other.dataset)


def check_name(name: str, where: str | None = None) -> None:
    """Raise an error if outputs cannot be stored under a name."""
    text.check_storable([name], where or "name")
    if not name or len(name.encode()) > 300 or not text.is_one_line(name):
        expected = "1 to 300 bytes long, without control characters"
        raise InputError(where=where, argument="name", expected=expected, found=name[:60])


def with_resize_mode(transform: str, resize_mode: "ResizeMode") -> str:
    """Return the fingerprint of a transform with a resize mode."""
    return transform if resize_mode == "evaluation" else f"{transform}-{resize_mode}"


def resize_mode(transform: str) -> "ResizeMode":
    """Return the resize mode in a fingerprint that `with_resize_mode` made."""
    return "transfer" if transform.endswith(with_resize_mode("", "transfer")) else "evaluation"


def outputs_folder(home: Path | None) -> Path:
    """Return the folder of all stored outputs."""
    return home_layout.folder("outputs", home)


def slug(name: str) -> str:
    """Return a text as a readable part of a folder name. Different texts may become equal; a digest tells them apart.

    >>> slug("open_clip:ViT-B-32/openai"), slug("../../etc")
    ('open_clip-ViT-B-32-openai', 'etc')
    """
    return _UNSAFE.sub("-", name).strip("-")[:80] or "x"


def card_text(card: Card) -> str:
    """Return a card as text without its name, since a name such as `timm:resnet18` is not valid in a card file."""
    return cards.write(dataclasses.replace(card, name="model"))


def card_from(written: str, name: str, where: str) -> Card:
    """Return the card that `card_text` wrote, under the name of its model."""
    return dataclasses.replace(cards.parse(written, where), name=name)


def shard_name(shard: int) -> str:
    """Return the file name of a shard."""
    return f"{shard:05d}.safetensors"


def manifest(identity: Identity, shards: list[dict[str, Any]], undecodable: list[dict[str, str]]) -> dict[str, Any]:
    """Return the contents of a manifest."""
    return {
        "schema": SCHEMA,
        "identity": dataclasses.asdict(identity),
        "digest": identity.digest,
        "shards": shards,
        "undecodable": undecodable,
    }


def read_manifest(path: Path) -> tuple[Identity, dict[str, Any]]:
    """Return the identity and all contents of a manifest, after checking them against its digest."""
    value = files.read_json(path, SCHEMA)
    try:
        identity = typed.build(Identity, value["identity"], str(path), "identity")
        complete = value["digest"] == identity.digest and len(value["shards"]) == identity.shards
        complete = complete and all(isinstance(image["id"], str) for image in value["undecodable"])
        named = all(entry["file"] == shard_name(i) and len(entry["sha256"]) == 64 for i, entry in enumerate(value["shards"]))
    except (KeyError, TypeError, AttributeError, InputError) as error:
        reason = f"{type(error).__name__}: {error}" if not isinstance(error, InputError) else str(error)
        raise CorruptFile(f"is not a manifest of outputs: {reason.removeprefix(f'{path}: ')}", where=path) from error
    if not (complete and named):
        raise CorruptFile("does not match its own digest", where=path)
    return identity, value


def finished_runs(
    home: Path | None, on_error: Callable[[ZooError], None], folders: str = "[!.]*/[!.]*"
) -> list[tuple[Path, Identity]]:
    """Return the folder and the identity of every finished run, including replaced imports.

    Args:
        home: where outputs are stored; default `ZOO_HOME`.
        on_error: called with the error for each unreadable manifest, whose run is left out.
        folders: pattern of the folders to look into.
    """
    for _ in range(_MAX_LISTINGS):
        runs = _list_runs(sorted(outputs_folder(home).glob(folders)), on_error)
        if runs is not None:
            return runs
    raise ZooError("changes faster than it can be listed", where=outputs_folder(home))


def _list_runs(folders: Iterable[Path], on_error: Callable[[ZooError], None]) -> list[tuple[Path, Identity]] | None:
    """Return the finished runs; None if a folder vanished, since the import that replaced it may not be in the list."""
    found, errors = [], []
    for folder in folders:
        try:
            found.append((folder, read_manifest(folder / MANIFEST)[0]))
        except ZooError as error:
            if not isinstance(error.__cause__, (FileNotFoundError, NotADirectoryError)):
                errors.append(error)
            elif not os.path.lexists(folder):
                return None
    for problem in errors:
        on_error(problem)
    return found


def current(runs: Iterable[tuple[Path, Identity]]) -> list[tuple[Path, Identity]]:
    """Return the runs without imports that a newer import of the same name and dataset has replaced."""
    newest: dict[object, tuple[Path, Identity]] = {}
    for path, identity in runs:
        key = (identity.name, identity.dataset) if identity.fingerprint == IMPORTED else path
        if key not in newest or order(path) > order(newest[key][0]):
            newest[key] = (path, identity)
    return list(newest.values())


def order(folder: Path) -> tuple[int, str]:
    """Return a key that sorts imports of one name and dataset from the oldest to the newest."""
    return generation(folder), folder.name


def generation(folder: Path) -> int:
    """Return the generation of an import, the number at the end of its folder's name.

    >>> generation(Path("resnet18-0123abcd")), generation(Path("resnet18-0123abcd.3"))
    (1, 3)
    """
    match = _GENERATION.search(folder.name)
    return int(match[1]) if match else 1


def put_aside(folder: Path, reason: str) -> Path | None:
    """Take a folder out of use by renaming it to `.REASON-N-NAME`.

    Return where it is now, or None if another process was faster.
    """
    for number in itertools.count(1):
        try:
            return folder.rename(folder.with_name(f".{reason}-{number}-{folder.name}"))
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):  # otherwise the number is taken
                with files.writing(folder):
                    raise
    raise AssertionError("unreachable")
