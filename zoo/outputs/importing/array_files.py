"""Arrays from files of other programs. No file is unpickled, and no claim of a file is trusted.

The shape that an array claims is compared with the size of the file before anything is allocated, and an archive that would
unpack to far more than its size is refused.
"""

import math
import zipfile
from pathlib import Path
from tokenize import TokenError
from typing import IO, Any

import numpy as np

from zoo.core import tensorfile
from zoo.core.foreign_files import check_unpacked, reading
from zoo.errors import CorruptFile, InputError

SUFFIXES = (".npz", ".npy", ".safetensors")
_MAX_EMPTY_ROWS = 2**20
_HEADER_READERS: dict[tuple[int, int], Any] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """Return the arrays of a `.npz` or `.safetensors` file by name; the array of a `.npy` file has an empty name."""
    suffix = path.suffix.lower()
    with reading(path, f"{suffix} file"):
        if suffix == ".safetensors":
            return tensorfile.read(path.resolve()).tensors
        if suffix == ".npy":
            with open(path, "rb") as file:
                _check_header(file, path.stat().st_size, str(path))
            return {"": np.load(path, mmap_mode="r", allow_pickle=False)}
        return _read_npz(path)


def _read_npz(path: Path) -> dict[str, np.ndarray]:
    arrays: dict[str, np.ndarray] = {}
    with zipfile.ZipFile(path) as archive:
        entries = archive.infolist()
        check_unpacked(path, sum(entry.file_size for entry in entries))
        for entry in entries:
            name = entry.filename.removesuffix(".npy")
            if name in arrays:
                raise CorruptFile(f"has two arrays {name!r}", where=path)
            with archive.open(entry) as file:
                _check_header(file, entry.file_size, f"{path}: {name}")
            with archive.open(entry) as file:
                arrays[name] = np.lib.format.read_array(file, allow_pickle=False)
    return arrays


def _check_header(file: IO[bytes], size: int, where: str) -> None:
    """Raise an error unless the header of an array claims exactly the bytes that follow it, as numbers or texts."""
    try:
        version = np.lib.format.read_magic(file)
        if version not in _HEADER_READERS:
            raise ValueError(f"format version {version[0]}.{version[1]}, expected 1.0 or 2.0")
        shape, _, dtype = _HEADER_READERS[version](file)
    except (ValueError, EOFError, TokenError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise CorruptFile(f"is not a NumPy array: {' '.join(str(error).split())[:200]}", where=where) from error
    if dtype.hasobject:
        raise InputError(
            "holds Python objects, which could run code when read", where=where, hint="Save numbers or texts instead"
        )
    if dtype.kind not in "biufUS" or dtype.itemsize == 0:
        raise InputError(f"holds {dtype}", where=where, expected="numbers or texts")
    if min(shape, default=0) < 0 or (0 in shape and max(shape) > _MAX_EMPTY_ROWS):
        raise CorruptFile(f"claims shape {list(shape)}, which holds nothing", where=where)
    claimed, present = math.prod(map(int, shape)) * dtype.itemsize, size - file.tell()
    if claimed != present:
        raise CorruptFile(f"claims shape {list(shape)} of {dtype}, {claimed} bytes; it holds {present} bytes", where=where)
