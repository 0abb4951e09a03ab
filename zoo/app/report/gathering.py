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
        return Material(runs, pictures=_pictures(next(iter(runs.values())).dataset))
    spec = datasets.canonical(data or "digits:test")
    runs = zoo.run(list(names), data=spec)
    other = calibration_split(spec)
    features = None if transfer is None else feature_material(runs.names, spec, transfer)
    return Material(runs, None if other is None else zoo.run(runs.names, data=other), datasets.load(spec), features)


def imported(path: Path, kind: Kind | None, data: str | None) -> Material:
    """A user's own predictions."""
    runs = zoo.import_outputs(path, kind=kind, data=data)
    return Material(runs, pictures=_pictures(data))


def calibration_split(spec: str) -> str | None:
    """The split beside `spec` that temperatures are fitted on, where the dataset has one."""
    return "digits:calibration" if spec.startswith("digits:test") else None


def training_split(spec: str) -> str:
    """The split models are trained on, for a spec of another split of the same dataset."""
    return spec.rpartition(":")[0] + ":train" if ":" in spec and not spec.startswith(("folder:", "parquet:")) else spec


def feature_material(names: Sequence[str], spec: str, transfer: str) -> FeatureMaterial:
    """Embeddings of the training examples, and of both splits of a transfer dataset."""
    if datasets.canonical(transfer).rpartition(":")[2] not in ("test", "validation"):
        raise InputError(f"--transfer {transfer}: expected a dataset with train and test splits, e.g. cifar10")
    test = datasets.canonical(transfer)
    runs: list[Runs] = [zoo.run(list(names), data=part) for part in (training_split(spec), training_split(test), test)]
    return FeatureMaterial(*runs)


def _pictures(spec: str | None) -> datasets.Dataset | None:
    """The dataset to show pictures of, or None where its pictures are not on this machine."""
    if spec is None:
        return None
    try:
        return datasets.load(spec)
    except ZooError:
        return None
