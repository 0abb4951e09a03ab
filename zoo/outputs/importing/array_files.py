"""Arrays from files of other programs, read without running, trusting or unpacking more than they hold.

Nothing is unpickled. The shape an array claims is compared with the bytes that are there before anything is allocated,
and an archive that would unpack to far more than its own size is refused.
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
_MOST_EMPTY = 2**20  # rows of nothing
_READERS: dict[tuple[int, int], Any] = {
    (1, 0): np.lib.format.read_array_header_1_0,
    (2, 0): np.lib.format.read_array_header_2_0,
}


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a `.npz` or `.safetensors` file by name; the one of a `.npy` file under an empty name."""
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
                raise CorruptFile(f"{path}: array {name!r} is given twice")
            with archive.open(entry) as file:
                _check_header(file, entry.file_size, f"{path} {name}")
            with archive.open(entry) as file:
                arrays[name] = np.lib.format.read_array(file, allow_pickle=False)
    return arrays


def _check_header(file: IO[bytes], size: int, where: str) -> None:
    """An error unless an array's header promises just the bytes that follow it, of numbers or texts."""
    try:
        version = np.lib.format.read_magic(file)
        if version not in _READERS:
            raise ValueError(f"format version {version[0]}.{version[1]}, expected 1.0 or 2.0")
        shape, _, dtype = _READERS[version](file)
    except (ValueError, EOFError, TokenError, SyntaxError, TypeError, RecursionError, MemoryError) as error:
        raise CorruptFile(f"{where}: not a NumPy array: {' '.join(str(error).split())[:200]}") from error
    if dtype.hasobject:
        raise InputError(f"{where}: holds Python objects, which could run code when read; refused: save numbers or texts")
    if dtype.kind not in "biufUS" or dtype.itemsize == 0:
        raise InputError(f"{where}: holds {dtype}, expected numbers or texts")
    if min(shape, default=0) < 0 or (0 in shape and max(shape) > _MOST_EMPTY):
        raise CorruptFile(f"{where}: claims shape {list(shape)}, which holds nothing")
    claimed, there = math.prod(map(int, shape)) * dtype.itemsize, size - file.tell()
    if claimed != there:
        raise CorruptFile(f"{where}: claims shape {list(shape)} of {dtype}, {claimed} bytes; {there} are there")
