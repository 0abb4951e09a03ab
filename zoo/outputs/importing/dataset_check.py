"""Comparison of imported outputs with their dataset, by id and class name; what the import lacks is taken from it."""

import dataclasses
import warnings
from collections.abc import Sequence

import numpy as np
from PIL import Image

from zoo import datasets
from zoo.datasets import Dataset, user_datasets
from zoo.datasets.class_matching import places
from zoo.datasets.loading import split_rows
from zoo.errors import InputError, ZooError, ZooWarning
from zoo.outputs import bundle
from zoo.outputs.outputs import Outputs


def find(data: str) -> tuple[str, Dataset | None]:
    """Return the spec of a dataset, and the dataset as far as it is known on this machine."""
    spec = datasets.canonical(data, new=True)
    if datasets.is_user_dataset(spec):
        return spec, user_datasets.find(spec)
    try:
        return spec, datasets.load(spec)
    except ZooError:  # the images are not on this machine
        return spec, _from_shipped_outputs(spec)


def _from_shipped_outputs(spec: str) -> Dataset | None:
    """Return a dataset without images: the ids, classes and labels of shipped outputs on it."""
    whole, rows = split_rows(spec)
    shipped = next((outputs for outputs in bundle.study(whole).values() if outputs.labels is not None), None)
    if shipped is None:
        return None

    def no_image(row: int) -> Image.Image:
        raise InputError("the images are not on this machine", where=spec)

    dataset = Dataset(whole, whole, shipped.ids.tolist(), no_image, "", shipped.classes, shipped.labels)
    return dataset if rows is None else dataclasses.replace(dataset.select(rows), spec=spec)


def complete(outputs: Outputs, dataset: Dataset, has_ids: bool) -> Outputs:
    """Return the outputs with ids, class names and labels of the dataset; contradictions are errors.

    Args:
        outputs: imported outputs.
        dataset: the dataset they are on.
        has_ids: whether the ids were imported, rather than row numbers.
    """
    if not has_ids:
        if len(outputs) != len(dataset):
            raise InputError(
                f"has {len(outputs)} rows without ids, but {dataset.spec} has {len(dataset)} examples",
                where=outputs.name,
                hint="Name the examples in a column of ids, or with {ids}",
            )
        outputs = dataclasses.replace(outputs, ids=np.array(dataset.ids))
    row_of = {row_id: row for row, row_id in enumerate(dataset.ids)}
    rows = np.array([row_of.get(row_id, -1) for row_id in outputs.ids.tolist()])
    known = rows >= 0
    if not known.all() and (outputs.labels is None or not known.any()):
        unknown = str(outputs.ids[int((~known).argmax())])
        raise InputError(
            f"id {unknown!r} is not in {dataset.spec}, whose ids are like {dataset.ids[0]!r}", where=outputs.name
        )
    _warn_of_rows(outputs.name, len(dataset) - int(known.sum()), int((~known).sum()), dataset.spec)
    if dataset.labels is None or outputs.targets is not None:
        return outputs
    columns = places(dataset.classes, outputs.classes)
    if columns is None:
        warnings.warn(
            f"{outputs.name}: its {len(outputs.classes)} classes are not the {len(dataset.classes)} of {dataset.spec} "
            f"({', '.join(dataset.classes[:3])}, ...), so no labels are taken from there",
            ZooWarning,
            stacklevel=3,
        )
        return outputs
    if len(columns) == len(outputs.classes):  # the same classes, maybe in another spelling
        spelling = dict(zip(columns, dataset.classes, strict=True))
        outputs = dataclasses.replace(outputs, classes=tuple(spelling[k] for k in range(len(columns))))
    labels = np.array(columns)[dataset.labels[rows]]
    if outputs.labels is None:
        return dataclasses.replace(outputs, labels=labels)
    different = known & (outputs.labels != labels)
    if different.any():
        row = int(different.argmax())
        imported, expected = outputs.classes[outputs.labels[row]], outputs.classes[labels[row]]
        raise InputError(
            f"{int(different.sum())} labels are not those of {dataset.spec}, first that of id {str(outputs.ids[row])!r}: "
            f"{imported!r} instead of {expected!r}",
            where=outputs.name,
        )
    return outputs


def warn_of_missing_rows(made: Sequence[Outputs]) -> None:
    """Warn of each model that lacks examples which other imported models have."""
    every = set().union(*(outputs.ids.tolist() for outputs in made)) if len(made) > 1 else set()
    for outputs in made if every else ():
        _warn_of_rows(outputs.name, len(every) - len(outputs), 0, "the examples of all models")


def _warn_of_rows(name: str, missing: int, extra: int, of: str) -> None:
    problems = [f"{missing} rows of {of} are missing"] * bool(missing) + [f"{extra} rows are not in {of}"] * bool(extra)
    if problems:
        warnings.warn(
            f"{name}: {' and '.join(problems)}; only models with the same rows can be compared", ZooWarning, stacklevel=4
        )
