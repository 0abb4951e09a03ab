"""Datasets of the Hugging Face hub: from this machine's cache, or downloaded when the hub answers."""

import functools
import os
import re
import socket
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from PIL import Image

from zoo.datasets import fingerprints, tables
from zoo.datasets.dataset import Dataset
from zoo.errors import InputError, ZooError

_PATIENCE = 0.5  # seconds for the one question whether the hub answers at all
_OFFLINE = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")


def load(repo: str, split: str, spec: str, name: str | None = None) -> Dataset:
    """One split of a repository of images; ids are row numbers."""
    check_reachable(repo, spec)
    import datasets

    try:
        table = datasets.load_dataset(repo, split=split)
    except Exception as error:  # the library raises whatever its readers raise
        raise ZooError(f"{spec}: `datasets` cannot load {repo} split {split}: {' '.join(str(error).split())}") from error
    image_column, label_column = tables.image_and_label(table.column_names, spec)
    truth = tables.Truth()
    if label_column is not None:
        feature = table.features[label_column]
        names = getattr(getattr(feature, "feature", feature), "names", None)
        truth = tables.truth(table[label_column][:], names, f"{spec} {label_column}")
    stored = [Path(entry["filename"]) for entry in table.cache_files]
    root = Path(os.path.commonpath([path.parent for path in stored]))
    return Dataset(
        name=name or repo.rpartition("/")[2],
        spec=spec,
        ids=[str(row) for row in range(len(table))],
        image=functools.partial(_image, table.cast_column(image_column, datasets.Image(decode=False)), image_column),
        fingerprint=fingerprints.of_files(root, [path.relative_to(root).as_posix() for path in stored], extra=[split]),
        classes=truth.classes,
        labels=truth.labels,
        targets=truth.targets,
    )


def check_reachable(repo: str, spec: str) -> None:
    """An error, within a second and before the slow library is imported, if the repository is neither here nor reachable."""
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", repo):
        raise InputError(f"{spec}: {repo!r} is not the name of a hub repository; expected hf:OWNER/NAME[:split]")
    if any(folder.exists() for folder in cached(repo)):
        return
    offline = [name for name in _OFFLINE if os.environ.get(name, "0").lower() not in ("", "0", "false", "no")]
    reason = f"{offline[0]} is set" if offline else "" if _answers() else "the hub does not answer"
    if reason:
        searched = ", ".join(str(folder) for folder in cached(repo))
        raise ZooError(
            f"{spec}: {repo} is not in the Hugging Face cache ({searched}) and {reason}; download it where there is a "
            f"network (`hf download --repo-type dataset {repo}`), or put it into a folder named by ZOO_DATA"
        )


def cached(repo: str) -> list[Path]:
    """Where the hub's libraries would keep a repository on this machine."""
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    hub = Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
    prepared = Path(os.environ.get("HF_DATASETS_CACHE") or home / "datasets")
    flat = repo.replace("/", "___")
    return list(dict.fromkeys([hub / f"datasets--{repo.replace('/', '--')}", prepared / flat, prepared / flat.lower()]))


def _answers() -> bool:
    address = urlsplit(os.environ.get("HF_ENDPOINT") or "https://huggingface.co")
    try:
        socket.create_connection((address.hostname, address.port or 443), _PATIENCE).close()
    except OSError:
        return False
    return True


def _image(table: Any, column: str, row: int) -> Image.Image:
    value = table[row][column]
    return tables.image(value, row, None)
