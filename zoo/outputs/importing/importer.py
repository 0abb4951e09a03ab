"""Outputs made elsewhere, from any file or frame people have, to the same `Outputs` a run gives."""

import dataclasses
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_args

import numpy as np

from zoo.core import arrays, limits, text
from zoo.core.columns import Column
from zoo.core.text import check_unique
from zoo.core.types import Link
from zoo.errors import InputError, ZooWarning
from zoo.outputs import bundle
from zoo.outputs.importing import dataset_check, inputs
from zoo.outputs.importing.contents import Parts, Reading, of_arrays, of_table
from zoo.outputs.outputs import Kind, Outputs, Runs

if TYPE_CHECKING:
    from zoo.datasets import Dataset

KINDS: tuple[Kind, ...] = get_args(Kind)


def import_outputs(
    source: Any,
    name: str | None = None,
    kind: Kind | None = None,
    labels: Any = None,
    classes: Any = None,
    ids: Any = None,
    link: Link = "softmax",
    data: str | None = None,
    columns: Mapping[str, str] | None = None,
    meta: Any = None,
) -> Runs:
    """Outputs from a file, several files or a folder of them, from a frame, or from arrays by name.

    Arrays (`.npz`, `.safetensors`, `.json`, a mapping) are called `logits`, `probabilities` or `predictions`, and maybe
    `embeddings`, `labels`, `ids`, `classes`; for several models `MODEL/logits`, or just `MODEL` with `kind`. A `.npy` file
    holds one array, so `kind` has to say which. Tables (`.csv`, `.tsv`, `.jsonl`, `.parquet`, `.feather`, a pandas or
    polars frame, a `datasets.Dataset`) have one row per example, or per model and example with a column `model`: `id`,
    `label`, and `prediction`, a column of lists (`logits`), or one column per class (`prob_0`, `probabilities.cat`; just
    `cat` when `kind` says what they are). With `kind="predictions"` every other column is a model. Common names such as
    `y_true` or `Filename` are understood; `columns` names others: `{"predictions": "guess"}`.

    Labels and predictions are class indices or class names. Classes that nobody lists are all those that occur; of listed
    ones (`classes`, or the dataset's) an answer that is none counts as wrong: it becomes -1, and they are counted.

    `labels`, `classes` and `ids` may be given here, as arrays or as files (`.npy`, or `.txt` with one entry per line), or
    lie beside the files of a folder as `labels.npy`, `classes.txt` and `ids.txt`. `data` names the dataset, one of your
    own or a known one: what the files do not say is taken from it, labels by id. `meta` is a table about the models, see
    `zoo.outputs.importing.metadata`.

    >>> answers = {"y_true": ["cat", "dog"], "y_pred": ["cat", "cat"]}
    >>> outputs = import_outputs(answers, name="a")["a"]
    >>> outputs.classes, outputs.accuracy
    (('cat', 'dog'), 0.5)
    """
    if isinstance(source, (str, Path)) and bundle.is_bundle(Path(source)):
        return bundle.read(source)
    if kind is not None and kind not in KINDS:
        raise InputError(f"--kind {kind}: expected one of {', '.join(KINDS)}")
    given = {"labels": labels, "classes": classes, "ids": ids}
    said = inputs.beside(source) | {key: value for key, value in given.items() if value is not None}
    shared = {key: inputs.value_of(value, key) for key, value in said.items()}
    listed = None if "classes" not in shared else [str(c) for c in shared["classes"]]
    members: list[_Member] = []
    for where, stem, held in inputs.held(source):
        reading = Reading(where, kind, dict(columns or {}), listed)
        found = list((of_arrays if isinstance(held, Mapping) else of_table)(held, reading))
        if name is not None and (len(found) > 1 or members):
            raise InputError(f"--name {name} for several models; leave it out, each has its own")
        for model, parts in found:
            called = name or model or stem
            if called is None:
                raise InputError(f"{where}: has no name of its own; give one with name=")
            members.append(_member(called, where, parts | shared, kind))
    spec, dataset = (None, None) if data is None else dataset_check.find(data)
    union = _classes_that_occur(members) if dataset is None or not dataset.classes else None
    made = [_outputs(member, dataset, union, link) for member in members]
    if spec is not None:
        made = [dataclasses.replace(outputs, dataset=spec) for outputs in made]
    if dataset is not None:
        has_ids = ["ids" in member.parts for member in members]
        made = [dataset_check.complete(one, dataset, has) for one, has in zip(made, has_ids, strict=True)]
    else:
        dataset_check.say_what_is_missing(made)
    if meta is not None:
        from zoo.outputs.importing.metadata import with_cards

        made = with_cards(made, meta)
    return Runs(made)


@dataclass(frozen=True)
class _Member:
    """What was read of one model, and which of it are its outputs."""

    name: str
    where: str
    parts: Parts
    kind: Kind

    @property
    def classes(self) -> list[str] | None:
        return None if self.parts.get("classes") is None else [str(c) for c in self.parts["classes"]]

    def positions(self, what: str, classes: Sequence[str]) -> np.ndarray:
        """Labels or predictions as indices into `classes`; -1 for what is none of them."""
        values = _names_or_numbers(self.parts[what], f"{self.where} {what}")
        if values.dtype.kind == "U":
            import pandas as pd

            return pd.Index(list(classes)).get_indexer(values.astype(object)).astype(np.int64)  # type: ignore[arg-type]
        return np.where((values >= 0) & (values < len(classes)), values, -1).astype(np.int64)


def _member(name: str, where: str, parts: Parts, kind: Kind | None) -> _Member:
    here: list[Kind] = [k for k in KINDS if k in parts]
    main = [k for k in here if k != "embeddings"] or here
    if len(main) == 2 and main[1] == "predictions":
        main = main[:1]  # what was predicted follows from the numbers
    if kind is not None and kind not in here:
        raise InputError(f"{where}: declared as {kind}, but it holds {' and '.join(here) or 'none'}")
    if len(main) != 1 and kind is None:
        raise InputError(f"{where}: holds {' and '.join(main) or 'no outputs'}; say which with --kind")
    return _Member(name, where, parts, kind or main[0])


def _names_or_numbers(values: Any, where: str) -> np.ndarray:
    """Class names as texts, or class indices as int64."""
    array = np.asarray(values.cpu() if hasattr(values, "cpu") else values)
    if array.dtype.kind == "O" and array.ndim == 1 and all(isinstance(value, (int, np.integer)) for value in array):
        try:
            array = array.astype(np.int64)
        except OverflowError as error:
            raise InputError(f"{where}: a number beyond 64 bits, expected class indices or names") from error
    if array.dtype.kind in "OUS" and array.ndim == 1:
        return np.array([v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v) for v in array.tolist()])
    if array.dtype.kind not in "iu" or array.ndim != 1:
        arrays.labels(array, name=where)  # says what is wrong with it
    return array.astype(np.int64)


def _classes_that_occur(members: Sequence[_Member]) -> list[str] | None:
    """All classes that occur as labels or answers of members that list none and have no columns to count."""
    from zoo.datasets.folder import class_order

    names: set[str] = set()
    highest = -1
    where = ""
    for member in members:
        if member.classes is not None or member.kind in ("logits", "probabilities"):
            continue
        for what in ("labels", "predictions"):
            if what in member.parts and (what != "predictions" or member.kind == what):
                values = _names_or_numbers(member.parts[what], f"{member.where} {what}")
                where = where or f"{member.where} {what}"
                if values.dtype.kind == "U":
                    names.update(values.tolist())
                else:
                    highest = max(highest, int(values.max(initial=-1)))
    if names and highest >= 0:
        raise InputError(
            f"{where}: some labels or predictions are class names and some are numbers; list them with --classes"
        )
    limits.check_classes(max(highest, len(names) - 1), where)
    return class_order(names) if names else [str(k) for k in range(highest + 1)] if highest >= 0 else None


def _outputs(member: _Member, dataset: "Dataset | None", union: list[str] | None, link: Link) -> Outputs:
    parts, where = member.parts, member.where
    shape = np.shape(parts[member.kind])
    if member.kind in ("logits", "probabilities") and len(shape) != 2:
        raise InputError(f"{where} {member.kind}: expected shape [N, K], found {list(shape)}")
    width = shape[1] if member.kind in ("logits", "probabilities") else None
    of_dataset = dataset.classes if dataset is not None else ()
    classes = member.classes
    if width is None:
        classes = classes or list(of_dataset) or union
    elif (classes is None or _numbered(classes)) and len(of_dataset) == width:
        classes = list(of_dataset)
    check_unique(classes or (), f"{where} classes")
    kept = {member.kind: parts[member.kind]} | ({"embeddings": parts["embeddings"]} if "embeddings" in parts else {})
    outside = None
    if member.kind == "predictions":
        answers = member.positions("predictions", classes or [])
        outside = answers < 0
        if outside.all():
            example = np.asarray(parts["predictions"]).tolist()[0]
            raise InputError(
                f"{where}: no answer of {member.name} is one of the {len(classes or [])} classes; found {example!r}, "
                f"expected an index or a name such as {(classes or ['none'])[0]!r}"
            )
        kept["predictions"] = np.where(outside, 0, answers)
    ids = parts.get("ids")
    ids = None if ids is None else [str(i) for i in np.asarray(ids).tolist()]
    _check_ids(ids or (), where)
    text.check_storable([member.name, *(ids or ()), *(classes or ())], where)
    labels = _labels(member, classes, width)
    try:
        outputs = Outputs.from_arrays(
            member.name, **kept, labels=labels, ids=ids, classes=classes, link=link, targets=parts.get("targets")
        )
    except InputError as error:
        raise InputError(f"{where}: {error}") from error
    if outside is None:
        _check_beside(member, outputs)
        return outputs
    if outside.any():
        row = int(outside.argmax())
        warnings.warn(
            f"{member.name}: {int(outside.sum())} of {len(outside)} answers are none of the {len(classes or [])} classes "
            f"and count as wrong, e.g. {np.asarray(parts['predictions']).tolist()[row]!r} in row {row}",
            ZooWarning,
            stacklevel=3,
        )
    return dataclasses.replace(outputs, values=Column([answers]))


def _check_ids(ids: Sequence[str], where: str) -> None:
    try:
        check_unique(ids, f"{where} ids")
    except InputError as error:
        raise InputError(f"{error}; of a file with several models --column model=NAME says whose each row is") from error


def _labels(member: _Member, classes: Sequence[str] | None, width: int | None) -> np.ndarray | None:
    if "labels" not in member.parts:
        return None
    where = f"{member.where} labels"
    values = _names_or_numbers(member.parts["labels"], where)
    if values.dtype.kind != "U":
        return values
    if classes is None:
        raise InputError(
            f"{where}: are names such as {str(values[0])!r}, but the {width} columns have none; list them with --classes"
        )
    found = member.positions("labels", classes)
    if (found < 0).any():
        row = int((found < 0).argmax())
        raise InputError(f"{where}: row {row} is {str(values[row])!r}, expected one of the {len(classes)} classes")
    return found


def _check_beside(member: _Member, outputs: Outputs) -> None:
    """Say so where predictions that stand beside logits or probabilities are others."""
    if "predictions" in member.parts and np.ndim(member.parts["predictions"]) == 1:
        differ = member.positions("predictions", outputs.classes) != outputs.predictions
        if differ.any():
            warnings.warn(
                f"{member.where}: the predictions of {member.name} differ from the highest {member.kind} in "
                f"{int(differ.sum())} of {len(differ)} rows, first row {int(differ.argmax())}; the {member.kind} are used",
                ZooWarning,
                stacklevel=4,
            )


def _numbered(classes: Sequence[str]) -> bool:
    return list(classes) == [str(k) for k in range(len(classes))]
