"""What a dataset knows about imported outputs, by id and by class name; what contradicts it is an error."""

import dataclasses
import warnings
from collections.abc import Sequence

import numpy as np

from zoo import datasets
from zoo.datasets import Dataset, user_datasets
from zoo.datasets.class_matching import places
from zoo.errors import InputError, ZooError, ZooWarning
from zoo.outputs.outputs import Outputs


def find(data: str) -> tuple[str, Dataset | None]:
    """The dataset's spec, and the dataset where it is here."""
    spec = datasets.canonical(data, new=True)
    if datasets.is_user_dataset(spec):
        return spec, user_datasets.find(spec)
    try:
        return spec, datasets.load(spec)
    except ZooError:  # not on this machine: its name is kept, and the files say all there is to say
        return spec, None


def complete(outputs: Outputs, dataset: Dataset, has_ids: bool) -> Outputs:
    """The outputs with what the dataset knows and the files did not say; a contradiction is an error."""
    if not has_ids:
        if len(outputs) != len(dataset):
            raise InputError(
                f"{outputs.name}: {len(outputs)} rows without ids for the {len(dataset)} of {dataset.spec}; say which they "
                "are with a column of ids, or --ids"
            )
        outputs = dataclasses.replace(outputs, ids=np.array(dataset.ids))
    row_of = {row_id: row for row, row_id in enumerate(dataset.ids)}
    rows = np.array([row_of.get(row_id, -1) for row_id in outputs.ids.tolist()])
    known = rows >= 0
    if not known.all() and (outputs.labels is None or not known.any()):
        unknown = str(outputs.ids[int((~known).argmax())])
        raise InputError(
            f"{outputs.name}: id {unknown!r} is not one of {dataset.spec}, whose ids are like {dataset.ids[0]!r}"
        )
    _say(outputs.name, len(dataset) - int(known.sum()), int((~known).sum()), dataset.spec)
    if dataset.labels is None or outputs.targets is not None:
        return outputs
    place = places(dataset.classes, outputs.classes)
    if place is None:
        warnings.warn(
            f"{outputs.name}: its {len(outputs.classes)} classes are not the {len(dataset.classes)} of {dataset.spec} "
            f"({', '.join(dataset.classes[:3])}, ...), so no labels are taken from there",
            ZooWarning,
            stacklevel=3,
        )
        return outputs
    if len(place) == len(outputs.classes):  # the same classes, maybe spelt otherwise
        spelt = dict(zip(place, dataset.classes, strict=True))
        outputs = dataclasses.replace(outputs, classes=tuple(spelt[k] for k in range(len(place))))
    true = np.array(place)[dataset.labels[rows]]
    if outputs.labels is None:
        return dataclasses.replace(outputs, labels=true)
    wrong = known & (outputs.labels != true)
    if wrong.any():
        row = int(wrong.argmax())
        raise InputError(
            f"{outputs.name}: {int(wrong.sum())} labels are not those of {dataset.spec}, first of id "
            f"{str(outputs.ids[row])!r}: {outputs.classes[outputs.labels[row]]!r} instead of {outputs.classes[true[row]]!r}"
        )
    return outputs


def say_what_is_missing(made: Sequence[Outputs]) -> None:
    """Name the models that lack rows which others imported with them have."""
    every = set().union(*(outputs.ids.tolist() for outputs in made)) if len(made) > 1 else set()
    for outputs in made if every else ():
        _say(outputs.name, len(every) - len(outputs), 0, "the examples of all models here")


def _say(name: str, missing: int, extra: int, of: str) -> None:
    said = [f"{missing} rows of {of} are missing"] * bool(missing) + [f"{extra} rows are not in {of}"] * bool(extra)
    if said:
        warnings.warn(f"{name}: {' and '.join(said)}; only models with the same rows are compared", ZooWarning, stacklevel=4)
