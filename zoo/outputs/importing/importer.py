"""`zoo.import_outputs`: outputs from any file, frame or arrays, as the same `Outputs` that a run returns."""

import dataclasses
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zoo.cards.names import similar
from zoo.core import arrays, checks, limits, text
from zoo.core.columns import Column
from zoo.core.text import check_unique
from zoo.core.types import Link
from zoo.errors import InputError, UnknownName, ZooWarning
from zoo.outputs.importing import dataset_check, inputs
from zoo.outputs.importing.contents import PRESENT, Parts, Reading, of_arrays, of_table
from zoo.outputs.importing.id_pattern import identifying_parts
from zoo.outputs.kinds import KINDS, Kind
from zoo.outputs.outputs import Outputs, Runs
from zoo.outputs.store.layout import check_name

if TYPE_CHECKING:
    from zoo.outputs.importing.dataset_check import Known
    from zoo.outputs.importing.inputs import Source, Values

MIN_LABELLED = 50  # examples from which on accuracy far below chance is worth a warning
_MAX_PAIRS = 25_000_000  # of predicted and true classes, for which the best matching is computed
_MAX_LISTED = 5


def import_outputs(
    source: "Source",
    name: str | None = None,
    kind: Kind | None = None,
    labels: "Values | None" = None,
    classes: "Values | None" = None,
    ids: "Values | None" = None,
    link: Link | None = None,
    data: str | None = None,
    columns: Mapping[str, str] | None = None,
    meta: "Source | None" = None,
    positive_class: str | int | None = None,
    drop_missing: bool = False,
    drop_unknown: bool = False,
    id_pattern: str | None = None,
) -> Runs:
    """Return outputs from a file, several files or a folder of files, from a frame, or from arrays by name.

    Arrays (`.npz`, `.safetensors`, `.json`, a mapping) are called `logits`, `probabilities` or `predictions`, and maybe
    `embeddings`, `labels`, `ids`, `classes`; with several models `MODEL/logits`, or just `MODEL` if `kind` is given. The
    array of a `.npy` file has no name, so `kind` says what it holds. A JSON list of class indices or names is predictions,
    and so is a JSON object of them by id.

    Tables (`.csv`, `.tsv`, `.jsonl`, `.parquet`, `.feather`, a pandas or polars frame, a `datasets.Dataset`) have one row
    per example, or per model and example with a column `model`. They have columns `id`, `label`, and either `prediction`, a
    column of lists (`logits`), or one column per class (`prob_0`, `probabilities.cat`; just `cat` if `kind` is given).
    Labels may be one-hot columns (`label_cat`, ...). With `kind="predictions"` every other column is a model. Common names
    such as `y_true` or `Filename` are understood.

    A bundle that `export_outputs` wrote says all of this itself. `name`, `data` and `meta` apply to it; `kind` and `link`
    must be those of the bundle; the other arguments are refused.

    Labels and predictions are class indices or class names. Without a list of classes, the classes are those that occur.
    With one (`classes`, or the dataset's), predictions of other classes become -1, which counts as wrong, with a warning.

    Args:
        source: what to import.
        name: the model's name; default: the name in the file, or of the file.
        kind: what the outputs are, if their names do not say it; not needed for probabilities whose rows sum to one.
        labels: [N] true classes; an array, a `.npy` file, or a text file with one label per line. A folder may hold them as
            `labels.npy`.
        classes: [K] class names; in a folder `classes.txt`.
        ids: [N] names of the examples; in a folder `ids.txt`.
        link: how logits become probabilities; default softmax.
        data: the dataset, known or user-defined. Ids, classes and labels that are not imported are taken from it.
        columns: names of columns by their meaning, for example `{"predictions": "guess"}`.
        meta: a table about the models, see `zoo.outputs.importing.metadata`.
        positive_class: the class that the probabilities [N] or [N, 1] of a binary classifier refer to; default: the class in
            the column's name, else the second class.
        drop_missing: whether to drop rows that lack a label, a prediction, an id or a number, with a warning.
        drop_unknown: whether to drop rows whose prediction is none of the classes, instead of counting them as wrong. If no
            classes are listed, they are those of the labels.
        id_pattern: regular expression that matches every id; its first group identifies the example. `.*_(.+)` reads
            `0002_subject7_dog1.png` as `dog1.png`.

    >>> predictions = {"y_true": ["cat", "dog"], "y_pred": ["cat", "cat"]}
    >>> outputs = import_outputs(predictions, name="a")["a"]
    >>> outputs.classes, outputs.accuracy
    (('cat', 'dog'), 0.5)
    """
    if kind is not None and kind not in KINDS:
        raise InputError(argument="kind", expected=f"one of {', '.join(KINDS)}", found=kind)
    arguments = {"labels": labels, "classes": classes, "ids": ids}
    shared = {key: value for key, value in arguments.items() if value is not None}
    options = _Options(kind, link, shared, dict(columns or {}), positive_class, drop_missing, drop_unknown, id_pattern)
    known = None if data is None else dataset_check.find(data)
    entries = _read(source, name, known, options)
    members = [entry for entry in entries if isinstance(entry, _Member)]
    complete = known is not None and known.dataset is not None and bool(known.classes)
    union = None if complete else _classes_that_occur(members, drop_unknown)
    made = [_outputs(entry, known, union, options) if isinstance(entry, _Member) else entry for entry in entries]
    if known is None or known.dataset is None:
        dataset_check.warn_of_missing_rows(made)
    if known is not None:
        dataset_check.warn_of_missing_labels(made, known)
    if meta is not None:
        from zoo.outputs.importing.metadata import with_cards

        made = with_cards(made, meta)
    for outputs in made:
        _warn_if_below_chance(outputs)
    return Runs(made)


@dataclass(frozen=True)
class _Options:
    """The arguments of `import_outputs` that say how to read each source."""

    kind: Kind | None
    link: Link | None
    shared: dict[str, Any]  # labels, classes and ids of all models
    columns: dict[str, str]
    positive_class: str | int | None
    drop_missing: bool
    drop_unknown: bool
    id_pattern: str | None


def _read(source: Any, name: str | None, known: "Known | None", options: _Options) -> "list[_Member | Outputs]":
    """Return the contents of each model, in the order of the sources; those of a bundle are complete outputs."""
    entries: dict[str, _Member | Outputs] = {}
    places: dict[str, str] = {}  # where each model was found
    left_out: dict[str, list[str]] = {}
    for found in inputs.read_sources(source):
        if isinstance(found.contents, Runs):
            bundled = _from_bundle(found.where, found.contents, known, options)
            read: Iterable[_Member | Outputs] = [
                one if name is None else dataclasses.replace(one, name=name) for one in bundled
            ]
        else:
            read = _members(found, name, options, left_out)
        for entry in read:
            check_name(entry.name, found.where)
            if name is not None and entries:
                raise InputError("is a single name for several models", argument="name", found=name, hint="Leave it out")
            if entry.name in entries:
                both = " and ".join(dict.fromkeys([places[entry.name], found.where]))
                hint = "Import the files one by one, with {name=NAME}"
                raise InputError(f"more than one model is called {entry.name!r}", where=both, hint=hint)
            entries[entry.name], places[entry.name] = entry, found.where
    for problem, files in left_out.items():
        where = files[0] if len(files) == 1 else f"{len(files)} files, first {files[0]}"
        warnings.warn(f"{where}: {problem}", ZooWarning, stacklevel=4)
    return list(entries.values())


def _members(
    found: inputs.Found, name: str | None, options: _Options, left_out: dict[str, list[str]]
) -> "Iterator[_Member]":
    paths = found.shared | options.shared
    shared = {key: inputs.read_values(value, key) for key, value in paths.items()}
    classes = None if "classes" not in shared else [str(c) for c in shared["classes"]]
    reading = Reading(found.where, options.kind, options.columns, classes, options.drop_missing, left_out)
    contents: Any = found.contents
    for model, parts in of_arrays(contents, reading) if isinstance(contents, Mapping) else of_table(contents, reading):
        called = name or model or found.name
        if called is None:
            raise InputError("has no name", where=found.where, hint="Pass {name=NAME}")
        parts = parts | shared
        if options.id_pattern is not None:
            parts["ids"] = identifying_parts(parts.get("ids"), options.id_pattern, found.where)
        yield _member(called, found.where, parts, options)


def _from_bundle(where: str, runs: Runs, known: "Known | None", options: _Options) -> list[Outputs]:
    """Return the outputs in a bundle, on the requested dataset; refuse arguments that contradict the bundle."""
    arguments = {
        **options.shared, "columns": options.columns or None, "positive_class": options.positive_class,
        "id_pattern": options.id_pattern,
    }  # fmt: skip
    for argument, value in arguments.items():
        if value is not None:
            raise InputError("is not used: a bundle has its own", where=where, argument=argument, hint="Leave it out")
    expected = {"kind": options.kind, "link": options.link, "data": None if known is None else known.spec}
    made, errors = [], []
    for outputs in runs.values():
        place = f"{where}: {outputs.name}"
        stored = {"kind": outputs.kind, "link": outputs.link, "data": outputs.dataset}
        for argument, value in expected.items():
            if value is not None and stored[argument] not in (value, None):
                raise InputError(
                    where=place, argument=argument, expected=f"{stored[argument]}, as in the bundle", found=value
                )
        spec = outputs.dataset or expected["data"]
        dataset = None if spec is None else dataset_check.without_images(spec)
        outputs = _without_unknown(dataclasses.replace(outputs, dataset=spec), where, options)
        try:
            made.append(outputs if dataset is None else dataset_check.complete(outputs, dataset))
        except InputError as error:
            errors.append(error.inside(where))
    if errors and not made:
        raise errors[0]
    for problem in errors:
        warnings.warn(f"{problem}; skipped", ZooWarning, stacklevel=5)
    return made


def _without_unknown(outputs: Outputs, where: str, options: _Options) -> Outputs:
    """Return the outputs in a bundle without the rows that have no prediction, if these are to be dropped."""
    if outputs.kind != "predictions" or not options.drop_unknown:
        return outputs
    rows = outputs.predictions != arrays.NO_PREDICTION
    if rows.all():
        return outputs
    if not rows.any():
        raise InputError("has no predictions", where=f"{where}: {outputs.name}")
    dropped = f"{int((~rows).sum())} of {len(rows)} predictions of {outputs.name}"
    warnings.warn(f"{where}: {dropped} are none of the classes and are dropped", ZooWarning, stacklevel=6)
    return outputs.select(rows)


@dataclass(frozen=True)
class _Member:
    """The contents of a source for one model."""

    name: str
    where: str
    parts: Parts
    kind: Kind  # of its outputs
    rows: np.ndarray | None = None  # positions of the rows in the file, if some were dropped
    dropped: int = 0  # rows

    @property
    def has_ids(self) -> bool:
        """Whether the file names the examples."""
        return "ids" in self.parts

    @property
    def classes(self) -> list[str] | None:
        """The class names in the file, if it has any."""
        return None if self.parts.get("classes") is None else [str(c) for c in self.parts["classes"]]

    @property
    def is_binary(self) -> bool:
        """Whether there is one probability per example, that of the positive class."""
        shape = np.shape(self.parts[self.kind])
        return self.kind == "probabilities" and (len(shape) == 1 or shape[1:] == (1,))

    @property
    def width(self) -> int | None:
        """The number of columns, one per class."""
        has_columns = self.kind in ("logits", "probabilities") and not self.is_binary
        return int(np.shape(self.parts[self.kind])[1]) if has_columns else None

    def row(self, mask: np.ndarray) -> int:
        """Return the file's row number of the first True in a mask over the rows that were not dropped."""
        first = int(mask.argmax())
        return first if self.rows is None else int(self.rows[first])

    def positions(self, what: str, classes: Sequence[str]) -> np.ndarray:
        """Return labels or predictions as indices into `classes`; -1 for other classes."""
        values = _names_or_numbers(self.parts[what], f"{self.where}: {what}")
        if values.dtype.kind == "U":
            import pandas as pd

            return pd.Index(list(classes)).get_indexer(values.astype(object)).astype(np.int64)  # type: ignore[arg-type]
        return np.where((values >= 0) & (values < len(classes)), values, -1).astype(np.int64)


def _member(name: str, where: str, parts: Parts, options: _Options) -> _Member:
    kind = options.kind
    in_table = parts.pop(PRESENT, True)
    present: list[Kind] = [k for k in KINDS if k in parts]
    main = [k for k in present if k != "embeddings"] or present
    if len(main) == 2 and main[1] == "predictions":
        main = main[:1]  # the predictions follow from the logits or probabilities
    if kind is not None and kind not in present:
        problem = f"holds {' and '.join(present) or 'no outputs'}, not {kind}"
        raise InputError(problem, where=where, argument="kind", found=kind)
    if len(main) != 1 and kind is None:
        problem = f"holds {' and '.join(main) or 'no outputs'}"
        raise InputError(problem, where=where, expected="outputs of one kind", hint="Choose one with {kind}")
    member = _Member(name, where, parts, kind or main[0])
    shape = np.shape(parts[member.kind])
    if member.kind in ("logits", "probabilities") and len(shape) != 2 and not member.is_binary:
        raise InputError(where=where, argument=member.kind, expected="of shape [N, K]", found=list(shape))
    if options.drop_missing:
        member = _without_missing(member, in_table)
    values = np.asarray(member.parts[member.kind]) if member.kind == "predictions" else None
    if values is not None and values.dtype.kind == "f" and ((values >= 0) & (values <= 1)).all():
        raise InputError(
            "the predictions are numbers from 0 to 1",
            where=where,
            expected="class indices or names",
            hint="If they are probabilities of the positive class, pass {kind=probabilities}",
        )
    if member.is_binary and "labels" in member.parts:
        labels = _binary_labels(member.parts["labels"], f"{where}: labels")
        return dataclasses.replace(member, parts=member.parts | {"labels": labels})
    return member


def _without_missing(member: _Member, in_table: Any) -> _Member:
    """Return a model without the rows that lack a value, with a warning that counts them.

    `in_table` [N] says which rows of its table have no empty cell.
    """
    import pandas as pd

    arrays_by_row = {
        key: np.asarray(value.cpu() if hasattr(value, "cpu") else value)
        for key, value in member.parts.items()
        if key not in ("classes", "positive_class")
    }
    present = np.ones(len(arrays_by_row[member.kind]), bool) & in_table
    for key, array in arrays_by_row.items():
        if len(array) != len(present):
            raise InputError(
                where=member.where, argument=key, expected=f"{len(present)} rows, one per example", found=len(array)
            )
        present &= ~pd.isna(array).reshape(len(array), -1).any(1)
    if present.all():
        return member
    if not present.any():
        raise InputError(f"every row of {member.name} lacks a value", where=member.where)
    warnings.warn(
        f"{member.where}: dropped {int((~present).sum())} of {len(present)} rows of {member.name}, which lack a value",
        ZooWarning,
        stacklevel=5,
    )
    kept = {key: array[present] for key, array in arrays_by_row.items()}
    for key in kept.keys() & {"labels", "predictions"}:  # NaN made whole numbers floating-point numbers
        if kept[key].dtype.kind == "f" and (kept[key] == np.floor(kept[key])).all():
            kept[key] = kept[key].astype(np.int64)
    rows = np.flatnonzero(present)
    return dataclasses.replace(member, parts=member.parts | kept, rows=rows, dropped=len(present) - len(rows))


def _binary_labels(labels: Any, where: str) -> np.ndarray:
    """Return labels with two values other than 0 and 1, such as -1 and 1, as class names; other labels unchanged."""
    values = _names_or_numbers(labels, where)
    seen = set(values.tolist())
    return values.astype(str) if values.dtype.kind != "U" and len(seen) == 2 and seen != {0, 1} else values


def _names_or_numbers(values: Any, where: str) -> np.ndarray:
    """Return class names as texts, or class indices as int64."""
    array = np.asarray(values.cpu() if hasattr(values, "cpu") else values)
    if array.dtype.kind == "O" and array.ndim == 1 and all(isinstance(value, (int, np.integer)) for value in array):
        try:
            array = array.astype(np.int64)
        except OverflowError as error:
            raise InputError("has a number beyond 64 bits", where=where, expected="class indices or names") from error
    if array.dtype.kind in "OUS" and array.ndim == 1:
        return np.array([v.decode("utf-8", "replace") if isinstance(v, bytes) else str(v) for v in array.tolist()])
    if array.dtype.kind not in "iu" or array.ndim != 1:
        checks.labels(array, name=where)  # raises the error that says what is wrong
    return array.astype(np.int64)


def _classes_that_occur(members: Sequence[_Member], only_labels: bool) -> list[str] | None:
    """Return all classes that occur as labels or predictions of models without class names or a column per class.

    With `only_labels`, predictions do not count if there are labels.
    """
    from zoo.datasets.folder import class_order

    names: set[str] = set()
    highest = -1
    where = ""
    only_labels = only_labels and any("labels" in member.parts for member in members)
    for member in members:
        if member.classes is not None or member.width is not None:
            continue
        for what in ("labels",) if only_labels else ("labels", "predictions"):
            if what in member.parts and (what != "predictions" or member.kind == what):
                values = _names_or_numbers(member.parts[what], f"{member.where}: {what}")
                where = where or f"{member.where}: {what}"
                if values.dtype.kind == "U":
                    names.update(values.tolist())
                else:
                    highest = max(highest, int(values.max(initial=1 if member.is_binary else -1)))
    if names and highest >= 0:
        raise InputError("some classes are names and some are numbers", where=where, hint="List the classes with {classes}")
    limits.check_classes(max(highest, len(names) - 1), where)
    return class_order(names) if names else [str(k) for k in range(highest + 1)] if highest >= 0 else None


def _outputs(member: _Member, known: "Known | None", union: list[str] | None, options: _Options) -> Outputs:
    parts, where = member.parts, member.where
    classes = _class_names(member, known, union)
    check_unique(classes or (), f"{where}: classes")
    values = {member.kind: parts[member.kind]} | ({"embeddings": parts["embeddings"]} if "embeddings" in parts else {})
    if member.is_binary:
        of_dataset = known is not None and bool(known.classes)
        values["probabilities"] = _two_columns(member, classes or [], options.positive_class, of_dataset)
    outside = None
    if member.kind == "predictions":
        predictions = member.positions("predictions", classes or [])
        outside = predictions < 0
        if outside.all():
            example = np.asarray(parts["predictions"]).tolist()[0]
            raise InputError(
                f"no prediction of {member.name} is one of the {len(classes or [])} classes; the first is {example!r}",
                where=where,
                expected=f"an index or a name such as {(classes or ['none'])[0]!r}",
            )
        values["predictions"] = np.where(outside, 0, predictions)
    ids = member.rows if member.rows is not None and not member.has_ids else parts.get("ids")
    ids = None if ids is None else [str(i) for i in np.asarray(ids).tolist()]
    try:
        check_unique(ids or (), f"{where}: ids")
    except InputError as error:
        error.hint = "If the file holds several models, name the column that says which with {columns=model=NAME}"
        raise
    text.check_storable([*(ids or ()), *(classes or ())], where)
    labels = _labels(member, classes)
    try:
        outputs = Outputs.from_arrays(
            member.name,
            **values,
            labels=labels,
            ids=ids,
            classes=classes,
            link=options.link or "softmax",
            targets=parts.get("targets"),
            dataset=None if known is None else known.spec,
        )
        if outside is not None:
            outputs = dataclasses.replace(outputs, values=Column([predictions]))
        if known is not None and known.dataset is not None:
            if not member.has_ids:
                outputs = dataset_check.with_ids(outputs, known.dataset, member.rows, member.dropped)
            outputs = dataset_check.complete(outputs, known.dataset)
    except InputError as error:
        error.inside(where, contents=error.argument not in options.shared)
        raise
    if outside is None:
        _check_predictions(member, outputs)
        return outputs
    if not outside.any():
        return outputs
    warnings.warn(
        f"{where}: {int(outside.sum())} of {len(outside)} predictions of {member.name} are none of the "
        f"{len(classes or [])} classes and {'are dropped' if options.drop_unknown else 'count as wrong'}, e.g. "
        f"{np.asarray(parts['predictions']).tolist()[outside.argmax()]!r} in row {member.row(outside)}",
        ZooWarning,
        stacklevel=3,
    )
    return outputs.select(~outside) if options.drop_unknown else outputs


def _class_names(member: _Member, known: "Known | None", union: list[str] | None) -> list[str] | None:
    """Return the classes of a model: from its file, else the dataset's if they fit, else all that occur."""
    classes, of_dataset = member.classes, list(known.classes) if known is not None else []
    if member.width is not None:
        unnamed = classes is None or _are_numbers(classes)
        return of_dataset if unnamed and len(of_dataset) == member.width else classes
    named = union is not None and not _are_numbers(union)
    if named and not set(union or ()) <= set(of_dataset):  # the dataset's classes by other names
        of_dataset = []
    return classes or of_dataset or union


def _two_columns(member: _Member, classes: Sequence[str], positive_class: str | int | None, of_dataset: bool) -> np.ndarray:
    """Return the probabilities [N, 2] of both classes, given those of the positive class, [N] or [N, 1]."""
    p = arrays.to_numpy(checks.array(member.parts["probabilities"], member.where)).astype(np.float64).reshape(-1)
    if len(classes) != 2:
        raise InputError(
            f"holds one probability per example and {len(classes)} classes",
            where=member.where,
            expected="two classes",
            hint="List them with {classes}, or import labels",
        )
    outside = ~((p >= 0) & (p <= 1))
    if outside.any():
        problem = f"row {member.row(outside)} is {p[outside.argmax()]:g}"
        raise InputError(problem, where=member.where, argument="probabilities", expected="from 0 to 1")
    position = _class_index(positive_class, classes)
    if positive_class is not None and position is None:
        raise UnknownName(
            kind="class", name=str(positive_class), argument="positive_class", where=member.where,
            suggestions=similar(str(positive_class), classes) or list(classes),
        )  # fmt: skip
    if position is None:
        position = _class_index(member.parts.get("positive_class"), classes)
    if position is None:
        position = 1
        if member.classes is None and not of_dataset and not _are_numbers(classes):
            warnings.warn(
                f"{member.where}: read as the probability of {classes[1]!r}, the second class; import it with "
                f"positive_class={classes[0]!r} (--positive-class) if it is that of {classes[0]!r}",
                ZooWarning,
                stacklevel=4,
            )
    return np.stack([1 - p, p], 1) if position == 1 else np.stack([p, 1 - p], 1)


def _class_index(name: str | int | None, classes: Sequence[str]) -> int | None:
    """Return the index of a class, given by its name or its index."""
    if name is None:
        return None
    if str(name) in classes:
        return list(classes).index(str(name))
    return int(name) if str(name) in [str(k) for k in range(len(classes))] else None


def _labels(member: _Member, classes: Sequence[str] | None) -> np.ndarray | None:
    if "labels" not in member.parts:
        return None
    where = f"{member.where}: labels"
    values = _names_or_numbers(member.parts["labels"], where)
    if values.dtype.kind != "U":
        return values
    if classes is None:
        raise InputError(
            f"are names such as {str(values[0])!r}, but the {member.width} columns have none",
            where=where,
            hint="List the classes with {classes}",
        )
    found = member.positions("labels", classes)
    if (found < 0).any():
        problem = f"row {member.row(found < 0)} is {str(values[(found < 0).argmax()])!r}"
        raise InputError(problem, where=where, expected=f"one of the {len(classes)} classes")
    return found


def _check_predictions(member: _Member, outputs: Outputs) -> None:
    """Warn if imported predictions differ from those that follow from the logits or probabilities."""
    if "predictions" in member.parts and np.ndim(member.parts["predictions"]) == 1:
        differ = member.positions("predictions", outputs.classes) != outputs.predictions
        if differ.any():
            warnings.warn(
                f"{member.where}: the predictions of {member.name} differ from the highest {member.kind} in "
                f"{int(differ.sum())} of {len(differ)} rows, first row {member.row(differ)}; the {member.kind} are used",
                ZooWarning,
                stacklevel=4,
            )


def _warn_if_below_chance(outputs: Outputs) -> None:
    """Warn if accuracy is below half of chance level; name the renaming of classes that fits the labels best."""
    if outputs.kind == "embeddings" or outputs.labels is None or outputs.label_classes is not None:
        return
    chance = 1 / len(outputs.classes)
    if len(outputs) < MIN_LABELLED or len(outputs.classes) < 2 or outputs.accuracy >= chance / 2:
        return
    warnings.warn(
        f"{outputs.name}: accuracy {outputs.accuracy:.1%} is far below chance ({chance:.1%}), so the order of the classes "
        f"or the labels may be wrong{_best_permutation(outputs)}",
        ZooWarning,
        stacklevel=3,
    )


def _best_permutation(outputs: Outputs) -> str:
    """Return a clause that names the renaming of predicted classes with the highest accuracy, and this accuracy."""
    from scipy.optimize import linear_sum_assignment

    valid = outputs.predictions != arrays.NO_PREDICTION
    predicted, rows = np.unique(outputs.predictions[valid], return_inverse=True)
    true, columns = np.unique(outputs.require_labels()[valid], return_inverse=True)
    if len(predicted) * len(true) > _MAX_PAIRS:
        return ""
    confusion = np.zeros((len(predicted), len(true)), np.int64)
    np.add.at(confusion, (rows, columns), 1)
    chosen = linear_sum_assignment(confusion, maximize=True)
    pairs = [(outputs.classes[predicted[r]], outputs.classes[true[c]]) for r, c in zip(*chosen, strict=True)]
    renamed = [f"{a!r} as {b!r}" for a, b in pairs if a != b]
    more = f" and {len(renamed) - _MAX_LISTED} more" if len(renamed) > _MAX_LISTED else ""
    accuracy = confusion[chosen].sum() / len(outputs)
    return f"; reading {', '.join(renamed[:_MAX_LISTED])}{more} would give {accuracy:.1%}"


def _are_numbers(classes: Sequence[str]) -> bool:
    return list(classes) == [str(k) for k in range(len(classes))]
