"""What a report is made from: models that are run, outputs that are stored, or a user's own files."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import zoo
from zoo import datasets
from zoo.app.recommending import candidate_cards
from zoo.cards.card import Card
from zoo.errors import InputError, ZooError
from zoo.outputs.outputs import Kind, Runs
from zoo.outputs.store import open_runs


@dataclass(frozen=True)
class Material:
    """What a report may draw on: outputs to report on; and, where there are any, others to learn from."""

    runs: Runs
    calibration: Runs | None = None  # outputs on other examples; without them `zoo.calibration.policy` decides
    images: datasets.Dataset | None = None
    features: "FeatureMaterial | None" = None
    unlabelled: tuple[Runs, ...] = ()  # of the same models, on data whose labels are not looked at
    candidates: tuple[Card, ...] = ()  # of models that might be added
    imported: str | None = None  # the user's own file or folder


@dataclass(frozen=True)
class FeatureMaterial:
    """Embeddings for the section on features: of the training examples, and of a task the models were not trained for."""

    train: Runs
    transfer_train: Runs
    transfer_test: Runs


def of_models(
    names: Sequence[str] | None,
    data: str | None,
    transfer: str | None = None,
    unlabelled: Sequence[str] = (),
    candidates: Sequence[str] = (),
) -> Material:
    """Outputs of the named models, run where they are not stored; without names, all that is stored for the dataset.

    The same models are run on each dataset of `unlabelled`; of `candidates`, names or patterns, only cards are looked at.
    """
    runs = zoo.run(list(names), data=data) if names else open_runs("*", data)
    spec = next(iter(runs.values())).dataset
    cards = candidate_cards(candidates, runs, runs.names[0]) if candidates else []
    features = None
    if transfer is not None:
        if spec is None or not names:
            raise InputError("--transfer: features are probed of models that are named, on a dataset that is known")
        features = feature_material(runs.names, spec, transfer)
    others = tuple(zoo.run(runs.names, data=other) for other in unlabelled)
    return Material(runs, images=images_of(spec), features=features, unlabelled=others, candidates=tuple(cards))


def of_files(path: Path, kind: Kind | None, data: str | None) -> Material:
    """A user's own predictions."""
    return Material(zoo.import_outputs(path, kind=kind, data=data), images=images_of(data), imported=str(path))


def feature_material(names: Sequence[str], spec: str, transfer: str, progress: bool = True) -> FeatureMaterial:
    """Embeddings of the training examples, and of both splits of a transfer dataset."""
    test = datasets.canonical(transfer)
    learn = datasets.training_split(test)
    if learn is None or learn == test:
        raise InputError(f"--transfer {transfer}: expected the test split of a dataset that also has a train split")
    parts = [datasets.training_split(spec) or spec, learn, test]
    runs: list[Runs] = [zoo.run(list(names), data=part, progress=progress) for part in parts]
    return FeatureMaterial(*runs)


def images_of(spec: str | None) -> datasets.Dataset | None:
    """The dataset to show images of, or None where its images are not on this machine."""
    if spec is None:
        return None
    try:
        return datasets.load(spec)
    except ZooError:
        return None
