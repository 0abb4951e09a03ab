"""What a report is computed from: outputs of models, and optional data for further sections."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import zoo
from zoo import datasets
from zoo.cards.card import Card
from zoo.errors import InputError, ZooError
from zoo.outputs.outputs import Runs


@dataclass(frozen=True)
class TransferEmbeddings:
    """Embeddings of the training examples, and of both splits of a task that the models were not trained for."""

    train: Runs
    transfer_train: Runs
    transfer_test: Runs


@dataclass(frozen=True)
class ReportInputs:
    """The outputs to report on, and what optional sections need.

    Args:
        runs: outputs of at least two models on the same labelled examples.
        calibration: outputs on other examples, to fit temperatures on; default: `zoo.calibration.policy` decides.
        images: the dataset, if its images are on this machine.
        features: embeddings for the sections on transfer.
        unlabelled: outputs of the same models on datasets whose labels are not used.
        outside: outputs of the same models on out-of-distribution datasets.
        groups: returns the group of each example id, given aligned runs.
        candidates: cards of models that might be added.
        imported: the user's file or folder that the outputs come from.
    """

    runs: Runs
    calibration: Runs | None = None
    images: datasets.Dataset | None = None
    features: TransferEmbeddings | None = None
    unlabelled: tuple[Runs, ...] = ()
    outside: tuple[Runs, ...] = ()
    groups: Callable[[Runs], Mapping[str, str]] | None = None
    candidates: tuple[Card, ...] = ()
    imported: str | None = None


def transfer_embeddings(names: Sequence[str], spec: str, transfer: str, progress: bool = True) -> TransferEmbeddings:
    """Run models on their training examples and on both splits of a transfer task, and return the embeddings.

    Args:
        names: the models.
        spec: dataset that the report is about.
        transfer: test split of the transfer task, which must also have a training split.
        progress: whether to show progress bars.
    """
    test = datasets.canonical(transfer)
    learn = datasets.training_split(test)
    if learn is None or learn == test:
        expected = "the test split of a dataset that also has a train split"
        raise InputError(argument="transfer", expected=expected, found=transfer)
    specs = [datasets.training_split(spec) or spec, learn, test]
    runs: list[Runs] = [zoo.run(list(names), data=one, progress=progress) for one in specs]
    return TransferEmbeddings(*runs)


def available_images(spec: str | None) -> datasets.Dataset | None:
    """Return the dataset to show images of, or None if its images are not on this machine."""
    if spec is None:
        return None
    try:
        return datasets.load(spec)
    except ZooError:
        return None
