"""State dictionaries from files, without running anything a file might contain."""

import argparse
import pickle
import warnings
import zipfile
from collections.abc import Collection, Mapping
from pathlib import Path, PosixPath, WindowsPath
from typing import Any

import numpy as np
import torch
from torch import Tensor

from zoo.core import tensorfile
from zoo.core.foreign_files import reading
from zoo.errors import CorruptFile, InputError

_WRAPPERS = ("state_dict_ema", "model_ema", "state_dict", "model")  # averaged weights before plain ones
_MOST_PER_BYTE = 1.1  # a checkpoint's archive is stored, not compressed
# What training scripts save beside the weights (their options, the best score so far) and what making it can do no harm.
_INERT: list[Any] = [
    argparse.Namespace, PosixPath, WindowsPath, np.float64(0).__reduce__()[0], np.dtype,
    *(type(np.dtype(kind)) for kind in ("f4", "f8", "i8")),
]  # fmt: skip


def read(path: Path, name: str) -> dict[str, Tensor]:
    """The tensors of a `.safetensors` file or of a torch checkpoint; `name` is the model's in error messages.

    A torch checkpoint is a pickle; it is read with `weights_only`, so one that holds anything but tensors and plain records
    is refused.
    """
    kind, path = path.suffix, path.resolve()  # the hub's cache is made of links to files without an ending
    if kind == ".safetensors":
        return as_torch(tensorfile.read(path).tensors)
    return unwrap(_read_torch(path, name), f"{name}: {path}")


def as_torch(arrays: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
    """The arrays of a memory-mapped file as tensors that share its memory."""
    with warnings.catch_warnings():
        # The map is read-only, and so are we: loading a state dictionary copies.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return {key: torch.from_numpy(values) for key, values in arrays.items()}


def unwrap(value: Any, where: str) -> dict[str, Tensor]:
    """The state dictionary inside what training scripts save around it, without the prefix of data parallelism."""
    for key in _WRAPPERS:
        if isinstance(value, dict) and isinstance(value.get(key), dict):
            value = value[key]
            break
    if not isinstance(value, dict) or not value or not all(isinstance(item, Tensor) for item in value.values()):
        raise InputError(f"{where}: expected a state dictionary of tensors, found {type(value).__name__}")
    averages = {key: item for key, item in value.items() if key != "n_averaged"}  # of torch's AveragedModel: a count
    return {str(key).removeprefix("module."): item for key, item in averages.items()}


def without_prefix(state: dict[str, Tensor], keys: Collection[str]) -> dict[str, Tensor]:
    """A state dictionary whose keys are those of a network, where it was saved inside others: `model.module.fc.weight`.

    >>> list(without_prefix({"model.fc.weight": torch.zeros(1)}, ["fc.weight"]))
    ['fc.weight']
    """
    own = {key.partition(".")[0] for key in keys}
    while len(outer := {key.partition(".")[0] for key in state}) == 1 and not outer & own:
        if not all("." in key for key in state):
            break
        state = {key.partition(".")[2]: values for key, values in state.items()}
    return state


def _read_torch(path: Path, name: str) -> Any:
    with reading(path, f"checkpoint of {name}"):
        archived = zipfile.is_zipfile(path)
        if archived:
            with zipfile.ZipFile(path) as archive:
                promised = sum(entry.file_size for entry in archive.infolist())
            if promised > _MOST_PER_BYTE * path.stat().st_size + 2**16:
                raise CorruptFile(f"{name}: {path} claims to unpack to {promised} bytes from {path.stat().st_size}; refused")
        try:
            with warnings.catch_warnings(), torch.serialization.safe_globals(_INERT):
                # torch remarks on pickles it did not write itself; they are read all the same, or refused below.
                warnings.filterwarnings("ignore", message="Detected pickle protocol")
                return torch.load(path, map_location="cpu", weights_only=True, mmap=archived)
        except pickle.UnpicklingError as error:
            raise InputError(
                f"{name}: {path} is a pickle that holds more than tensors, which could run code; refused: save its state "
                "dictionary with safetensors"
            ) from error
