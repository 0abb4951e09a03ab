"""Tables from files of other programs: csv, tsv, json, jsonl, parquet, feather. Text files may be gzipped."""

import gzip
import io
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
_MIN_ROW_BYTES = 8  # of an unpacked row
_MAX_HEADER = 2**22  # bytes; the names of 21,000 classes take a tenth of it
_BUFFER = 2**22  # bytes
_NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)(e[-+]?\d+)?\s*", re.IGNORECASE)
_COMMA_NUMBER = re.compile(r"\s*[-+]?(\d+,?\d*|,\d+)(e[-+]?\d+)?\s*", re.IGNORECASE)


def suffix_of(path: Path) -> str:
    """Return the suffix of a file name, `.gz` included.

    >>> suffix_of(Path("a.v2.CSV.gz")), suffix_of(Path("b.npz"))
    ('.csv.gz', '.npz')
    """
    name = path.name.lower()
    return next((suffix for suffix in sorted(SUFFIXES, key=len, reverse=True) if name.endswith(suffix)), path.suffix.lower())


def read_table(path: Path) -> "pd.DataFrame | dict[str, np.ndarray]":
    """Return the rows of a table, with ids and model names as texts; for a JSON object of arrays, the arrays by name."""
    suffix = suffix_of(path)
    with reading(path, "table"):
        if suffix in (".parquet", ".feather"):
            return _read_arrow(path, suffix)
        with _opened(path, suffix) as file:
            if suffix.startswith((".csv", ".tsv")):
                return _read_separated(file, path, suffix)
            if suffix.startswith(".jsonl"):
                lines = [files.parse_json(line, f"{path} line {n}") for n, line in enumerate(file, 1) if line.strip()]
                return _from_list(lines, path)
            value = files.parse_json(file.read(), str(path))
            if isinstance(value, list):
                return _from_list(value, path)
            if isinstance(value, dict):
                return _from_mapping(value)
            raise InputError(where=path, expected="a list of rows or an object of arrays", found=type(value).__name__)


def _read_separated(file: IO[bytes], path: Path, suffix: str) -> "pd.DataFrame":
    import pandas as pd

    head = file.readline(_MAX_HEADER).removesuffix(b"\n")
    if not head.strip():
        raise InputError("has an empty first line", where=path, expected="names of columns")
    file.seek(0)
    separator = "\t" if suffix.startswith(".tsv") else _separator(head.decode("utf-8", "replace"))
    cells = pd.read_csv(io.BytesIO(head), sep=separator, header=None, dtype=str, keep_default_na=False).iloc[0].tolist()
    if _is_data(cells, separator):  # as np.savetxt writes: numbers without a header
        texts = {}
        table = pd.read_csv(file, sep=separator, header=None)
    else:
        column_names.check_unique([name for name in cells if name], path)  # pandas would rename the second one
        texts = {name: str for name in cells if column_names.meaning(name) in ("ids", "model")}
        table = pd.read_csv(file, sep=separator, dtype=texts, low_memory=False)
    return table if separator == "," else _with_decimal_commas(table, [name for name in table if name not in texts])


def _separator(head: str) -> str:
    """Return the separator of the columns, given the first line.

    >>> _separator("id,label"), _separator("id;label"), _separator("0,5;0,2;0,3")
    (',', ';', ';')
    """
    if ";" in head and all(_COMMA_NUMBER.fullmatch(cell) for cell in head.split(";")):
        return ";"
    return max(",;\t", key=head.count)


def _is_data(cells: list[str], separator: str) -> bool:
    """Return whether the first line holds numbers rather than names; `0,1,2,...` are names of classes."""
    forms = (_NUMBER,) if separator == "," else (_NUMBER, _COMMA_NUMBER)
    numbers = all(any(form.fullmatch(cell) for form in forms) for cell in cells)
    return numbers and cells != [str(k) for k in range(len(cells))]


def _with_decimal_commas(table: "pd.DataFrame", columns: list[Any]) -> "pd.DataFrame":
    """Return the table with numbers such as `0,25` converted, in columns that hold nothing else."""
    import pandas as pd

    for column in columns:
        values = table[column]
        if pd.api.types.is_numeric_dtype(values) or not _COMMA_NUMBER.fullmatch(str(values.iloc[0])):
            continue
        texts = values.astype(str)
        if texts.str.fullmatch(_COMMA_NUMBER).all():
            table[column] = texts.str.replace(",", ".").astype(float)
    return table


def _read_arrow(path: Path, suffix: str) -> "pd.DataFrame":
    import pyarrow as pa
    from pyarrow import feather, parquet

    table: Any
    if suffix == ".feather":
        table = feather.read_table(path)
    else:
        with parquet.ParquetFile(path) as file:
            check_unpacked(path, file.metadata.num_rows * _MIN_ROW_BYTES)
            table = file.read()
    table.validate(full=True)  # reports damaged offsets and letters now rather than when a column is first used
    for number, column in enumerate(table.schema):
        if pa.types.is_dictionary(column.type):  # a categorical of pandas
            table = table.set_column(number, column.name, table.column(number).cast(column.type.value_type))
    return table.to_pandas(ignore_metadata=True)  # the description of a pandas index is not needed, and may be damaged


def flatten(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Yield the arrays of a nested mapping by name: `MODEL/NAME` for an array inside the mapping of a model."""
    for name, part in value.items():
        if isinstance(part, Mapping):
            yield from flatten(part, f"{prefix}{name}/")
        else:
            yield f"{prefix}{name}", part


def as_array(values: Any, name: str | None = None) -> Any:
    """Return lists as an array. Tensors are returned unchanged; rows of different lengths become an array of objects."""
    if hasattr(values, "detach"):
        return values
    if np.ma.is_masked(values):
        problem = f"is a masked array with {np.ma.count_masked(values)} missing values"
        raise InputError(problem, argument=name, hint="Fill them in, or drop the rows")
    try:
        return np.asarray(values)
    except ValueError:  # rows of different lengths
        ragged = np.empty(len(values), object)
        ragged[:] = values
        return ragged


def _from_list(rows: list[Any], path: Path) -> "pd.DataFrame | dict[str, np.ndarray]":
    """Return a list of objects as a table, a list of class indices or names as predictions, and numbers as an array."""
    import pandas as pd

    if all(isinstance(row, dict) for row in rows):
        return pd.DataFrame.from_records(rows)
    kinds = {type(row) for row in rows}
    if kinds in ({int}, {str}):
        return {"predictions": as_array(rows)}
    if kinds <= {int, float} or kinds == {list}:
        return {"": as_array(rows)}
    example = next(row for row in rows if not isinstance(row, dict))
    expected = "objects, numbers or class names in every row"
    raise InputError(where=path, expected=expected, found=str(example)[:40])


def _from_mapping(value: dict[str, Any]) -> "pd.DataFrame | dict[str, np.ndarray]":
    """Return arrays by name; for a mapping from ids to classes, predictions; from ids to objects, a table."""
    import pandas as pd

    parts = list(value.values())
    if parts and all(isinstance(part, (str, int)) for part in parts):
        return {"ids": as_array(list(value)), "predictions": as_array(parts)}
    if parts and all(isinstance(part, dict) and any(isinstance(one, (str, int)) for one in part.values()) for part in parts):
        return pd.DataFrame.from_records([{"id": row_id, **part} for row_id, part in value.items()])
    return {name: as_array(part) for name, part in flatten(value)}


@contextmanager
def _opened(path: Path, suffix: str) -> Iterator[IO[bytes]]:
    if not suffix.endswith(".gz"):
        with open(path, "rb", buffering=_BUFFER) as file:
            yield file
        return
    with gzip.open(path, "rb") as unpacked:
        size = 0
        while piece := unpacked.read(2**20):  # unpacking takes a moment; parsing that much takes minutes and gigabytes
            size += len(piece)
            check_unpacked(path, size)
        unpacked.seek(0)
        yield io.BufferedReader(unpacked, _BUFFER)
