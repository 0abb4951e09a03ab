"""Where things are kept and what is assumed: four environment variables, read when asked for."""

import os
from pathlib import Path

from zoo.errors import InputError


def home() -> Path:
    """`ZOO_HOME`: trained weights, the user's cards, stored outputs. Default: `~/.cache/zoo`."""
    return Path(os.environ.get("ZOO_HOME") or Path.home() / ".cache" / "zoo").expanduser()


def default_dataset() -> str:
    """`ZOO_DATASET`: the training dataset of a recipe name that has no `.dataset`. Default: `digits`."""
    return os.environ.get("ZOO_DATASET") or "digits"


def data_folders() -> list[Path]:
    """`ZOO_DATA`: folders (separated as in PATH) searched for known datasets, before the Hugging Face cache."""
    return [Path(part).expanduser() for part in os.environ.get("ZOO_DATA", "").split(os.pathsep) if part]


def autotrain() -> bool:
    """`ZOO_AUTOTRAIN`: whether a missing recipe of the embedded dataset is trained on first load. Default: yes."""
    value = os.environ.get("ZOO_AUTOTRAIN", "1").lower()
    if value not in ("0", "1", "true", "false", "yes", "no"):
        raise InputError(f"ZOO_AUTOTRAIN: expected 0 or 1, found {value!r}")
    return value in ("1", "true", "yes")
