"""User-defined datasets: a name with ids, labels and classes, for stored outputs, but without images.

The first outputs stored on such a dataset define it, in `<home>/datasets/`. Later outputs are checked against it.
"""

import functools
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from PIL import Image

from zoo.core import files, tensorfile
from zoo.core import home as home_layout
from zoo.datasets.dataset import Dataset
from zoo.errors import CorruptFile, InputError, ZooError

SCHEMA = 1
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,119}(:[A-Za-z0-9][A-Za-z0-9._+-]{0,59})?\Z")


def is_name(spec: str) -> bool:
    """Return whether a text is a valid name: letters, digits and `. _ + -`, optionally followed by `:split`.

    >>> is_name("cifar10.1-v6"), is_name("mine:val"), is_name("../x")
    (True, True, False)
    """
    return _NAME.match(spec) is not None


def exists(spec: str, home: Path | None = None) -> bool:
    """Return whether a dataset of that name is stored."""
    return _path(spec, home).exists()


def find(spec: str, home: Path | None = None) -> Dataset | None:
    """Return the dataset of that name; None if it is not stored."""
    path = _path(spec, home)
    if not path.exists():
        return None
    try:
        tensors, note = tensorfile.read_sealed(path)
    except CorruptFile as error:
        error.hint = "Remove it and import the outputs again"
        raise
    if note["schema"] > SCHEMA:
        raise files.newer_schema(path, note["schema"], SCHEMA)
    text, ends = tensors["ids"].tobytes(), tensors["id_ends"].tolist()
    return Dataset(
        name=spec,
        spec=spec,
        ids=[text[a:b].decode() for a, b in zip([0, *ends], ends, strict=False)],
        image=functools.partial(_no_image, spec),
        fingerprint=files.sha256(path),
        classes=tuple(note["classes"]),
        labels=tensors.get("labels"),
        targets=tensors.get("targets"),
    )


def remember(
    spec: str,
    ids: Sequence[str],
    classes: Sequence[str],
    labels: np.ndarray | None = None,
    targets: np.ndarray | None = None,
    home: Path | None = None,
) -> None:
    """Store the dataset that outputs define. A stored one is replaced only to add labels.

    Args:
        spec: the dataset's name.
        ids: [N] ids of the examples.
        classes: [K] class names.
        labels: [N] class indices.
        targets: [N, K] of 0, 1 and -1 (ignored), for a multi-label dataset.
        home: where to store it; default `ZOO_HOME`.
    """
    stored = find(spec, home)
    unlabelled = labels is None and targets is None
    if stored is not None and (stored.labels is not None or stored.targets is not None or unlabelled):
        return
    encoded = [row_id.encode() for row_id in ids]
    tensors: dict[str, np.ndarray] = {
        "ids": np.frombuffer(b"".join(encoded), np.uint8),
        "id_ends": np.cumsum([len(one) for one in encoded], dtype=np.int64),
    }
    tensors |= {name: array for name, array in (("labels", labels), ("targets", targets)) if array is not None}
    path = _path(spec, home)
    files.make_folder(path.parent)
    files.write(path, tensorfile.encode(tensors, {"schema": SCHEMA, "dataset": spec, "classes": list(classes)}))


def specs(home: Path | None = None) -> list[str]:
    """Return the names of all user-defined datasets."""
    names = []
    for path in sorted(home_layout.folder("datasets", home).glob("*.safetensors")):
        try:
            names.append(str(tensorfile.read_note(path, check=False)["dataset"]))
        except (ZooError, KeyError, TypeError):  # loading the dataset by name says what is wrong
            continue
    return sorted(names)


def forget(spec: str, home: Path | None = None) -> bool:
    """Remove a dataset, and return whether it was stored."""
    path = _path(spec, home)
    stored = path.exists()
    with files.writing(path):
        path.unlink(missing_ok=True)
    return stored


def _path(spec: str, home: Path | None) -> Path:
    # The digest separates names that differ only in case, or in characters that are invalid in a file name.
    digest = hashlib.sha256(spec.encode()).hexdigest()[:8]
    return home_layout.folder("datasets", home) / f"{spec.replace(':', '-').lower()}-{digest}.safetensors"


def _no_image(spec: str, index: int) -> Image.Image:
    hint = "Choose models whose outputs on it are stored"
    raise InputError("has stored outputs only, and no images", where=spec, hint=hint)
