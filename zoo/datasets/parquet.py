"""Images in parquet files, in the Hugging Face layout (`image: {bytes, path}`, `label`) or a similar one."""

import functools
import glob
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from zoo.core.foreign_files import check_unpacked, reading
from zoo.datasets import fingerprints, tables
from zoo.datasets.dataset import Dataset
from zoo.errors import InputError

MAX_IN_MEMORY = 2**29  # bytes; of larger datasets only the row groups read last stay in memory


def load(paths: Sequence[Path], spec: str, name: str | None = None) -> Dataset:
    """Return the rows of one or more files, in order. Ids are row numbers; class names come from the file if it has them.

    Args:
        paths: the files.
        spec: the spec of the dataset.
        name: the dataset's name; default: the first file's.
    """
    opened = [_open(path) for path in paths]
    image_column, label_column = tables.image_and_label(opened[0].schema_arrow.names, spec)
    truth = tables.Truth()
    if label_column is not None:
        values: list[Any] = []
        for path, file in zip(paths, opened, strict=True):
            with reading(path, "parquet file"):
                values += file.read([label_column])[label_column].to_pylist()
        truth = tables.truth(values, _class_names(opened[0].schema_arrow.metadata, label_column), f"{spec} {label_column}")
    rows = sum(file.metadata.num_rows for file in opened)
    folder = paths[0].parent
    return Dataset(
        name=name or paths[0].stem,
        spec=spec,
        ids=[str(row) for row in range(rows)],
        image=_Rows(paths, image_column),
        fingerprint=fingerprints.of_files(folder, [path.relative_to(folder).as_posix() for path in paths]),
        classes=truth.classes,
        labels=truth.labels,
        targets=truth.targets,
    )


def expand(path: Path, spec: str) -> list[Path]:
    """Return the files that a path stands for: itself, the parquet files in a folder, or those that match a pattern."""
    if path.is_file():
        return [path]
    pattern = path / "*.parquet" if path.is_dir() else path
    paths = sorted(Path(match) for match in glob.glob(str(pattern)))
    if not paths:
        raise InputError(f"no parquet file at {path}", where=spec, expected="a file, a folder of files or a pattern")
    return paths


class _Rows:
    """Images by row number. Each process opens the files again, because an open parquet file cannot be pickled."""

    def __init__(self, paths: Sequence[Path], column: str) -> None:
        self.paths, self.column = list(paths), column

    def __getstate__(self) -> dict[str, Any]:
        return {"paths": self.paths, "column": self.column}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)

    def __call__(self, row: int) -> Image.Image:
        group = int(np.searchsorted(self._ends, row, side="right"))
        start = int(self._ends[group - 1]) if group else 0
        with reading(self.paths[self._groups[group][0]], "parquet file"):
            value = self._group(group)[row - start].as_py()
        return tables.image(value, row, self.paths[0].parent)

    @functools.cached_property
    def _files(self) -> list[Any]:
        return [_open(path, pre_buffer=False) for path in self.paths]

    @functools.cached_property
    def _groups(self) -> list[tuple[int, int, int]]:
        """(file, row group in the file, number of rows) of every row group."""
        return [
            (number, group, file.metadata.row_group(group).num_rows)
            for number, file in enumerate(self._files)
            for group in range(file.metadata.num_row_groups)
        ]

    @functools.cached_property
    def _ends(self) -> np.ndarray:
        return np.cumsum([rows for _, _, rows in self._groups])

    @functools.cached_property
    def _group(self) -> Any:
        """The function that reads a row group; it keeps all of them if they fit in memory, else the last few."""
        size = sum(file.metadata.row_group(g).total_byte_size for file in self._files for g in range(file.num_row_groups))
        return functools.lru_cache(maxsize=None if size <= MAX_IN_MEMORY else 4)(self._read_group)

    def _read_group(self, index: int) -> Any:
        number, group, _ = self._groups[index]
        with reading(self.paths[number], "parquet file"):
            return self._files[number].read_row_group(group, [self.column], use_threads=False)[self.column].combine_chunks()


def _open(path: Path, **options: Any) -> Any:
    import pyarrow.parquet as pq

    with reading(path, "parquet file"):
        file = pq.ParquetFile(path, **options)
        check_unpacked(path, file.metadata.num_rows)
        return file


def _class_names(metadata: dict[bytes, bytes] | None, column: str) -> list[str] | None:
    """Return the class names that Hugging Face's writer stores in the schema; None if there are none."""
    try:
        features = json.loads((metadata or {})[b"huggingface"])["info"]["features"]
        feature = features[column]
        feature = feature.get("feature", feature) if isinstance(feature, dict) else feature[0]
        names = feature["names"]
    except (KeyError, ValueError, TypeError, AttributeError):
        return None
    return [str(name) for name in names]
