"""Evaluation during training: scores in the log, and snapshots that `zoo.load` loads.

Kornblith et al. (2021, Appendix E.4) plot accuracy and class separation on the training and the validation images over the
epochs. The network evaluated here is the one that training would return at that moment (the average of the weights if the
recipe has one), on images as for prediction. Training itself is not affected.
"""

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass

from zoo import datasets
from zoo.core.progress import Bar
from zoo.datasets import Dataset
from zoo.errors import ZooError, ZooWarning
from zoo.networks.network import Network
from zoo.training.augmentation import ImageAugmentation
from zoo.training.batches import ImageBatches, split_holdout
from zoo.training.evaluation import evaluate
from zoo.training.plans import Plan
from zoo.training.processes import Processes

MAX_TRAINING_IMAGES = 50_000  # evaluated, evenly spaced


class Evaluator:
    """Evaluates a network: `train_*` scores on its training images, `test_*` scores if the dataset has test images."""

    def __init__(self, planned: Plan, train_set: Dataset, processes: Processes) -> None:
        self.planned, self.train_set, self.processes = planned, train_set, processes

    @functools.cached_property
    def images(self) -> dict[str, ImageBatches]:
        recipe = self.planned.recipe
        training, _ = split_holdout(self.train_set, recipe)
        sets = {"train": training.select(slice(None, None, -(-len(training) // MAX_TRAINING_IMAGES)))}
        try:
            sets |= {"test": datasets.load(self.planned.test)} if self.planned.test else {}
        except ZooError as error:
            warnings.warn(f"{self.planned.name}: trained, but not tested: {error}", ZooWarning, stacklevel=2)
        return {name: ImageBatches(images, ImageAugmentation(recipe.plain())) for name, images in sets.items()}

    def __call__(self, network: Network, title: str = "", progress: bool = False) -> dict[str, float]:
        """Return accuracy, NLL and class separation on each set of images, such as `test_accuracy`.

        Args:
            network: the network.
            title: text before the progress bar.
            progress: whether to show progress.
        """
        total = sum(len(images.dataset) for images in self.images.values())
        with Bar(title, total, progress and self.processes.main) as bar:
            scores = {key: evaluate(network, images, self.processes, bar.advance) for key, images in self.images.items()}
        return {f"{name}_{key}": round(value, 6) for name, values in scores.items() for key, value in values.items()}


@dataclass(frozen=True)
class Monitor:
    """Evaluates the network every few epochs and stores snapshots; see `zoo.training.loop.Watch`."""

    evaluator: Evaluator
    store: Callable[[Network, int, int, dict[str, float]], None]  # stores a snapshot: network, epoch, step, scores
    measure_every: int = 0  # epochs between evaluations; the last epoch is always evaluated; 0: never
    snapshots_every: int = 0  # epochs between snapshots; 0: never

    def __call__(self, network: Network, epoch: int, step: int, last: bool) -> dict[str, float]:
        due = self.measure_every and (last or epoch % self.measure_every == 0)
        scores = self.evaluator(network) if due else {}
        if self.snapshots_every and epoch % self.snapshots_every == 0 and self.evaluator.processes.main:
            self.store(network, epoch, step, scores)
        return scores
