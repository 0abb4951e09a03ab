"""Where imported outputs come from: files, folders of files, frames of several libraries, and arrays by name."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import numpy as np

from zoo.errors import InputError
from zoo.outputs import bundle
from zoo.outputs.importing import array_files, table_files

if TYPE_CHECKING:
    import pandas as pd
    from numpy.typing import ArrayLike

    from zoo.core.arrays import Array
    from zoo.outputs.outputs import Runs

    class Frame(Protocol):
        """A frame of polars, or a `datasets.Dataset`."""

        def to_pandas(self) -> pd.DataFrame: ...

    Source: TypeAlias = str | Path | Sequence[str | Path] | Mapping[str, Any] | pd.DataFrame | Frame
    Values: TypeAlias = str | Path | ArrayLike | Array

SUFFIXES = array_files.SUFFIXES + table_files.SUFFIXES
_PICKLES = (".pkl", ".pickle", ".pt", ".pth", ".joblib", ".bin")
_SHARED_FILES = {"labels": "labels.npy", "classes": "classes.txt", "ids": "ids.txt"}


@dataclass(frozen=True)
class Found:
    """The contents of one file or frame, or the arrays of one mapping."""

    where: str  # name in messages
    name: str | None  # of the model, if the name of the file gives one
    contents: "dict[str, Any] | pd.DataFrame | Runs"  # arrays by name, a table, or the outputs in a bundle
    shared: dict[str, Path] = field(default_factory=dict)  # files of labels, classes and ids in the file's folder


def read_sources(source: Any) -> Iterator[Found]:
    """Yield the contents of each file, or of a frame or mapping."""
    source = source.collect() if hasattr(source, "collect") else source  # a lazy frame of polars
    if isinstance(source, Mapping):
        arrays = {str(key): table_files.as_array(value, str(key)) for key, value in table_files.flatten(source)}
        yield Found("arrays", None, arrays)
    elif hasattr(source, "columns") or hasattr(source, "column_names"):
        yield Found("frame", None, _to_pandas(source))
    else:
        for path, shared in _paths(source):
            if bundle.is_bundle(path):
                yield Found(str(path), None, bundle.read(path))
                continue
            suffix = table_files.suffix_of(_check_file(path))
            read = array_files.read_arrays if suffix in array_files.SUFFIXES else table_files.read_table
            yield Found(str(path), path.name[: -len(suffix)], read(path), shared)


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


def _paths(source: Any) -> list[tuple[Path, dict[str, Path]]]:
    """Return the files of a path or of several, with the labels, classes and ids that all files of a folder share."""
    paths = [Path(source)] if isinstance(source, (str, Path)) else [Path(one) for one in source]
    if not paths:
        raise InputError(argument="source", expected="at least one file", found=0)
    return [found for path in paths for found in (_in_folder(path) if path.is_dir() else [(path, {})])]


def _in_folder(folder: Path) -> list[tuple[Path, dict[str, Path]]]:
    shared = {key: folder / name for key, name in _SHARED_FILES.items() if (folder / name).is_file()}
    files = sorted(p for p in folder.iterdir() if table_files.suffix_of(p) in SUFFIXES and p not in shared.values())
    if not files:
        raise InputError("holds no file of outputs", where=folder, expected=f"a name that ends in {', '.join(SUFFIXES)}")
    return [(path, shared) for path in files]


def _check_file(path: Path) -> Path:
    if path.suffix.lower() in _PICKLES:
        hint = "Save the arrays as .npz or .safetensors"
        raise InputError("is a pickle, which could run code when read", where=path, hint=hint)
    if table_files.suffix_of(path) not in SUFFIXES:
        raise InputError("has an unknown suffix", where=path, expected=f"a name that ends in {', '.join(SUFFIXES)}")
    if not path.is_file():
        raise InputError("does not exist, or is not a file", where=path)
    if path.stat().st_size == 0:
        raise InputError("is empty", where=path)
    return path


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
