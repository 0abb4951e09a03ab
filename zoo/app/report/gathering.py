"""Where a report's material comes from: models that are run, outputs that are stored, or a user's own files."""

from collections.abc import Sequence
from pathlib import Path

import zoo
from zoo import datasets
from zoo.app.report.material import FeatureMaterial, Material
from zoo.errors import InputError, ZooError
from zoo.outputs import Kind, Runs
from zoo.store import open_runs


def gather(names: Sequence[str] | None, data: str | None, transfer: str | None = None) -> Material:
    """Outputs of the named models, run where they are not stored; without names, all that is stored for the dataset."""
    if not names:
        runs = open_runs(None, data)
        return Material(runs, images=_images(next(iter(runs.values())).dataset))
    spec = datasets.canonical(data or "digits:test")
    runs = zoo.run(list(names), data=spec)
    features = None if transfer is None else feature_material(runs.names, spec, transfer)
    return Material(runs, images=_images(spec), features=features)


def imported(path: Path, kind: Kind | None, data: str | None) -> Material:
    """A user's own predictions."""
    runs = zoo.import_outputs(path, kind=kind, data=data)
    return Material(runs, images=_images(data))


def feature_material(names: Sequence[str], spec: str, transfer: str, progress: bool = True) -> FeatureMaterial:
    """Embeddings of the training examples, and of both splits of a transfer dataset."""
    test = datasets.canonical(transfer)
    learn = datasets.training_split(test)
    if learn is None or learn == test:
        raise InputError(f"--transfer {transfer}: expected the test split of a dataset that also has a train split")
    parts = [datasets.training_split(spec) or spec, learn, test]
    runs: list[Runs] = [zoo.run(list(names), data=part, progress=progress) for part in parts]
    return FeatureMaterial(*runs)


def _images(spec: str | None) -> datasets.Dataset | None:
    """The dataset to show images of, or None where its images are not on this machine."""
    if spec is None:
        return None
    try:
        return datasets.load(spec)
    except ZooError:
        return None
