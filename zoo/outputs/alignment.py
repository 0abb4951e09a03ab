"""Two models' outputs are compared row by same id and column by same class name, never by position."""

import dataclasses
import warnings
from collections.abc import Container, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch

from zoo.core import arrays
from zoo.core.columns import Column
from zoo.errors import InputError, ZooWarning

if TYPE_CHECKING:
    from zoo.outputs.outputs import Outputs


def align(outputs: "Sequence[Outputs]") -> "list[Outputs]":
    """Outputs on the rows and columns of the first one: matched by id and by class name, never by position.

    Different sets of ids or of classes, and labels that contradict each other, are errors.
    """
    if not outputs:
        raise InputError("expected at least one model's outputs, found none")
    first = outputs[0]
    aligned = [first]
    for other in outputs[1:]:
        if other.classes != first.classes:
            other = _reorder_classes(other, first)
        if not np.array_equal(other.ids, first.ids):
            missing = set(first.ids.tolist()) - set(other.ids.tolist())
            extra = set(other.ids.tolist()) - set(first.ids.tolist())
            if missing or extra:
                example = sorted(missing or extra)[0]
                raise InputError(
                    f"{first.name} and {other.name}: different examples ({len(missing)} ids only in the first, "
                    f"{len(extra)} only in the second, e.g. {example!r}); run both on the same dataset"
                )
            position = {row_id: row for row, row_id in enumerate(other.ids)}
            other = other.select(np.array([position[row_id] for row_id in first.ids]))
        labelled = next((o for o in aligned if o.labels is not None), None)
        if labelled is not None and other.labels is not None and labelled.label_classes == other.label_classes:
            wrong = np.flatnonzero(labelled.labels != other.labels)
            if len(wrong):
                example = str(first.ids[wrong[0]])
                raise InputError(
                    f"{labelled.name} and {other.name}: labels differ on {len(wrong)} examples, first {example!r}"
                )
        aligned.append(other)
    known = next((o for o in aligned if o.labels is not None), None)
    if known is None:
        return aligned
    return [
        o if o.labels is not None else dataclasses.replace(o, labels=known.labels, label_classes=known.label_classes)
        for o in aligned
    ]


def common_rows(outputs: "Sequence[Outputs]") -> list[np.ndarray]:
    """Return, for each of the outputs, the rows of the examples that all of them have, in the first one's order."""
    if not outputs:
        raise InputError(argument="runs", expected="outputs of at least one model", found=0)
    shared = set.intersection(*(set(one.ids.tolist()) for one in outputs))
    if not shared:
        raise InputError("have no example in common", where=", ".join(one.name for one in outputs))
    order = [row_id for row_id in outputs[0].ids.tolist() if row_id in shared]
    positions = [{row_id: row for row, row_id in enumerate(one.ids.tolist())} for one in outputs]
    return [np.array([place[row_id] for row_id in order]) for place in positions]


def fitting(outputs: "Sequence[Outputs]", optional: Container[str]) -> "list[Outputs]":
    """The outputs without `optional` ones of other examples or classes than the rest, which are named in a warning.

    What may not be left out sets what the others must fit; else the most common examples and classes do.
    """
    arrays = {id(one.ids): one.ids for one in outputs}  # runs on the same examples share one array of ids
    sets = {key: frozenset(ids.tolist()) for key, ids in arrays.items()}
    kinds = [(frozenset(one.classes), sets[id(one.ids)]) for one in outputs]
    required = [kind for kind, one in zip(kinds, outputs, strict=True) if one.name not in optional] or kinds
    expected = max(required, key=required.count) if required else None
    kept = []
    for kind, one in zip(kinds, outputs, strict=True):
        if one.name not in optional or kind == expected:
            kept.append(one)
            continue
        what = "classes" if expected is not None and kind[0] != expected[0] else "examples"
        warnings.warn(f"{one.name}: stored outputs of other {what} than the rest; left out", ZooWarning, stacklevel=3)
    return kept


def _reorder_classes(other: "Outputs", first: "Outputs") -> "Outputs":
    missing, extra = set(first.classes) - set(other.classes), set(other.classes) - set(first.classes)
    if missing or extra:
        example = sorted(missing or extra)[0]
        raise InputError(
            f"{first.name} and {other.name}: different classes ({len(first.classes)} and {len(other.classes)}; "
            f"{len(missing)} only in the first, {len(extra)} only in the second, e.g. {example!r})"
        )
    column = {name: k for k, name in enumerate(other.classes)}
    order = np.array([column[name] for name in first.classes])  # new column -> old column
    back = np.argsort(order)  # old class index -> new
    if other.kind == "embeddings":
        values = other.values
    elif other.kind == "predictions":
        values = Column(
            [np.append(back, arrays.NO_PREDICTION)[np.asarray(other.predictions)]]
        )  # -1 is the last, so it stays
    else:
        whole = other.values.array()
        values = Column([whole[:, torch.from_numpy(order)] if isinstance(whole, torch.Tensor) else whole[:, order]])
    foreign = other.label_classes is not None
    labels = other.labels if other.labels is None or foreign else back[other.labels]
    targets = other.targets if other.targets is None or foreign else other.targets[:, order]
    return dataclasses.replace(other, values=values, classes=first.classes, labels=labels, targets=targets)
