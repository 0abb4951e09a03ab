"""Outputs made elsewhere: from npz, npy, csv, parquet or safetensors files to the same `Outputs` a run gives.

What the numbers are is declared, by `kind` or by the name of the array or column that holds them; it is never guessed.
"""

import dataclasses
import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from zoo import array_files
from zoo.cards import Link
from zoo.errors import InputError, ZooError, ZooWarning
from zoo.outputs import Kind, Outputs, Runs

if TYPE_CHECKING:
    import pandas as pd

    from zoo.datasets import Dataset

_MEANINGS = {
    "logits": ("logits", "logit"),
    "probabilities": ("probabilities", "probability", "probs", "prob"),
    "predictions": ("predictions", "prediction", "preds", "pred"),
    "embeddings": ("embeddings", "embedding", "features"),
    "labels": ("labels", "label", "y", "truth"),
    "ids": ("ids", "id", "image_id", "filename"),
    "classes": ("classes", "class_names"),
    "targets": ("targets",),
}
_MEANING = {spelling: meaning for meaning, spellings in _MEANINGS.items() for spelling in spellings}
_KINDS: tuple[Kind, ...] = ("logits", "probabilities", "predictions", "embeddings")
_BESIDE = {"labels": "labels.npy", "classes": "classes.txt", "ids": "ids.txt"}


def import_outputs(
    path: str | Path | Sequence[str | Path],
    name: str | None = None,
    kind: Kind | None = None,
    labels: Any = None,
    classes: Any = None,
    ids: Any = None,
    link: Link = "softmax",
    data: str | None = None,
) -> Runs:
    """Outputs from a file, from several, or from a folder of them, by name: a file's own, or that in a column `model`.

    `.npz` and `.safetensors` files hold arrays `logits`, `probabilities` or `predictions`, and maybe `embeddings`,
    `labels`, `ids`, `classes`; a `.npy` file holds one array, so `kind` has to say which. Tables (`.csv`, `.parquet`) have
    one row an example with columns `id`, `label`, maybe `model`, and either `prediction`, or a column of lists
    (`logits`, `probabilities`), or one column a class (`probabilities.cat`; without the prefix when `kind` says what
    they are). Labels and predictions are class indices or class names.

    `labels`, `classes` and `ids` may be given here, as arrays or as files (`.npy`, or `.txt` with one entry a line), or lie
    beside the files of a folder as `labels.npy`, `classes.txt` and `ids.txt`. `data` names the dataset; labels that no file
    has are taken from it, by id, and columns without class names are taken to be in its order of classes.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "a.npz")
    >>> np.savez(file, probabilities=[[0.9, 0.1]], labels=[0], classes=["cat", "dog"])
    >>> import_outputs(file)["a"].classes
    ('cat', 'dog')
    """
    if kind is not None and kind not in _KINDS:
        raise InputError(f"kind {kind!r}: expected one of {', '.join(_KINDS)}")
    files = _files(path)
    if name is not None and len(files) > 1:
        raise InputError(f"name {name!r} for {len(files)} files; leave it out, each file gives its own")
    given = {"labels": labels, "classes": classes, "ids": ids}
    if isinstance(path, (str, Path)) and Path(path).is_dir():
        beside = {key: Path(path) / file for key, file in _BESIDE.items() if (Path(path) / file).is_file()}
        given = {key: beside.get(key) if value is None else value for key, value in given.items()}
    shared = {key: _value(value, key) for key, value in given.items() if value is not None}
    found: list[Outputs] = []
    for file in files:
        array_files.check_kind_of_file(file)
        for called, parts in _parts(file, kind):
            found.append(_outputs(name or called, parts | shared, kind, link, str(file)))
    return Runs(found if data is None else _on_dataset(found, data))


def _files(path: str | Path | Sequence[str | Path]) -> list[Path]:
    paths = [Path(path)] if isinstance(path, (str, Path)) else [Path(one) for one in path]
    if len(paths) == 1 and paths[0].is_dir():
        usable = array_files.ARRAYS + array_files.TABLES
        apart = set(_BESIDE.values())
        found = sorted(p for p in paths[0].iterdir() if p.suffix.lower() in usable and p.name not in apart)
        if not found:
            raise InputError(f"{paths[0]}: no file that ends in {', '.join(usable)}")
        return found
    if not paths:
        raise InputError("expected at least one file, found none")
    return paths


def _value(value: Any, what: str) -> Any:
    """An array given as such, or as a file: lines of text or a .npy file."""
    if not isinstance(value, (str, Path)):
        return value
    path = Path(value)
    if path.suffix.lower() == ".npy":
        return array_files.read_arrays(path)[""]
    try:
        return path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{what}: {path}: expected a .npy file or lines of text: {error}") from error


def _parts(file: Path, kind: Kind | None) -> Iterator[tuple[str, dict[str, Any]]]:
    """(name, {meaning: values}) of each model in a file."""
    if file.suffix.lower() in array_files.ARRAYS:
        yield file.stem, _of_arrays(array_files.read_arrays(file), kind, file)
        return
    table = array_files.read_table(file)
    if len(table) == 0:
        raise InputError(f"{file}: expected at least one row, found none")
    if "model" not in table.columns:
        yield file.stem, _of_table(table, kind, file)
        return
    if table["model"].isna().any():
        raise InputError(f"{file}: row {int(table['model'].isna().to_numpy().argmax())} has no model")
    for called, rows in table.groupby("model", sort=False):
        yield str(called), _of_table(rows.drop(columns="model").reset_index(drop=True), kind, file)


def _of_arrays(arrays: dict[str, np.ndarray], kind: Kind | None, file: Path) -> dict[str, Any]:
    parts = {_MEANING[name]: values for name, values in arrays.items() if name in _MEANING}
    unknown = [name for name in arrays if name not in _MEANING]
    if len(unknown) == 1 and not any(k in parts for k in _KINDS if k != "embeddings"):
        if kind is None:
            which = f"array {unknown[0]!r}" if unknown[0] else "the array"
            raise InputError(f"{file}: say what {which} is: kind= (--kind) one of {', '.join(_KINDS)}")
        return {**parts, kind: arrays[unknown[0]]}
    if unknown:
        warnings.warn(f"{file}: arrays of no known meaning left out: {', '.join(unknown)}", ZooWarning, stacklevel=4)
    return parts


def _of_table(table: "pd.DataFrame", kind: Kind | None, file: Path) -> dict[str, Any]:
    parts: dict[str, Any] = {}
    wide: dict[str, list[tuple[str, str]]] = {}  # kind -> [(class, column)]
    for column in map(str, table.columns):
        prefix, dot, rest = column.partition(".")
        if column in _MEANING:
            if table[column].isna().any():
                raise InputError(f"{file}: row {int(table[column].isna().to_numpy().argmax())} has no {column}")
            parts[_MEANING[column]] = _column(table[column], f"{file} {column}")
        elif dot and _MEANING.get(prefix) in _KINDS:
            wide.setdefault(_MEANING[prefix], []).append((rest, column))
        else:
            wide.setdefault("", []).append((column, column))
    loose = wide.pop("", [])
    if loose and not wide and not any(k in parts for k in _KINDS if k != "embeddings"):
        if kind is None:
            raise InputError(f"{file}: say what columns such as {loose[0][0]!r} are: kind= (--kind) logits or probabilities")
        wide[kind] = loose
    elif loose:
        named = ", ".join(column for column, _ in loose[:5])
        warnings.warn(f"{file}: columns of no known meaning left out: {named}", ZooWarning, stacklevel=4)
    for meaning, columns in wide.items():
        parts[meaning] = table[[column for _, column in columns]].to_numpy()
        if meaning != "embeddings":
            parts["classes"] = [name for name, _ in columns]
    return parts


def _column(values: "pd.Series[Any]", where: str) -> Any:
    first = values.iloc[0]
    if isinstance(first, (list, np.ndarray)):
        lengths = {len(value) for value in values}
        if len(lengths) > 1:
            raise InputError(f"{where}: rows of different lengths ({min(lengths)} to {max(lengths)})")
        return np.array([np.asarray(value) for value in values])
    return values.to_numpy()


def _outputs(name: str, parts: dict[str, Any], kind: Kind | None, link: Link, where: str) -> Outputs:
    here = [k for k in _KINDS if k in parts]
    main = [k for k in here if k != "embeddings"] or here
    if kind is not None and kind not in here:
        raise InputError(f"{where}: declared as {kind}, but it holds {' and '.join(here) or 'none'}")
    if len(main) != 1 and kind is None:
        raise InputError(f"{where}: holds {' and '.join(main) or 'no outputs'}; say which with kind= (--kind)")
    chosen = kind or main[0]
    classes = None if parts.get("classes") is None else [str(c) for c in parts["classes"]]
    kept = {chosen: parts[chosen]} | ({"embeddings": parts["embeddings"]} if "embeddings" in parts else {})
    if chosen == "predictions":
        kept[chosen], classes = _indices(kept[chosen], classes, f"{where} predictions", parts.get("labels"))
    given = parts.get("labels")
    labels = None if given is None else _indices(given, classes, f"{where} labels")[0]
    return Outputs.from_arrays(
        name, **kept, labels=labels, ids=parts.get("ids"), classes=classes, link=link, targets=parts.get("targets")
    )


def _indices(values: Any, classes: list[str] | None, where: str, others: Any = None) -> tuple[Any, list[str] | None]:
    """Class names as indices, and the classes; whole numbers are indices already."""
    array = np.asarray(values)
    if array.dtype.kind not in "OUS":
        return array, classes
    texts = [str(value) for value in array.tolist()]
    if classes is None:
        from zoo.datasets.folder import class_order

        more = np.asarray([] if others is None else others)
        classes = class_order({*texts, *(map(str, more.tolist()) if more.dtype.kind in "OUS" else ())})
    index = {name: k for k, name in enumerate(classes)}
    unknown = next((row for row, text in enumerate(texts) if text not in index), None)
    if unknown is not None:
        raise InputError(f"{where}: row {unknown} is {texts[unknown]!r}, expected one of the {len(classes)} classes")
    return np.array([index[text] for text in texts], np.int64), classes


def _on_dataset(found: list[Outputs], data: str) -> list[Outputs]:
    from zoo.datasets import canonical, load

    spec = canonical(data)
    named = [dataclasses.replace(outputs, dataset=spec) for outputs in found]
    try:
        dataset = load(spec)
    except ZooError:  # not on this machine: its name is kept, and the files say all there is to say
        return named
    return [_with_truth(outputs, dataset) for outputs in named]


def _with_truth(outputs: Outputs, dataset: "Dataset") -> Outputs:
    numbered = outputs.classes == tuple(str(k) for k in range(len(outputs.classes)))
    if numbered and len(dataset.classes) == len(outputs.classes):
        outputs = dataclasses.replace(outputs, classes=dataset.classes)
    row_of = {row_id: row for row, row_id in enumerate(dataset.ids)}
    if outputs.labels is not None or dataset.labels is None or outputs.classes != dataset.classes:
        return outputs
    unknown = next((row_id for row_id in outputs.ids.tolist() if row_id not in row_of), None)
    if unknown is not None:
        raise InputError(
            f"{outputs.name}: id {unknown!r} is not one of {dataset.spec}, whose ids are like {dataset.ids[0]!r}"
        )
    return dataclasses.replace(outputs, labels=dataset.labels[[row_of[row_id] for row_id in outputs.ids.tolist()]])
