"""State dictionaries from files, read without running code that a file may contain."""

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

_WRAPPERS = ("state_dict_ema", "model_ema", "state_dict", "model")  # keys of the weights; averaged weights come first
_MAX_UNPACKED_PER_BYTE = 1.1  # the archive of a checkpoint is not compressed
# Types that training scripts save beside the weights (options, the best score so far) and that are safe to construct.
_SAFE_TYPES: list[Any] = [
    argparse.Namespace, PosixPath, WindowsPath, np.float64(0).__reduce__()[0], np.dtype,
    *(type(np.dtype(kind)) for kind in ("f4", "f8", "i8")),
]  # fmt: skip


def read(path: Path, name: str) -> dict[str, Tensor]:
    """Return the tensors of a `.safetensors` file or a torch checkpoint.

    A torch checkpoint is a pickle. It is read with `weights_only`, so one that contains more than tensors and plain records
    is refused.

    Args:
        path: the file.
        name: the model's name, for errors.
    """
    suffix, path = path.suffix, path.resolve()  # the hub's cache consists of links to files without a suffix
    if suffix == ".safetensors":
        return as_torch(tensorfile.read(path).tensors)
    return unwrap(_read_torch(path, name), f"{name}: {path}")


def as_torch(arrays: Mapping[str, np.ndarray]) -> dict[str, Tensor]:
    """Return the arrays of a memory-mapped file as tensors that share its memory."""
    with warnings.catch_warnings():
        # The map is read-only, and loading a state dictionary copies.
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return {key: torch.from_numpy(values) for key, values in arrays.items()}


def unwrap(value: Any, where: str) -> dict[str, Tensor]:
    """Return the state dictionary inside a checkpoint, without the key prefix that data parallelism adds.

    Without one of the usual keys, it is the only entry that holds tensors by name (`net`, `model_state_dict`, ...).
    """
    inner = {key: item for key, item in value.items() if isinstance(item, dict)} if isinstance(value, dict) else {}
    usual = [key for key in _WRAPPERS if key in inner]
    others = [key for key, item in inner.items() if _is_state_dict(item)]
    if usual or len(others) == 1:
        value = inner[(usual or others)[0]]
    if not _is_state_dict(value):
        held = ", ".join(map(str, list(value)[:8])) if isinstance(value, dict) and value else type(value).__name__
        raise InputError(f"holds {held}", where=where, expected="a state dictionary of tensors")
    # torch's AveragedModel adds the counter `n_averaged`.
    return {str(key).removeprefix("module."): item for key, item in value.items() if key != "n_averaged"}


def _is_state_dict(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and all(isinstance(item, Tensor) for item in value.values())


def without_prefix(state: dict[str, Tensor], keys: Collection[str]) -> dict[str, Tensor]:
    """Return a state dictionary without the prefix of enclosing modules: `model.module.fc.weight` becomes `fc.weight`.

    Args:
        state: the state dictionary.
        keys: the keys that the network has.

    >>> list(without_prefix({"model.fc.weight": torch.zeros(1)}, ["fc.weight"]))
    ['fc.weight']
    """
    modules = {key.partition(".")[0] for key in keys}
    while len(outer := {key.partition(".")[0] for key in state}) == 1 and not outer & modules:
        if not all("." in key for key in state):
            break
        state = {key.partition(".")[2]: values for key, values in state.items()}
    return state


def _read_torch(path: Path, name: str) -> Any:
    with reading(path, f"checkpoint of {name}"):
        archived = zipfile.is_zipfile(path)
        if archived:
            with zipfile.ZipFile(path) as archive:
                unpacked = sum(entry.file_size for entry in archive.infolist())
            packed = path.stat().st_size
            if unpacked > _MAX_UNPACKED_PER_BYTE * packed + 2**16:
                raise CorruptFile(f"{packed} bytes would unpack to {unpacked}", where=f"{name}: {path}")
        try:
            with warnings.catch_warnings(), torch.serialization.safe_globals(_SAFE_TYPES):
                # torch warns about pickles that it did not write. They are read if they hold tensors only, else refused.
                warnings.filterwarnings("ignore", message="Detected pickle protocol")
                return torch.load(path, map_location="cpu", weights_only=True, mmap=archived)
        except pickle.UnpicklingError as error:
            raise InputError(
                "is a pickle that contains more than tensors and could run code, so it is not read",
                where=f"{name}: {path}",
                hint="Save its state dictionary with safetensors",
            ) from error
