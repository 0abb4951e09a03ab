"""Datasets by a name of one's own, of which there are outputs and no images: ids, labels and classes are all there is.

The first outputs stored on such a dataset define it, in `<home>/datasets/`; what comes later is held against it.
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
    """Whether a dataset could be called so: letters, digits and `. _ + -`, maybe with `:split`.

    >>> is_name("cifar10.1-v6"), is_name("mine:val"), is_name("../x")
    (True, True, False)
    """
    return _NAME.match(spec) is not None


def exists(spec: str, home: Path | None = None) -> bool:
    """Whether outputs on a dataset of that name were stored."""
    return _path(spec, home).exists()


def find(spec: str, home: Path | None = None) -> Dataset | None:
    """The dataset of that name, if outputs on it were stored."""
    path = _path(spec, home)
    if not path.exists():
        return None
    try:
        tensors, note = tensorfile.read_sealed(path)
    except CorruptFile as error:
        raise CorruptFile(f"{error}; remove it and import the outputs again") from error
    if note["schema"] > SCHEMA:
        raise InputError(f"{path}: schema {note['schema']}, this version reads up to {SCHEMA}; upgrade the package")
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
    """Keep what outputs say about the dataset they are on, unless as much is known of it already."""
    known = find(spec, home)
    if known is not None and (known.labels is not None or known.targets is not None or (labels is None and targets is None)):
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
    """The names of all such datasets."""
    found = []
    for path in sorted(home_layout.folder("datasets", home).glob("*.safetensors")):
        try:
            found.append(str(tensorfile.read_note(path, check=False)["dataset"]))
        except (ZooError, KeyError, TypeError):  # loading it by name says what is wrong with it
            continue
    return sorted(found)


def forget(spec: str, home: Path | None = None) -> bool:
    """Remove what is kept of a dataset; whether there was anything."""
    path = _path(spec, home)
    there = path.exists()
    with files.writing(path):
        path.unlink(missing_ok=True)
    return there


def _path(spec: str, home: Path | None) -> Path:
    # the digest keeps names apart that differ only in case, or in what a file's name cannot hold
    digest = hashlib.sha256(spec.encode()).hexdigest()[:8]
    return home_layout.folder("datasets", home) / f"{spec.replace(':', '-').lower()}-{digest}.safetensors"


def _no_image(spec: str, index: int) -> Image.Image:
    raise InputError(f"{spec}: is known by stored outputs alone and has no images; choose outputs that are stored on it")
