"""Alignment: outputs of several models are matched by example id and class name, never by position."""

import dataclasses
import warnings
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING

import numpy as np

from zoo.core import arrays
from zoo.core.columns import Column
from zoo.errors import InputError, ZooWarning

if TYPE_CHECKING:
    from zoo.outputs.outputs import Outputs


def align(outputs: "Sequence[Outputs]") -> "list[Outputs]":
    """Return outputs with the rows and columns of the first one, matched by id and class name.

    Different sets of ids or of classes, and contradictory labels, are errors. Outputs without labels get those of the
    others.
    """
    _require_one(outputs)
    first = outputs[0]
    aligned = [first]
    for other in outputs[1:]:
        if other.classes != first.classes:
            other = _reorder_classes(other, first)
        if not np.array_equal(other.ids, first.ids):
            other = other.select(_matching_rows(other, first))
        labelled = next((o for o in aligned if o.labels is not None), None)
        if labelled is not None and other.labels is not None and labelled.label_classes == other.label_classes:
            different = np.flatnonzero(labelled.labels != other.labels)
            if len(different):
                example = str(first.ids[different[0]])
                raise InputError(
                    f"labels differ on {len(different)} examples, first {example!r}",
                    where=f"{labelled.name} and {other.name}",
                )
        aligned.append(other)
    labelled = next((o for o in aligned if o.labels is not None), None)
    if labelled is None:
        return aligned
    return [
        o if o.labels is not None else dataclasses.replace(o, labels=labelled.labels, label_classes=labelled.label_classes)
        for o in aligned
    ]


def common_rows(outputs: "Sequence[Outputs]") -> list[np.ndarray]:
    """Return, for each of the outputs, the rows of the examples that all of them have, in the first one's order."""
    _require_one(outputs)
    shared = set.intersection(*(set(one.ids.tolist()) for one in outputs))
    if not shared:
        raise InputError("have no example in common", where=", ".join(one.name for one in outputs))
    order = [row_id for row_id in outputs[0].ids.tolist() if row_id in shared]
    positions = [{row_id: row for row, row_id in enumerate(one.ids.tolist())} for one in outputs]
    return [np.array([position[row_id] for row_id in order]) for position in positions]


def fitting(outputs: "Sequence[Outputs]", optional: Container[str]) -> "list[Outputs]":
    """Return the outputs on the expected examples and classes, and all that are not optional; warn of the others.

    Args:
        outputs: of several models.
        optional: names of the models that may be skipped. The most common examples and classes are expected, counting only
            models that are not optional, if there are any.
    """
    arrays_of_ids = {id(one.ids): one.ids for one in outputs}  # runs on the same examples share one array of ids
    sets = {key: frozenset(ids.tolist()) for key, ids in arrays_of_ids.items()}
    kinds = [(frozenset(one.classes), sets[id(one.ids)]) for one in outputs]
    required = [kind for kind, one in zip(kinds, outputs, strict=True) if one.name not in optional] or kinds
    expected = max(required, key=required.count) if required else None
    kept = []
    for kind, one in zip(kinds, outputs, strict=True):
        if one.name not in optional or kind == expected:
            kept.append(one)
            continue
        what = "classes" if expected is not None and kind[0] != expected[0] else "examples"
        warnings.warn(f"{one.name}: stored outputs are on different {what} than the rest; skipped", ZooWarning, stacklevel=3)
    return kept


def _require_one(outputs: "Sequence[Outputs]") -> None:
    if not outputs:
        raise InputError(argument="runs", expected="outputs of at least one model", found=0)


def _matching_rows(other: "Outputs", first: "Outputs") -> np.ndarray:
    """Return the rows of `other` in the order of the ids of `first`."""
    missing = set(first.ids.tolist()) - set(other.ids.tolist())
    extra = set(other.ids.tolist()) - set(first.ids.tolist())
    if missing or extra:
        raise InputError(
            f"have different examples ({_difference(missing, extra)})",
            where=f"{first.name} and {other.name}",
            hint="Run both on the same dataset, or keep the examples that all models have with Runs.common() or --common",
        )
    position = {row_id: row for row, row_id in enumerate(other.ids)}
    return np.array([position[row_id] for row_id in first.ids])


def _difference(missing: set[str], extra: set[str]) -> str:
    example = sorted(missing or extra)[0]
    return f"{len(missing)} only in the first, {len(extra)} only in the second, e.g. {example!r}"


def _reorder_classes(other: "Outputs", first: "Outputs") -> "Outputs":
    missing, extra = set(first.classes) - set(other.classes), set(other.classes) - set(first.classes)
    if missing or extra:
        raise InputError(
            f"have different classes: {len(first.classes)} and {len(other.classes)} ({_difference(missing, extra)})",
            where=f"{first.name} and {other.name}",
        )
    column = {name: k for k, name in enumerate(other.classes)}
    order = np.array([column[name] for name in first.classes])  # new column -> old column
    back = np.argsort(order)  # old class index -> new
    if other.kind == "embeddings":
        values = other.values
    elif other.kind == "predictions":
        # NO_PREDICTION is -1, so it selects the appended last entry, itself NO_PREDICTION.
        values = Column([np.append(back, arrays.NO_PREDICTION)[np.asarray(other.predictions)]])
    else:
        scores = other.values.array()
        values = Column([scores[:, arrays.like(order, scores)]])
    foreign = other.label_classes is not None
    labels = other.labels if other.labels is None or foreign else back[other.labels]
    targets = other.targets if other.targets is None or foreign else other.targets[:, order]
    return dataclasses.replace(other, values=values, classes=first.classes, labels=labels, targets=targets)
