"""Images in parquet files, in the Hugging Face layout (`image: {bytes, path}`, `label`) or one near it."""

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

IN_MEMORY = 2**29  # bytes of images; of larger files only a few row groups are kept


def load(paths: Sequence[Path], spec: str, name: str | None = None) -> Dataset:
    """The rows of one or more files, in order; ids are row numbers. Class names come from the file where it has them."""
    opened = [_opened(path) for path in paths]
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
    """The files a path stands for: itself, the parquet files of a folder, or those matching a pattern."""
    if path.is_file():
        return [path]
    pattern = path / "*.parquet" if path.is_dir() else path
    found = sorted(Path(match) for match in glob.glob(str(pattern)))
    if not found:
        raise InputError(f"{spec}: no parquet file at {path}; expected a file, a folder of them or a pattern")
    return found


class _Rows:
    """Images by row number. Opened anew in each process, since an open parquet file cannot cross into another one."""

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
        return [_opened(path, pre_buffer=False) for path in self.paths]

    @functools.cached_property
    def _groups(self) -> list[tuple[int, int, int]]:
        """(file, row group, rows) of every row group."""
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
        """Row groups as columns: all kept when the images fit in memory, else the last few that were read."""
        size = sum(file.metadata.row_group(g).total_byte_size for file in self._files for g in range(file.num_row_groups))
        return functools.lru_cache(maxsize=None if size <= IN_MEMORY else 4)(self._read_group)

    def _read_group(self, index: int) -> Any:
        number, group, _ = self._groups[index]
        with reading(self.paths[number], "parquet file"):
            return self._files[number].read_row_group(group, [self.column], use_threads=False)[self.column].combine_chunks()


def _opened(path: Path, **options: Any) -> Any:
    import pyarrow.parquet as pq

    with reading(path, "parquet file"):
        file = pq.ParquetFile(path, **options)
        check_unpacked(path, file.metadata.num_rows)
        return file


def _class_names(metadata: dict[bytes, bytes] | None, column: str) -> list[str] | None:
    """The names the Hugging Face writer put into the schema, if it did."""
    try:
        features = json.loads((metadata or {})[b"huggingface"])["info"]["features"]
        feature = features[column]
        feature = feature.get("feature", feature) if isinstance(feature, dict) else feature[0]
        names = feature["names"]
    except (KeyError, ValueError, TypeError, AttributeError):
        return None
    return [str(name) for name in names]
