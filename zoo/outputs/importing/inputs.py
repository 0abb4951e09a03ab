"""Where outputs made elsewhere come from: files, folders of them, frames of several libraries, arrays by name."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from zoo.errors import InputError
from zoo.outputs.importing import array_files, table_files

SUFFIXES = array_files.SUFFIXES + table_files.SUFFIXES
_PICKLES = (".pkl", ".pickle", ".pt", ".pth", ".joblib", ".bin")
_BESIDE = {"labels": "labels.npy", "classes": "classes.txt", "ids": "ids.txt"}


def held(source: Any) -> Iterator[tuple[str, str | None, Any]]:
    """(what to call it in messages, its name, arrays or a table) of each file, or of the frame."""
    source = source.collect() if hasattr(source, "collect") else source  # a lazy frame of polars
    if isinstance(source, Mapping):
        yield "arrays", None, {str(key): table_files.as_array(value) for key, value in table_files.flat(source)}
    elif hasattr(source, "columns") or hasattr(source, "column_names"):
        yield "frame", None, _pandas(source)
    else:
        for path in _files(source):
            suffix = table_files.suffix_of(_checked(path))
            read = array_files.read_arrays if suffix in array_files.SUFFIXES else table_files.read_table
            yield str(path), path.name[: -len(suffix)], read(path)


def _pandas(frame: Any) -> Any:
    """A pandas frame of a pandas or polars frame, or of a `datasets.Dataset`, whose class labels become names."""
    import pandas as pd

    features = getattr(frame, "features", None)
    if features is not None:  # `datasets`
        frame = frame.remove_columns([name for name, kind in features.items() if type(kind).__name__ in ("Image", "Audio")])
        named = {name: kind.names for name, kind in features.items() if getattr(kind, "names", None)}
        frame = frame.with_format(None).to_pandas()
        for column, names in named.items():
            frame[column] = np.array(names, dtype=object)[frame[column].to_numpy()]
    elif not isinstance(frame, pd.DataFrame):
        frame = frame.to_pandas()
    return frame if isinstance(frame.index, pd.RangeIndex) else frame.reset_index(names=frame.index.name or "index")


def _files(source: Any) -> list[Path]:
    paths = [Path(source)] if isinstance(source, (str, Path)) else [Path(one) for one in source]
    if len(paths) == 1 and paths[0].is_dir():
        apart = set(_BESIDE.values())
        found = sorted(p for p in paths[0].iterdir() if table_files.suffix_of(p) in SUFFIXES and p.name not in apart)
        if not found:
            raise InputError(f"{paths[0]}: no file that ends in {', '.join(SUFFIXES)}")
        return found
    if not paths:
        raise InputError("expected at least one file, found none")
    return paths


def _checked(path: Path) -> Path:
    """The path, if a file is there and its name ends as one that can be read."""
    if path.suffix.lower() in _PICKLES:
        raise InputError(f"{path}: a pickle could run code when read; refused: save the arrays as .npz or .safetensors")
    if table_files.suffix_of(path) not in SUFFIXES:
        raise InputError(f"{path}: expected a file that ends in {', '.join(SUFFIXES)}")
    if not path.is_file():
        raise InputError(f"{path}: there is no such file")
    return path


def beside(source: Any) -> dict[str, Any]:
    """Labels, classes and ids that lie beside the files of a folder."""
    if not isinstance(source, (str, Path)) or not Path(source).is_dir():
        return {}
    return {key: Path(source) / file for key, file in _BESIDE.items() if (Path(source) / file).is_file()}


def value_of(value: Any, what: str) -> Any:
    """An array given as such, or as a file: lines of text or a .npy file."""
    if not isinstance(value, (str, Path)):
        return table_files.as_array(value)
    path = Path(value)
    if path.suffix.lower() == ".npy":
        return array_files.read_arrays(_checked(path))[""]
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"--{what} {path}: expected a .npy file or lines of text: {error}") from error
