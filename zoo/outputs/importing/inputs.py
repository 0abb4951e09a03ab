"""Where imported outputs come from: files, folders of files, frames of several libraries, and arrays by name."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from zoo.errors import InputError
from zoo.outputs.importing import array_files, table_files

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike

    from zoo.core.arrays import Array

    class Frame(Protocol):
        """A frame of polars, or a `datasets.Dataset`."""

        def to_pandas(self) -> pd.DataFrame: ...

    Source: TypeAlias = str | Path | Sequence[str | Path] | Mapping[str, Any] | pd.DataFrame | Frame
    Values: TypeAlias = str | Path | ArrayLike | Array

SUFFIXES = array_files.SUFFIXES + table_files.SUFFIXES
_PICKLES = (".pkl", ".pickle", ".pt", ".pth", ".joblib", ".bin")
_SHARED_FILES = {"labels": "labels.npy", "classes": "classes.txt", "ids": "ids.txt"}


def read_sources(source: Any) -> Iterator[tuple[str, str | None, Any]]:
    """Yield (name in messages, name of the model if the source has one, arrays by name or a table) for each source."""
    source = source.collect() if hasattr(source, "collect") else source  # a lazy frame of polars
    if isinstance(source, Mapping):
        yield "arrays", None, {str(key): table_files.as_array(value, str(key)) for key, value in table_files.flatten(source)}
    elif hasattr(source, "columns") or hasattr(source, "column_names"):
        yield "frame", None, _to_pandas(source)
    else:
        for path in _paths(source):
            suffix = table_files.suffix_of(_check_file(path))
            read = array_files.read_arrays if suffix in array_files.SUFFIXES else table_files.read_table
            yield str(path), path.name[: -len(suffix)], read(path)


def _to_pandas(frame: Any) -> Any:
    """Return a frame of pandas or polars, or a `datasets.Dataset`, as a frame of pandas; class labels become class names."""
    import pandas as pd

    features = getattr(frame, "features", None)
    if features is not None:  # `datasets`
        frame = frame.remove_columns([name for name, kind in features.items() if type(kind).__name__ in ("Image", "Audio")])
        class_names = {name: kind.names for name, kind in features.items() if getattr(kind, "names", None)}
        frame = frame.with_format(None).to_pandas()
        for column, names in class_names.items():
            frame[column] = np.array(names, dtype=object)[frame[column].to_numpy()]
    elif not isinstance(frame, pd.DataFrame):
        frame = frame.to_pandas()
    return frame if isinstance(frame.index, pd.RangeIndex) else frame.reset_index(names=frame.index.name or "index")


def _paths(source: Any) -> list[Path]:
    paths = [Path(source)] if isinstance(source, (str, Path)) else [Path(one) for one in source]
    if not paths:
        raise InputError(argument="source", expected="at least one file", found=0)
    if len(paths) > 1 or not paths[0].is_dir():
        return paths
    shared = set(_SHARED_FILES.values())
    found = sorted(p for p in paths[0].iterdir() if table_files.suffix_of(p) in SUFFIXES and p.name not in shared)
    if not found:
        raise InputError("holds no file of outputs", where=paths[0], expected=f"a name that ends in {', '.join(SUFFIXES)}")
    return found


def _check_file(path: Path) -> Path:
    if path.suffix.lower() in _PICKLES:
        hint = "Save the arrays as .npz or .safetensors"
        raise InputError("is a pickle, which could run code when read", where=path, hint=hint)
    if table_files.suffix_of(path) not in SUFFIXES:
        raise InputError("has an unknown suffix", where=path, expected=f"a name that ends in {', '.join(SUFFIXES)}")
    if not path.is_file():
        raise InputError("does not exist, or is not a file", where=path)
    return path


def shared_files(source: Any) -> dict[str, Any]:
    """Return the files of labels, classes and ids in a folder, which belong to all other files of the folder."""
    if not isinstance(source, (str, Path)) or not Path(source).is_dir():
        return {}
    return {key: Path(source) / file for key, file in _SHARED_FILES.items() if (Path(source) / file).is_file()}


def read_values(value: Any, argument: str) -> Any:
    """Return the values of an argument: an array, a `.npy` file, or a text file with one value per line."""
    if not isinstance(value, (str, Path)):
        return table_files.as_array(value, argument)
    path = Path(value)
    if path.suffix.lower() == ".npy":
        return array_files.read_arrays(_check_file(path))[""]
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        expected = "a .npy file or lines of text"
        raise InputError(f"cannot be read: {error}", where=path, argument=argument, expected=expected) from error
