"""Check imported outputs against their dataset, by id and class name, and complete them with its ids, classes and labels."""

import dataclasses
import functools
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from PIL import Image

from zoo import datasets
from zoo.cards import labels
from zoo.datasets import KNOWN, Dataset, user_datasets
from zoo.datasets.class_matching import places
from zoo.datasets.loading import parse, split_rows
from zoo.errors import InputError, ZooError, ZooWarning
from zoo.outputs import bundle
from zoo.outputs.outputs import Outputs


@dataclass(frozen=True)
class Known:
    """What is known of a dataset on this machine."""

    spec: str
    dataset: Dataset | None = None  # possibly without images
    classes: tuple[str, ...] = ()  # of the dataset, or of its label set


def find(data: str) -> Known:
    """Return what is known of a dataset from its images, from stored or shipped outputs on it, or from its label set."""
    spec = datasets.canonical(data, new=True)
    dataset: Dataset | None
    if datasets.is_user_dataset(spec):
        dataset = user_datasets.find(spec)
    else:
        try:
            dataset = datasets.load(spec)
        except ZooError:  # the images are not on this machine
            dataset = without_images(spec)
    return Known(spec, dataset, _label_set(spec) if dataset is None else dataset.classes)


def without_images(spec: str) -> Dataset | None:
    """Return a dataset without images: a user-defined one, or the ids, classes and labels of shipped outputs on it."""
    try:
        whole, rows = split_rows(spec)
    except InputError:  # a user-defined dataset that is not stored, or a folder of another machine
        return None
    if datasets.is_user_dataset(whole):
        dataset = user_datasets.find(whole)
    else:
        outputs = next((outputs for outputs in bundle.study(whole).values() if outputs.labels is not None), None)
        dataset = None if outputs is None else Dataset(
            whole, whole, outputs.ids.tolist(), functools.partial(_no_image, spec), "", outputs.classes, outputs.labels
        )  # fmt: skip
    return dataset if dataset is None or rows is None else dataclasses.replace(dataset.select(rows), spec=spec)


def _no_image(spec: str, row: int) -> Image.Image:
    raise InputError("the images are not on this machine", where=spec)


def _label_set(spec: str) -> tuple[str, ...]:
    """Return the classes of a known dataset that is not on this machine; empty if the classes are unknown too."""
    name = parse(spec, new=True).kind
    known = KNOWN.get(name)
    try:
        return () if known is None else labels.classes(known.subset or known.label_set or name)
    except ZooError:  # no list of its classes is shipped
        return ()


def with_ids(outputs: Outputs, dataset: Dataset, rows: np.ndarray | None = None, dropped: int = 0) -> Outputs:
    """Return outputs that were imported without ids with the ids of the dataset, by position.

    Args:
        outputs: imported outputs.
        dataset: the dataset they are on.
        rows: their rows in the dataset, if some rows were dropped.
        dropped: number of dropped rows.
    """
    if len(outputs) + dropped != len(dataset):
        raise InputError(
            f"has {len(outputs) + dropped} rows without ids, but {dataset.spec} has {len(dataset)} examples",
            where=outputs.name,
            hint="Name the examples in a column of ids, or with {ids}",
        )
    ids = np.array(dataset.ids)
    return dataclasses.replace(outputs, ids=ids if rows is None else ids[rows])


def complete(outputs: Outputs, dataset: Dataset) -> Outputs:
    """Return outputs with the class names and labels of the dataset; raise an error if they contradict their own."""
    import pandas as pd

    rows = pd.Index(dataset.ids).get_indexer(outputs.ids.astype(object))  # type: ignore[arg-type]
    known = rows >= 0
    if not known.all() and (outputs.labels is None or not known.any()):
        unknown = str(outputs.ids[int((~known).argmax())])
        raise InputError(
            f"id {unknown!r} is not in {dataset.spec}, whose ids are like {dataset.ids[0]!r}",
            where=outputs.name,
            hint=f"`zoo rm --data {dataset.spec}` removes that dataset and all outputs on it"
            if datasets.is_user_dataset(dataset.spec)
            else None,
        )
    _warn_of_rows(outputs.name, len(dataset) - int(known.sum()), int((~known).sum()), dataset.spec)
    if dataset.labels is None or outputs.targets is not None or outputs.label_classes is not None:
        return outputs
    columns = places(dataset.classes, outputs.classes)
    if columns is None:
        warnings.warn(
            f"{outputs.name}: its {len(outputs.classes)} classes are not the {len(dataset.classes)} of {dataset.spec} "
            f"({', '.join(dataset.classes[:3])}, ...), so no labels are taken from it",
            ZooWarning,
            stacklevel=3,
        )
        return outputs
    if len(columns) == len(outputs.classes):  # the same classes, maybe in another spelling
        spelling = dict(zip(columns, dataset.classes, strict=True))
        outputs = dataclasses.replace(outputs, classes=tuple(spelling[k] for k in range(len(columns))))
    expected = np.array(columns)[dataset.labels[rows]]
    if outputs.labels is None:
        return dataclasses.replace(outputs, labels=expected)
    different = known & (outputs.labels != expected)
    if different.any():
        row = int(different.argmax())
        raise InputError(
            f"{int(different.sum())} labels differ from those of {dataset.spec}; id {str(outputs.ids[row])!r} has "
            f"{outputs.classes[outputs.labels[row]]!r} instead of {outputs.classes[expected[row]]!r}",
            where=outputs.name,
        )
    return outputs


def warn_of_missing_rows(made: Sequence[Outputs]) -> None:
    """Warn of each model that lacks examples which other imported models have."""
    every: dict[str | None, set[str]] = {}  # ids by dataset
    for outputs in made if len(made) > 1 else ():
        every.setdefault(outputs.dataset, set()).update(outputs.ids.tolist())
    for outputs in made if every else ():
        _warn_of_rows(outputs.name, len(every[outputs.dataset]) - len(outputs), 0, "the examples of all models")


def warn_of_missing_labels(made: Sequence[Outputs], known: Known) -> None:
    """Warn if outputs on a known dataset have no labels, since the dataset is not on this machine."""
    names = [outputs.name for outputs in made if outputs.labels is None and outputs.targets is None]
    if names and known.dataset is None and not datasets.is_user_dataset(known.spec):
        warnings.warn(
            f"{known.spec} is not on this machine, so {len(names)} of {len(made)} models have no labels, first {names[0]}; "
            "import them with labels, or put the dataset into a folder of ZOO_DATA",
            ZooWarning,
            stacklevel=3,
        )


def _warn_of_rows(name: str, missing: int, extra: int, of: str) -> None:
    problems = [f"{missing} rows of {of} are missing"] * bool(missing) + [f"{extra} rows are not in {of}"] * bool(extra)
    if problems:
        warnings.warn(
            f"{name}: {' and '.join(problems)}; to compare it, keep the rows that all models have (--common, Runs.common())",
            ZooWarning,
            stacklevel=4,
        )
