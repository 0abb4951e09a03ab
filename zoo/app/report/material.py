"""What a report is made from."""

from dataclasses import dataclass

from zoo.datasets import Dataset
from zoo.outputs import Runs


@dataclass(frozen=True)
class Material:
    """What a report may draw on: outputs to report on; and, where there are any, others to learn from."""

    runs: Runs
    calibration: Runs | None = None  # outputs on other examples; without them `zoo.calibration.policy` decides
    images: Dataset | None = None
    features: "FeatureMaterial | None" = None


@dataclass(frozen=True)
class FeatureMaterial:
    """Embeddings for the section on features: of the training examples, and of a task the models were not trained for."""

    train: Runs
    transfer_train: Runs
    transfer_test: Runs
