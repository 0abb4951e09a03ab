"""Tables from files of other programs: csv, tsv, json, jsonl, parquet, feather; text ones may be gzipped."""

import gzip
import io
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import numpy as np

from zoo.core import files
from zoo.core.foreign_files import check_unpacked, reading
from zoo.errors import InputError
from zoo.outputs.importing import column_names

if TYPE_CHECKING:
    import pandas as pd

_TEXT = (".csv", ".tsv", ".json", ".jsonl")
SUFFIXES = (*_TEXT, *(f"{suffix}.gz" for suffix in _TEXT), ".parquet", ".feather")
_CELL = 8  # bytes at least that a row stands for
_HEADER = 2**22  # bytes; 21,000 classes with their names are a tenth of it
_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?\s*", re.IGNORECASE)


def suffix_of(path: Path) -> str:
    """How a file's name ends, `.gz` included.

    >>> suffix_of(Path("a.v2.CSV.gz")), suffix_of(Path("b.npz"))
    ('.csv.gz', '.npz')
    """
    ends = path.name.lower()
    return next((suffix for suffix in sorted(SUFFIXES, key=len, reverse=True) if ends.endswith(suffix)), path.suffix.lower())


def read_table(path: Path) -> "pd.DataFrame | dict[str, np.ndarray]":
    """The rows of a table, ids and model names as texts; of a JSON object the arrays in it, by name."""
    suffix = suffix_of(path)
    with reading(path, "table"):
        if suffix == ".parquet":
            return _read_parquet(path)
        if suffix == ".feather":
            return _read_feather(path)
        with _opened(path, suffix) as file:
            if suffix.startswith((".csv", ".tsv")):
                return _read_separated(file, suffix)
            if suffix.startswith(".jsonl"):
                return _frame([files.parse_json(line, f"{path} line {n}") for n, line in enumerate(file, 1) if line.strip()])
            return _of_json(files.parse_json(file.read(), str(path)))


def _read_separated(file: IO[bytes], suffix: str) -> "pd.DataFrame":
    import pandas as pd

    head: bytes = file.peek(_HEADER).partition(b"\n")[0]  # type: ignore[attr-defined]
    separator = "\t" if suffix.startswith(".tsv") else max(",;\t", key=lambda mark: head.count(mark.encode()))
    cells = pd.read_csv(io.BytesIO(head), sep=separator, header=None, dtype=str, keep_default_na=False).iloc[0].tolist()
    if _is_a_row(cells):
        return pd.read_csv(file, sep=separator, header=None)  # as np.savetxt writes: numbers and no header
    texts = {name: str for name in cells if column_names.meaning(name) in ("ids", "model")}
    return pd.read_csv(file, sep=separator, dtype=texts, low_memory=False)


def _is_a_row(cells: list[str]) -> bool:
    """Whether the first line is numbers of an example rather than names; `0,1,2,...` are names of classes."""
    numbers = all(_NUMBER.fullmatch(cell) for cell in cells)
    return numbers and cells != [str(k) for k in range(len(cells))]


def _read_parquet(path: Path) -> "pd.DataFrame":
    import pyarrow.parquet as pq

    with pq.ParquetFile(path) as file:
        check_unpacked(path, file.metadata.num_rows * _CELL)
        # What pandas once noted about its index is not needed, and may be damaged.
        return _pandas(file.read())


def _read_feather(path: Path) -> "pd.DataFrame":
    import pyarrow.feather as feather

    return _pandas(feather.read_table(path))


def _pandas(table: Any) -> "pd.DataFrame":
    import pyarrow as pa

    table.validate(full=True)  # a damaged offset or letter is met here, not wherever the column is first used
    for number, column in enumerate(table.schema):
        if pa.types.is_dictionary(column.type):  # a categorical of pandas
            table = table.set_column(number, column.name, table.column(number).cast(column.type.value_type))
    return table.to_pandas(ignore_metadata=True)


def _of_json(value: Any) -> "pd.DataFrame | dict[str, np.ndarray]":
    if isinstance(value, list):
        return _frame(value)
    if isinstance(value, dict):
        return {name: as_array(part) for name, part in flat(value)}
    raise InputError("expected a list of rows or an object of arrays")


def flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Arrays by name; what stands inside a model's own mapping is called `MODEL/NAME`."""
    for name, part in value.items():
        if isinstance(part, Mapping):
            yield from flat(part, f"{prefix}{name}/")
        else:
            yield f"{prefix}{name}", part


def as_array(values: Any) -> Any:
    """Lists as an array; what is ragged or of mixed kinds stays Python's objects, for whoever uses it to refuse."""
    if hasattr(values, "detach"):  # a tensor is taken as it is
        return values
    if np.ma.is_masked(values):
        raise InputError(
            f"a masked array with {np.ma.count_masked(values)} values missing; fill them in, or leave the rows out"
        )
    try:
        return np.asarray(values)
    except ValueError:  # rows of different lengths
        ragged = np.empty(len(values), object)
        ragged[:] = values
        return ragged


def _frame(rows: list[Any]) -> "pd.DataFrame":
    import pandas as pd

    if any(not isinstance(row, dict) for row in rows):
        raise InputError(f"expected an object for every row, found {json.dumps(rows[0])[:40] if rows else 'none'}")
    return pd.DataFrame.from_records(rows)


@contextmanager
def _opened(path: Path, suffix: str) -> Iterator[IO[bytes]]:
    if not suffix.endswith(".gz"):
        with open(path, "rb", buffering=_HEADER) as file:
            yield file
        return
    with gzip.open(path, "rb") as unpacked:
        seen = 0
        while piece := unpacked.read(2**20):  # unpacking takes a moment, a parser of as much minutes and gigabytes
            seen += len(piece)
            check_unpacked(path, seen)
        unpacked.seek(0)
        yield io.BufferedReader(_Filling(unpacked), _HEADER)


class _Filling(io.RawIOBase):
    """A packed file as a stream that fills what it is asked for, so that `peek` shows the whole first line."""

    def __init__(self, source: Any) -> None:
        self.source = source

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self.source.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)
