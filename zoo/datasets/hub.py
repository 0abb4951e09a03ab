"""Datasets of the Hugging Face hub: from this machine's cache, or downloaded if the hub can be reached."""

import functools
import os
import re
from pathlib import Path
from typing import Any

from PIL import Image

from zoo.core import network
from zoo.datasets import fingerprints, tables
from zoo.datasets.dataset import Dataset
from zoo.errors import InputError, ZooError

_OFFLINE_SETTINGS = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")


def load(repo: str, split: str, spec: str, name: str | None = None) -> Dataset:
    """Return one split of a repository of images. Ids are row numbers.

    Args:
        repo: the repository, OWNER/NAME.
        split: the hub's name of the split.
        spec: the spec of the dataset.
        name: the dataset's name; default: the last part of `repo`.
    """
    check_reachable(repo, spec)
    import datasets

    try:
        table = datasets.load_dataset(repo, split=split)
    except Exception as error:  # the library raises whatever its readers raise
        reason = " ".join(str(error).split())
        raise ZooError(f"`datasets` cannot load split {split} of {repo}: {reason}", where=spec) from error
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
    """Raise an error within a second, before the slow library is imported, if a repository is not available."""
    if not re.fullmatch(r"[\w.-]+(/[\w.-]+)?", repo):
        problem = f"{repo!r} is not the name of a hub repository"
        raise InputError(problem, where=spec, expected="hf:OWNER/NAME[:split]")
    folders = cached(repo)
    if any(folder.exists() for folder in folders):
        return
    offline = [name for name in _OFFLINE_SETTINGS if os.environ.get(name, "0").lower() not in ("", "0", "false", "no")]
    endpoint = os.environ.get("HF_ENDPOINT") or "https://huggingface.co"
    if not offline and network.is_reachable(endpoint):
        return
    searched = ", ".join(str(folder) for folder in folders)
    reason = f"{offline[0]} is set" if offline else f"{endpoint} does not answer"
    raise ZooError(
        f"{repo} is not in the Hugging Face cache ({searched}) and {reason}",
        where=spec,
        hint=f"Download it on a machine with a network (`hf download --repo-type dataset {repo}`), or put it into a folder "
        "of ZOO_DATA",
    )


def cached(repo: str) -> list[Path]:
    """Return the folders in which the hub's libraries store a repository on this machine."""
    home = Path(os.environ.get("HF_HOME") or Path.home() / ".cache" / "huggingface")
    hub = Path(os.environ.get("HF_HUB_CACHE") or home / "hub")
    prepared = Path(os.environ.get("HF_DATASETS_CACHE") or home / "datasets")
    flat = repo.replace("/", "___")
    return list(dict.fromkeys([hub / f"datasets--{repo.replace('/', '--')}", prepared / flat, prepared / flat.lower()]))


def _image(table: Any, column: str, row: int) -> Image.Image:
    return tables.image(table[row][column], row, None)
