"""Outputs of many models on one dataset in one file that travels: written by `zoo export`, read by `zoo import`.

The file is a safetensors file, readable without this package:

    with safetensors.safe_open("study.safetensors", "numpy") as file:
        about = json.loads(file.metadata()["zoo"])  # its "sha256" is the checksum of all other bytes
        ids = json.loads(file.get_tensor("ids").tobytes())
        labels = file.get_tensor("labels")  # [N], indices into about["classes"]
        for model in about["models"]:
            values = file.get_tensor(f"{model['kind']}/{model['name']}")  # [N, K] float16, e.g. logits/resnet20
            card = model["card"]  # Markdown, or null

Embeddings, where there are any, are `embeddings/NAME`. Numbers are float16. Before a softmax only differences between
logits count, so each row is stored less its maximum: what decides a prediction lies near zero, where float16 is finest. The
predictions are those of the original numbers, row by row, and `largest_change` says how far any probability moved.
"""

import dataclasses
import functools
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from zoo.cards import card as cards
from zoo.cards import card_index
from zoo.core import arrays, files, tensorfile
from zoo.core.columns import Column
from zoo.errors import CorruptFile, InputError
from zoo.outputs.outputs import Outputs, Runs

SCHEMA = 1
FORM = "outputs"  # what the note says the file holds
_KEPT = ("weights", "transform", "precision", "fingerprint", "calibration")  # of the details of stored outputs


def export_outputs(runs: Runs | Iterable[Outputs], path: str | Path, embeddings: Iterable[str] = ()) -> dict[str, Any]:
    """Write the outputs of several models on the same examples as one file, and return what its note says.

    `embeddings` names the models whose embeddings go along; the others travel without.

    >>> import tempfile
    >>> file = Path(tempfile.mkdtemp(), "study.safetensors")
    >>> a = Outputs.from_arrays("a", logits=[[4.0, 1.0], [0.0, 9.0]], labels=[0, 1])
    >>> export_outputs([a], file)["models"][0]["largest_change"] < 1e-6
    True
    >>> read(file)["a"].logits.tolist()
    [[0.0, -3.0], [-9.0, 0.0]]
    """
    runs = (runs if isinstance(runs, Runs) else Runs(runs)).aligned()
    wanted = set(embeddings)
    if not len(runs):
        raise InputError("export: expected at least one model's outputs, found none")
    for name in sorted(wanted):
        if runs[name].embeddings is None:
            raise InputError(f"export: {name} has no embeddings; run it with embeddings=True")
    first = next(iter(runs.values()))
    tensors = {"ids": np.frombuffer(json.dumps(first.ids.tolist()).encode(), np.uint8)}
    if first.labels is not None:
        tensors["labels"] = first.labels.astype(np.int32)
    models = []
    for outputs in runs.values():
        values, change = _compact(outputs)
        tensors[f"{outputs.kind}/{outputs.name}"] = values
        if outputs.name in wanted:
            tensors[f"embeddings/{outputs.name}"] = arrays.to_numpy(arrays.tensor(outputs.embeddings, outputs.name)).astype(
                "<f2"
            )
        models.append(_about(outputs, change))
    note = {
        "schema": SCHEMA,
        "form": FORM,
        "dataset": first.dataset,
        "classes": list(first.classes),
        "label_classes": None if first.label_classes is None else list(first.label_classes),
        "models": models,
    }
    files.write(Path(path), tensorfile.encode(tensors, note))
    return note


def shipped(name: str, spec: str | None) -> Outputs | None:
    """The outputs of a model on a dataset that come with the package, if there are any."""
    return next((runs[name] for runs in _shipped() if name in runs.names and runs[name].dataset == spec), None)


def shipped_names(spec: str) -> set[str]:
    """Return the models whose outputs on a dataset are shipped; reads the files' headers only."""
    notes = [tensorfile.read_note(path, check=False) for path in _shipped_files()]
    return {model["name"] for note in notes if note.get("dataset") == spec for model in note["models"]}


def study(spec: str) -> Runs:
    """All outputs on a dataset that come with the package; none where there are none."""
    return Runs(outputs for runs in _shipped() for outputs in runs.values() if outputs.dataset == spec)


def _shipped() -> list[Runs]:
    return [_opened(path) for path in _shipped_files()]


def _shipped_files() -> list[Path]:
    return sorted(card_index.shipped_folder().glob("*.outputs.safetensors"))


def is_bundle(path: Path) -> bool:
    """Whether the file is one of ours that holds outputs of many models; any other file is a plain no."""
    try:
        note = tensorfile.read_note(path, check=False) if path.is_file() and path.suffix == ".safetensors" else None
    except CorruptFile:
        return False
    return isinstance(note, dict) and note.get("form") == FORM


def read(path: str | Path) -> Runs:
    """The outputs in a file that `export_outputs` wrote, memory-mapped; every byte is checked first."""
    path = Path(path)
    tensors, note = tensorfile.read_sealed(path)
    if not isinstance(note, dict) or note.get("form") != FORM:
        raise InputError(f"{path}: does not hold outputs of models; `zoo export` makes a file that does")
    if note["schema"] > SCHEMA:
        raise InputError(f"{path}: schema {note['schema']}, this version reads up to {SCHEMA}; upgrade the package")
    ids = np.array(json.loads(tensors["ids"].tobytes()))
    labels = tensors["labels"].astype(np.int64) if "labels" in tensors else None
    classes, label_classes = tuple(note["classes"]), note["label_classes"]
    found = []
    for about in note["models"]:
        name = about["name"]
        features = tensors.get(f"embeddings/{name}")
        outputs = Outputs(
            name=name,
            kind=about["kind"],
            values=Column([tensors[f"{about['kind']}/{name}"]]),
            ids=ids,
            classes=classes,
            labels=labels,
            embeddings=None if features is None else Column([features]),
            link=about["link"],
            card=None if about["card"] is None else cards.parse(about["card"], f"{path}: {name}"),
            dataset=note["dataset"],
            label_classes=None if label_classes is None else tuple(label_classes),
            details={key: about[key] for key in _KEPT if about.get(key) is not None} | {"bundle": str(path)},
        )
        found.append(outputs)
    return Runs(found)


@functools.cache
def _opened(path: Path) -> Runs:
    """A shipped file, which stays as it is while a process lives."""
    return read(path)


def _about(outputs: Outputs, change: float) -> dict[str, Any]:
    return {
        "name": outputs.name,
        "kind": outputs.kind,
        "link": outputs.link,
        "card": None if outputs.card is None else cards.write(outputs.card),
        "largest_change": change,
        **{key: outputs.details.get(key) for key in _KEPT},
    }


def _compact(outputs: Outputs) -> tuple[np.ndarray, float]:
    """The values as they are stored, and the largest change of a probability that comes of it."""
    exact = arrays.to_numpy(arrays.tensor(outputs.values.array(), outputs.name))
    if outputs.kind in ("predictions", "embeddings"):
        return exact.astype("<i4" if outputs.kind == "predictions" else "<f2"), 0.0
    values = exact.astype(np.float32)
    if outputs.kind == "logits" and outputs.link == "softmax":
        values -= values.max(1, keepdims=True)
    largest = float(np.abs(values[np.isfinite(values)]).max(initial=0))
    if largest > float(np.finfo(np.float16).max):
        raise InputError(
            f"{outputs.name}: one of its {outputs.kind} is {largest:g}, more than float16 holds, so it cannot be exported"
        )
    small = values.astype("<f2")
    top = exact.argmax(1)
    turned = np.flatnonzero(small.argmax(1) != top)  # two that rounding made equal: the winner is lifted by one step
    small[turned, top[turned]] = np.nextafter(small[turned].max(1), np.float16(np.inf))
    before, after = (
        dataclasses.replace(outputs, temperature=None, values=Column([part])).probabilities for part in (exact, small)
    )
    return small, float(np.abs(np.asarray(before, np.float64) - np.asarray(after, np.float64)).max())
