"""Arrays and tables from files of other programs, read without running, trusting or unpacking more than they hold.

Nothing is unpickled. The shape an array claims is compared with the bytes that are there before anything is allocated,
and an archive that would unpack to far more than its own size is refused.
"""

import zipfile
import zlib
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from zoo import tensorfile
from zoo.errors import CorruptFile, InputError, ZooError

if TYPE_CHECKING:
    import pandas as pd

ARRAYS = (".npz", ".npy", ".safetensors")
TABLES = (".csv", ".parquet")
_PICKLES = (".pkl", ".pickle", ".pt", ".pth", ".joblib", ".bin")
# Real outputs compress a few times; only an archive made for it swells a hundred times and past a gigabyte.
_MOST_RATIO, _MOST_FREE = 100, 2**30


def check_kind_of_file(path: Path) -> None:
    """An error unless the file is there and its name ends as one that can be read."""
    if path.suffix.lower() in _PICKLES:
        raise InputError(f"{path}: a pickle could run code when read; refused: save the arrays as .npz or .safetensors")
    if path.suffix.lower() not in ARRAYS + TABLES:
        raise InputError(f"{path}: expected a file that ends in {', '.join(ARRAYS + TABLES)}")
    if not path.is_file():
        raise InputError(f"{path}: there is no such file")


def read_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a `.npz` or `.safetensors` file by name; the one of a `.npy` file under an empty name."""
    try:
        if path.suffix.lower() == ".safetensors":
            return tensorfile.read(path.resolve()).tensors
        if path.suffix.lower() == ".npy":
            with open(path, "rb") as file:
                _check_header(file, path.stat().st_size, str(path))
            return {"": np.load(path, mmap_mode="r", allow_pickle=False)}
        return _read_npz(path)
    except OSError as error:
        raise ZooError(f"{path}: cannot be read: {error.strerror or error}") from error


def read_table(path: Path) -> "pd.DataFrame":
    """The rows of a `.csv` or `.parquet` file; ids and model names stay texts."""
    import pandas as pd
    import pyarrow as pa

    try:
        if path.suffix.lower() == ".csv":
            return pd.read_csv(path, dtype={"id": str, "model": str}, keep_default_na=True)
        _check_parquet(path)
        return pd.read_parquet(path)
    except OSError as error:
        raise ZooError(f"{path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, pa.ArrowInvalid, UnicodeDecodeError) as error:  # pandas' parser errors are ValueErrors
        raise CorruptFile(f"{path}: not a readable table: {' '.join(str(error).split())}") from error


def _read_npz(path: Path) -> dict[str, np.ndarray]:
    try:
        with zipfile.ZipFile(path) as archive:
            entries = archive.infolist()
            size, promised = path.stat().st_size, sum(entry.file_size for entry in entries)
            if promised > _MOST_FREE and promised > _MOST_RATIO * size:
                raise CorruptFile(f"{path}: {size} bytes that would unpack to {promised}; refused")
            arrays: dict[str, np.ndarray] = {}
            for entry in entries:
                name = entry.filename.removesuffix(".npy")
                if name in arrays:
                    raise CorruptFile(f"{path}: array {name!r} is given twice")
                with archive.open(entry) as file:
                    _check_header(file, entry.file_size, f"{path} {name}")
                with archive.open(entry) as file:
                    arrays[name] = np.lib.format.read_array(file, allow_pickle=False)
            return arrays
    except ZooError:
        raise
    except (zipfile.BadZipFile, zlib.error, ValueError, EOFError, NotImplementedError, RuntimeError) as error:
        raise CorruptFile(f"{path}: not a readable .npz file: {error}") from error


def _check_header(file: IO[bytes], size: int, where: str) -> None:
    """An error unless an array's header promises just the bytes that follow it, of numbers or texts."""
    try:
        version = np.lib.format.read_magic(file)
        read: Any = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
        shape, _, dtype = read(file)
    except (ValueError, EOFError) as error:
        raise CorruptFile(f"{where}: not a NumPy array: {error}") from error
    if dtype.hasobject:
        raise InputError(f"{where}: holds Python objects, which could run code when read; refused: save numbers or texts")
    count = 1
    for side in shape:
        count *= int(side)
    there = size - file.tell()
    if count * dtype.itemsize != there:
        raise CorruptFile(
            f"{where}: claims shape {list(shape)} of {dtype}, {count * dtype.itemsize} bytes; {there} are there"
        )


def _check_parquet(path: Path) -> None:
    """An error where a few bytes stand for more rows than such a file could honestly hold."""
    import pyarrow.parquet as pq

    size, rows = path.stat().st_size, pq.read_metadata(path).num_rows
    if rows * 8 > _MOST_FREE and rows * 8 > _MOST_RATIO * size:
        raise CorruptFile(f"{path}: {size} bytes that would unpack to {rows} rows; refused")
