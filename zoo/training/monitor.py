"""What a network is on the way to its end: curves of its quality, and snapshots that load like any model.

Kornblith et al. (2021, Appendix E.4) draw accuracy and class separation of the training and the validation images as
training goes on. What is examined is the network that would be the result if training stopped there (the average of the
weights where there is one), on images as prediction sees them; training itself is not touched by it.
"""

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass

from zoo import datasets
from zoo.datasets import Dataset
from zoo.errors import ZooError, ZooWarning
from zoo.networks.network import Network
from zoo.training.augmentation import ImageAugmentation
from zoo.training.batches import ImageBatches, split_holdout
from zoo.training.evaluation import evaluate
from zoo.training.plans import Plan
from zoo.training.processes import Processes

MOST_MEASURED = 50_000  # training images on which accuracy and class separation are measured


class Examination:
    """Accuracy, NLL and class separation of a network: `train_*` on what it learns from, `test_*` where there is a test."""

    def __init__(self, made: Plan, train_set: Dataset, processes: Processes) -> None:
        self.made, self.train_set, self.processes = made, train_set, processes

    @functools.cached_property
    def images(self) -> dict[str, ImageBatches]:
        """Decoded when they are first asked for, then kept."""
        recipe = self.made.recipe
        learnt, _ = split_holdout(self.train_set, recipe)
        sets = {"train": learnt.select(slice(None, None, -(-len(learnt) // MOST_MEASURED)))}
        try:
            sets |= {"test": datasets.load(self.made.test)} if self.made.test else {}
        except ZooError as error:
            warnings.warn(f"{self.made.name}: trained, but not tested: {error}", ZooWarning, stacklevel=2)
        return {name: ImageBatches(images, ImageAugmentation(recipe.plain())) for name, images in sets.items()}

    def __call__(self, network: Network) -> dict[str, float]:
        found = {name: evaluate(network, images, self.processes) for name, images in self.images.items()}
        return {f"{name}_{key}": round(value, 6) for name, values in found.items() for key, value in values.items()}


@dataclass(frozen=True)
class Watching:
    """After an epoch: examine the network, keep what it is, both or neither."""

    examine: Examination
    keep: Callable[[Network, int, int, dict[str, float]], None]  # network, epoch, step and what was found
    measure_every: int = 0  # epochs; the last counts always; 0: never
    snapshots_every: int = 0

    def __call__(self, network: Network, epoch: int, step: int, last: bool) -> dict[str, float]:
        due = self.measure_every and (last or epoch % self.measure_every == 0)
        found = self.examine(network) if due else {}
        if self.snapshots_every and epoch % self.snapshots_every == 0 and self.examine.processes.main:
            self.keep(network, epoch, step, found)
        return found
