"""Bundles: the outputs of many models on one dataset in one file, written by `zoo export` and read by `zoo import`.

A bundle is a safetensors file, readable without this package:

    with safetensors.safe_open("study.safetensors", "numpy") as file:
        about = json.loads(file.metadata()["zoo"])  # its "sha256" is the checksum of all other bytes
        ids = json.loads(file.get_tensor("ids").tobytes())
        for model in about["models"]:
            values = file.get_tensor(f"{model['kind']}/{model['name']}")  # [N, K], e.g. logits/resnet20
            labels = file.get_tensor(model["labels"])  # [N], indices into about["classes"]; no such tensor if null
            card = model["card"]  # Markdown, or null

Embeddings are in `embeddings/NAME`, targets of a multi-label dataset in the tensor that `model["targets"]` names.

Numbers are stored as float16 if that changes every probability by less than 1e-3 (`largest_change` is the maximum) and every
embedding by less than 1e-3 of its value; else as float32, else as float64. Predictions never change. A softmax depends on
differences of logits only, so rounded logits are stored minus the maximum of their row: the largest ones, which decide the
prediction, are then near zero, where float16 is finest.
"""

import dataclasses
import functools
import json
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zoo.cards import card as cards
from zoo.core import files, tensorfile, text, typed
from zoo.core.columns import Column
from zoo.core.types import Link
from zoo.errors import CorruptFile, InputError, ZooWarning
from zoo.outputs.kinds import Kind
from zoo.outputs.outputs import Outputs, Runs
from zoo.outputs.store.layout import card_text, check_name
from zoo.outputs.store.run_folder import check_fits, read_fits
from zoo.outputs.store.writer import to_numpy
from zoo.outputs.stored_names import REINSTALL, shipped_notes

SCHEMA = 2
FORM = "outputs"  # value of the metadata's field `form`
MAX_CHANGE = 1e-3  # of a probability, and of an embedding relative to its value
_ABSOLUTE = 1e-6  # change of an embedding that does not matter, relative to the largest of its column
_DTYPES = ("<f2", "<f4", "<f8")
_ROWS = 8192  # compared at a time
_MAX_SHOWN = 60  # characters of a name in an error


@dataclass(frozen=True)
class _Undecodable:
    """An image without outputs."""

    id: str
    reason: str = ""


@dataclass(frozen=True)
class _Model:
    """The metadata of one model. Fields without a default are in files of every schema."""

    name: str
    kind: Kind
    link: Link
    card: str | None  # Markdown
    largest_change: float
    card_name: str | None = None  # separate, since a name such as timm:resnet18 is not valid in a card
    weights: str | None = None
    transform: str | None = None
    precision: str | None = None
    fingerprint: str | None = None
    calibration: dict[str, Any] | None = None
    undecodable: list[_Undecodable] | None = None
    dataset: str | None = None  # if it differs from the bundle's
    temperature: float | None = None
    fits: dict[str, dict[str, Any]] | None = None  # records of fitted temperatures by split
    labels: str | None = "labels"  # name of the tensor
    targets: str | None = "targets"
    label_classes: list[str] | None = None

    @property
    def details(self) -> dict[str, Any]:
        """The metadata that `Outputs.details` has."""
        names = ("weights", "transform", "precision", "fingerprint", "calibration", "fits")
        found = {name: value for name in names if (value := getattr(self, name)) is not None}
        if self.undecodable is not None:
            found["undecodable"] = [dataclasses.asdict(image) for image in self.undecodable]
        return found


@dataclass(frozen=True)
class _Note:
    """The metadata of a bundle; `models` are checked one by one."""

    schema: int
    form: str
    dataset: str | None
    classes: list[str]
    models: list[Any]
    label_classes: list[str] | None = None  # of all models, before schema 2


def export_outputs(runs: Runs | Iterable[Outputs], path: str | Path, embeddings: str | Iterable[str] = ()) -> dict[str, Any]:
    """Write the outputs of several models on the same examples to one file, and return the file's metadata.

    Args:
        runs: outputs of at least one model.
        path: the file to write.
        embeddings: models whose embeddings are also written: names, patterns, filters or named sets.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "study.safetensors")
    >>> a = Outputs.from_arrays("a", logits=[[4.0, 1.0], [0.0, 9.0]], labels=[0, 1])
    >>> export_outputs([a], file)["models"][0]["largest_change"] < 1e-6
    True
    >>> read(file)["a"].logits.tolist()
    [[0.0, -3.0], [-9.0, 0.0]]
    """
    runs = (runs if isinstance(runs, Runs) else Runs(runs)).aligned()
    selectors = [embeddings] if isinstance(embeddings, str) else list(embeddings)
    embedded = set(runs.subset(selectors).names) if selectors else set()
    for name in runs.names:
        check_name(name)
    first = next(iter(runs.values()))
    text.check_storable([*first.ids.tolist(), *first.classes], "ids and classes")
    tensors: dict[str, np.ndarray] = {"ids": np.frombuffer(json.dumps(first.ids.tolist()).encode(), np.uint8)}
    models = []
    for outputs in runs.values():
        if outputs.name in embedded:
            tensors[f"embeddings/{outputs.name}"] = _compact_embeddings(to_numpy(outputs.require_embeddings().array()))
        values, change = _compact(outputs)
        tensors[f"{outputs.kind}/{outputs.name}"] = values
        names = {what: _add_shared(tensors, what, getattr(outputs, what), outputs.name) for what in ("labels", "targets")}
        models.append(_describe(outputs, change, names, first.dataset))
    note = {"schema": SCHEMA, "form": FORM, "dataset": first.dataset, "classes": list(first.classes), "models": models}
    files.write(Path(path), tensorfile.encode(tensors, note))
    return note


def shipped(name: str, spec: str | None) -> Outputs | None:
    """Return the shipped outputs of a model on a dataset, or None."""
    return next((runs[name] for runs in _shipped(spec) if name in runs.names), None)


def study(spec: str) -> Runs:
    """Return all shipped outputs on a dataset, possibly of no model."""
    return Runs(outputs for runs in _shipped(spec) for outputs in runs.values())


def _shipped(spec: str | None) -> list[Runs]:
    return [_open_shipped(path) for path, note in shipped_notes().items() if spec is not None and note["dataset"] == spec]


@functools.cache
def _open_shipped(path: Path) -> Runs:
    try:
        return read(path)
    except CorruptFile as error:
        error.hint = REINSTALL
        raise


def is_bundle(path: Path) -> bool:
    """Return whether a file, or the file that a link leads to, is a bundle."""
    try:
        note = tensorfile.read_note(_followed(path), False) if path.is_file() and path.suffix == ".safetensors" else None
    except CorruptFile:
        return False
    return isinstance(note, dict) and note.get("form") == FORM


def read(path: str | Path) -> Runs:
    """Return the outputs in a bundle, memory-mapped, after checking the checksum and all contents.

    A model whose outputs are invalid is skipped with a warning; if all are invalid, the first error is raised.
    """
    path = Path(path)
    try:
        tensors, contents = tensorfile.read_sealed(_followed(path))
        note = _note(contents)
        ids = _ids(tensors)
    except (InputError, CorruptFile) as error:
        if not str(error).startswith(str(path)):
            error.inside(path, contents=True)
        raise
    found: dict[str, Outputs] = {}
    errors = []
    for number, entry in enumerate(note.models):
        try:
            outputs = _outputs(entry, number, note, ids, tensors)
            if outputs.name in found:
                raise InputError("occurs twice in the bundle", where=outputs.name)
            found[outputs.name] = dataclasses.replace(outputs, details=outputs.details | {"bundle": str(path)})
        except (InputError, CorruptFile) as error:
            errors.append(error.inside(path, contents=True))
    if not found:
        raise errors[0] if errors else InputError("holds no models", where=path)
    for problem in errors:
        warnings.warn(f"{problem}; skipped", ZooWarning, stacklevel=2)
    return Runs(found)


def _followed(path: Path) -> Path:
    return path.resolve() if path.is_symlink() else path


def _note(contents: Any) -> _Note:
    if not isinstance(contents, dict) or contents.get("form") != FORM:
        raise InputError("does not hold outputs of models", hint="`zoo export` writes files that do")
    schema = contents.get("schema")
    if isinstance(schema, int) and schema > SCHEMA:
        raise InputError(f"has schema {schema}", expected=f"at most {SCHEMA}", hint="Upgrade the package")
    note: _Note = _build(_Note, contents, "metadata")
    text.check_storable([*note.classes, note.dataset or ""], "metadata")
    return note


def _build(kind: type[Any], values: Any, where: str) -> Any:
    try:
        return typed.build(kind, values, where, "zoo")
    except RecursionError as error:
        raise CorruptFile("is nested too deeply", where=where) from error


def _ids(tensors: dict[str, np.ndarray]) -> np.ndarray:
    if "ids" not in tensors:
        raise CorruptFile("has no tensor 'ids'")
    ids = files.parse_json(tensors["ids"].tobytes(), "ids")
    if not isinstance(ids, list) or not all(isinstance(row_id, str) for row_id in ids):
        raise InputError(argument="ids", expected="a list of texts")
    text.check_storable(ids, "ids")
    array = np.array(ids, dtype=str)
    array.flags.writeable = False
    return array


def _outputs(entry: Any, number: int, note: _Note, ids: np.ndarray, tensors: dict[str, np.ndarray]) -> Outputs:
    name = entry.get("name") if isinstance(entry, dict) else None
    where = text.as_text(name)[:_MAX_SHOWN] if isinstance(name, str) and name else f"model {number}"
    about: _Model = _build(_Model, entry, where)
    check_name(about.name, where)
    dataset = about.dataset or note.dataset or None
    if dataset is not None and not text.is_one_line(dataset):
        raise InputError(where=where, argument="dataset", expected="text without control characters", found=dataset)
    values = f"{about.kind}/{about.name}"
    if values not in tensors:
        raise CorruptFile(f"has no tensor {values!r}", where=where)
    try:
        card = None if about.card is None else cards.parse(about.card, "card")
        if card is not None and about.card_name is not None:
            card = dataclasses.replace(card, name=about.card_name)
        for fits in (about.fits, None if about.calibration is None else {"calibration": about.calibration}):
            check_fits(fits or {})
    except RecursionError as error:
        raise CorruptFile("is nested too deeply", where=where) from error
    except InputError as error:
        error.inside(where)
        raise
    arrays: dict[str, Any] = {about.kind: tensors[values]}
    arrays.setdefault("embeddings", tensors.get(f"embeddings/{about.name}"))
    outputs = Outputs.from_arrays(
        about.name,
        **arrays,
        labels=_tensor(tensors, about.labels, note, where),
        targets=_tensor(tensors, about.targets, note, where),
        ids=ids,
        classes=note.classes,
        label_classes=about.label_classes if note.schema > 1 else note.label_classes,
        link=about.link,
        temperature=about.temperature,
        card=card,
        dataset=dataset,
    )
    return dataclasses.replace(outputs, details=about.details)


def _tensor(tensors: dict[str, np.ndarray], name: str | None, note: _Note, where: str) -> np.ndarray | None:
    if name is not None and name not in tensors and note.schema > 1:
        raise CorruptFile(f"has no tensor {name!r}", where=where)
    return None if name is None else tensors.get(name)


def _describe(outputs: Outputs, change: float, tensors: dict[str, str | None], dataset: str | None) -> dict[str, Any]:
    details = outputs.details
    record = details.get("calibration")
    fits = dict(details.get("fits") or {}) | (read_fits(outputs.path) if outputs.path is not None else {})
    return dataclasses.asdict(
        _Model(
            name=outputs.name,
            kind=outputs.kind,
            link=outputs.link,
            card=None if outputs.card is None else card_text(outputs.card),
            card_name=None if outputs.card is None else outputs.card.name,
            largest_change=change,
            weights=details.get("weights"),
            transform=details.get("transform"),
            precision=details.get("precision"),
            fingerprint=details.get("fingerprint"),
            calibration=None if record is None else record | {"temperature": float(record["temperature"])},
            undecodable=[_Undecodable(**image) for image in details["undecodable"]] if "undecodable" in details else None,
            dataset=None if outputs.dataset == dataset else outputs.dataset,
            temperature=None if outputs.temperature is None else float(outputs.temperature),
            fits=fits or None,
            labels=tensors["labels"],
            targets=tensors["targets"],
            label_classes=None if outputs.label_classes is None else list(outputs.label_classes),
        )
    )


def _add_shared(tensors: dict[str, np.ndarray], what: str, values: np.ndarray | None, model: str) -> str | None:
    """Add labels or targets to the tensors, and return the name of the tensor: one for all models that agree."""
    if values is None:
        return None
    stored = values.astype(np.int32 if what == "labels" else np.int8)
    name = what if what not in tensors or np.array_equal(tensors[what], stored) else f"{what}/{model}"
    tensors[name] = stored
    return name


def _compact(outputs: Outputs) -> tuple[np.ndarray, float]:
    """Return the values in the smallest format that is precise enough, and the largest change of a probability."""
    exact = to_numpy(outputs.values.array())
    if outputs.kind == "predictions":
        return exact.astype("<i4"), 0.0
    if outputs.kind == "embeddings":
        return _compact_embeddings(exact), 0.0
    for dtype in _DTYPES:
        if exact.dtype.itemsize <= np.dtype(dtype).itemsize:
            break
        rounded = _rounded(exact, outputs, dtype)
        change = max(_changes(exact, rounded, outputs))
        if change < MAX_CHANGE:
            return rounded, change
    return exact, 0.0


def _rounded(exact: np.ndarray, outputs: Outputs, dtype: str) -> np.ndarray:
    values = exact - exact.max(1, keepdims=True) if (outputs.kind, outputs.link) == ("logits", "softmax") else exact
    with np.errstate(over="ignore"):
        rounded = values.astype(dtype)
    top = exact.argmax(1)
    # Rounding can make the two largest values of a row equal; the winner is then raised by one step.
    changed = np.flatnonzero(rounded.argmax(1) != top)
    rounded[changed, top[changed]] = np.nextafter(rounded[changed].max(1), rounded.dtype.type(np.inf))
    return rounded


def _changes(exact: np.ndarray, rounded: np.ndarray, outputs: Outputs) -> Iterator[float]:
    """Yield the largest change of a probability in each block of rows; infinity if a class becomes impossible."""
    for start in range(0, len(exact), _ROWS):
        before, after = exact[start : start + _ROWS], rounded[start : start + _ROWS]
        is_masked = (lambda x: x == 0) if outputs.kind == "probabilities" else np.isneginf
        if not np.array_equal(is_masked(before), is_masked(after)) or np.isposinf(after).any():
            yield np.inf
            continue
        for temperature in {None, outputs.temperature}:
            p, q = (
                np.asarray(dataclasses.replace(outputs, temperature=temperature, values=Column([block])).probabilities)
                for block in (before, after)
            )
            yield float(np.abs(p.astype(np.float64) - q.astype(np.float64)).max())


def _compact_embeddings(exact: np.ndarray) -> np.ndarray:
    magnitude = np.abs(exact.astype(np.float64))
    tolerance = MAX_CHANGE * magnitude + _ABSOLUTE * magnitude.max(0)
    for dtype in _DTYPES:
        if exact.dtype.itemsize <= np.dtype(dtype).itemsize:
            break
        with np.errstate(over="ignore"):
            rounded = exact.astype(dtype)
        if (np.abs(rounded.astype(np.float64) - exact) <= tolerance).all():
            return rounded
    return exact
