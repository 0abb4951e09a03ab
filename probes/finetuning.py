"""Fine-tuning: a pretrained body with a new head, trained whole on another dataset (Kornblith et al. 2021, A.3).

Learning rate and weight decay come from a grid, by the score on a validation split; with the best pair the network is
trained again on training and validation images together and tested once. The networks may be several that differ in
their pretraining seed: the pair is then the best on average.
"""

import copy
import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch
from PIL import Image

from probes.metrics import metric
from zoo import datasets, objectives
from zoo.cards.names import near
from zoo.cards.recipes import setting_names
from zoo.core import files
from zoo.core.splits import hold_out
from zoo.datasets import Dataset
from zoo.datasets.preprocessing import Pipeline
from zoo.errors import InputError, ZooError
from zoo.models import registry
from zoo.models.model import Model
from zoo.networks.network import Network
from zoo.objectives import ObjectiveHead
from zoo.runs import runner
from zoo.training import Recipe, fit
from zoo.training.augmentation import ImageAugmentation
from zoo.training.batches import ImageBatches, labels_of
from zoo.training.randomness import For, seed_of

LEARNING_RATES = tuple(float(rate) for rate in np.logspace(-5.5, -1, 8))
WEIGHT_DECAYS = (0.0, *(float(decay) for decay in np.logspace(-6.5, -3, 8)))
STEPS = 20_000
_BATCH = 256  # our reading: A.3 names no size; this is the one of the authors' earlier transfer study


@dataclass(frozen=True)
class FineTuning:
    """What the grid found, and what came of its best pair."""

    table: pd.DataFrame  # a row for each model, learning_rate and weight_decay: validation score; NaN where it diverged
    best: dict[str, float]  # learning_rate, weight_decay, and their mean validation score
    accuracies: dict[str, float]  # on the test set, by the dataset's metric, of each model trained with the best pair
    models: list[Model]  # these models, fine-tuned

    @property
    def accuracy(self) -> float:
        """The mean over the models that were fine-tuned."""
        return float(np.mean(list(self.accuracies.values())))


@dataclass(frozen=True)
class _Task:
    """All that is the same for every run."""

    learning: Dataset
    validation: Dataset
    everything: Dataset  # the two together
    test: Dataset
    objective: str
    settings: dict[str, Any]
    folder: Path | None
    workers: int | None
    progress: bool


def finetune(
    models: "str | Model | Sequence[str | Model]",
    data: "str | Dataset",
    test: "str | Dataset | None" = None,
    validation: "float | str | Dataset" = 0.2,
    *,
    learning_rates: Sequence[float] = LEARNING_RATES,
    weight_decays: Sequence[float] = WEIGHT_DECAYS,
    steps: int = STEPS,
    batch_size: int = _BATCH,
    objective: str = "softmax",
    seed: int = 0,
    folder: str | Path | None = None,
    workers: int | None = None,
    progress: bool = True,
    **settings: Any,
) -> FineTuning:
    """Fine-tune models, given by name, pattern or as loaded (these are left as they are), on a dataset.

    `data` is a dataset by name, whose splits `train` and `test` are used, or the images to train on, with `test` beside
    them. `validation` is the share of each class held out of the training images, or a dataset of its own. The loss
    adds `weight_decay / learning_rate` times each weight to its gradient, so that what a step takes off a weight does not
    depend on the learning rate. SGD with momentum 0.9, the learning rate falls to zero by a cosine; random crops and
    flips, which `settings` of a `Recipe` may change. With a `folder`, runs are kept there, and a grid that was
    interrupted goes on where it stopped.

    >>> start = registry.load("resnet8-softmax", pretrained=False, device="cpu")
    >>> found = finetune(start, "digits:train[:64]", "digits:test[:32]", learning_rates=[0.01], weight_decays=[0, 1e-4],
    ...                  steps=2, batch_size=16, crop=0.0, progress=False)
    >>> found.best["learning_rate"], len(found.table), 0 <= found.accuracy <= 1
    (0.01, 2, True)
    """
    _check_grid(learning_rates, weight_decays, steps)
    _check_settings(settings)
    recipe = {"crop": 0.1, "flip": True, "nesterov": False, "seed": seed, "steps": steps, "batch_size": batch_size}
    place = None if folder is None else Path(folder)
    task = _Task(*_splits(data, test, validation, seed), objective, recipe | settings, place, workers, progress)
    starts = [entry if isinstance(entry, Model) else registry.load(entry) for entry in runner.resolve(models)]
    rows = []
    for start, rate, decay in itertools.product(starts, learning_rates, weight_decays):
        tuned = _train(start, task.learning, rate, decay, task, "grid")
        rows.append((start.name, rate, decay, _score(tuned, task.validation, task) if tuned else np.nan))
    table = pd.DataFrame(rows, columns=["model", "learning_rate", "weight_decay", "validation"])
    rate, decay, score = _best(table)
    tuned_models, accuracies = [], {}
    for start in starts:
        tuned = _train(start, task.everything, rate, decay, task, "final")
        if tuned is None:
            raise ZooError(
                f"{start.name}: training on all images diverged at learning rate {rate:g}, which went well without the "
                "validation images; leave out the largest learning rates"
            )
        accuracies[start.name] = _score(tuned, task.test, task)
        tuned_models.append(tuned)
    return FineTuning(table, {"learning_rate": rate, "weight_decay": decay, "validation": score}, accuracies, tuned_models)


def _train(start: Model, images: Dataset, rate: float, decay: float, task: _Task, stage: str) -> Model | None:
    """A copy of the model fine-tuned with one pair of the grid; None if the training diverged."""
    recipe = _recipe(start, rate, decay, task)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of(recipe.entropy, For.START))
        head = ObjectiveHead(_width(start), len(images.classes), objectives.get(task.objective))
    body, blocks = copy.deepcopy((start.network.body, start.network.blocks))  # together: the blocks are inside the body
    network = Network(body.requires_grad_(True), head, blocks)
    name = f"{start.name.replace('/', '_')}-lr{rate:g}-wd{decay:g}"
    try:
        fit(
            network,
            images,
            recipe,
            folder=None if task.folder is None else task.folder / stage / name,
            about={"start": start.weights_hash, "objective": task.objective},
            title=f"{start.name} at {rate:.3g}, {decay:.3g}",
            progress=task.progress,
            workers=task.workers,
        )
    except ZooError:  # the trainer's word for a loss that is not finite, which leaves no finite weights either
        if all(torch.isfinite(weight).all() for weight in network.parameters()):
            raise
        return None
    card = dataclasses.replace(start.card, labels=images.name, link=head.objective.link, head="fine-tuned")
    return Model(card, network, start.transform, images.classes)


def _recipe(start: Model, rate: float, decay: float, task: _Task) -> Recipe:
    if not isinstance(start.transform, Pipeline):
        raise InputError(f"{start.name}: its images are prepared by its own library, which the trainer cannot repeat")
    # One epoch stands for none: the number of steps decides.
    recipe = Recipe(
        start.transform.spec, 1, batch_size=task.settings["batch_size"], learning_rate=rate, weight_decay=decay / rate
    )
    return recipe.change(**task.settings)


def _width(start: Model) -> int:
    """The number of features: what the body makes of a black image."""
    embeddings, _ = start.forward(torch.zeros(1, *start.transform.size, device=start.device))
    return embeddings.shape[1]


def _score(model: Model, dataset: Dataset, task: _Task) -> float:
    """The dataset's own metric; images as prediction sees them."""
    recipe = _recipe(model, 1.0, 0.0, task).plain()
    images = ImageBatches(dataset, ImageAugmentation(recipe), task.workers)
    batches = np.array_split(np.arange(len(dataset)), np.arange(_BATCH, len(dataset), _BATCH))
    predicted = []
    for pixels in images.batches(0, batches):
        _, logits = model.forward(pixels.to(model.device))
        assert logits is not None  # the head was put there above
        predicted.append(logits.argmax(1).cpu())
    return metric(dataset.metric)(torch.cat(predicted), dataset.labels)


def _best(table: pd.DataFrame) -> tuple[float, float, float]:
    """The pair with the best mean score over models; of equal ones the smaller rate, then the smaller decay."""
    means = table.groupby(["learning_rate", "weight_decay"])["validation"].apply(lambda scores: scores.mean(skipna=False))
    if means.isna().all():
        raise ZooError("training diverged at every learning rate of the grid; choose smaller ones")
    pair: Any = means.idxmax()  # the first of equal maxima; groups are sorted
    return float(pair[0]), float(pair[1]), float(means.max())


def _splits(data: Any, test: Any, validation: Any, seed: int) -> tuple[Dataset, Dataset, Dataset, Dataset]:
    """What is learnt from, what chooses, the two together, and what tests."""
    if test is None:
        if not isinstance(data, str) or ":" in data:
            raise InputError(f"test: expected the images to test on beside {getattr(data, 'spec', data)}, found none")
        data, test = f"{data}:train", f"{data}:test"
    whole, unseen = datasets.load(data), datasets.load(test)
    labels = labels_of(whole)
    if isinstance(validation, str | Dataset):
        kept_back = datasets.load(validation)
        learning, everything = whole, _join(whole, kept_back)
    else:
        kept, held = hold_out(labels, validation, seed)
        learning, kept_back, everything = whole.select(kept), whole.select(held), whole
    for other in (kept_back, unseen):
        labels_of(other)
        if other.classes != whole.classes:
            raise InputError(
                f"{other.spec}: its {len(other.classes)} classes are not the {len(whole.classes)} of {whole.spec}"
            )
        if other.fingerprint == whole.fingerprint or kept_back.fingerprint == unseen.fingerprint:
            raise InputError(f"{other.spec}: the same images are used twice; expected others for each part")
    return learning, kept_back, everything, unseen


def _join(first: Dataset, second: Dataset) -> Dataset:
    """The images of two datasets of the same classes, one after the other."""
    return Dataset(
        name=first.name,
        spec=f"{first.spec}+{second.spec}",
        ids=[f"{part.spec}/{name}" for part in (first, second) for name in part.ids],
        image=functools.partial(_joined, first, second),
        fingerprint=files.digest([first.fingerprint, second.fingerprint]),
        classes=first.classes,
        labels=np.concatenate([labels_of(first), labels_of(second)]),
        metric=first.metric,
    )


def _joined(first: Dataset, second: Dataset, index: int) -> Image.Image:
    return first[index] if index < len(first) else second[index - len(first)]


def _check_grid(learning_rates: Sequence[float], weight_decays: Sequence[float], steps: int) -> None:
    for name, values, least in (
        ("learning_rates", learning_rates, 0.0),
        ("weight_decays", weight_decays, -np.finfo(float).tiny),
    ):
        if not len(values) or len(set(values)) < len(values) or not all(least < value < np.inf for value in values):
            raise InputError(
                f"{name}: expected different numbers {'above' if least == 0 else 'of at least'} 0, found {values}"
            )
    if steps < 1:
        raise InputError(f"steps: expected at least 1, found {steps}")


def _check_settings(settings: Mapping[str, Any]) -> None:
    free = setting_names() - {"epochs", "steps", "batch_size", "learning_rate", "weight_decay", "holdout"}
    for name in settings:
        if name not in free:
            raise InputError(f"unknown setting {name!r}{near(name, free)}; expected {', '.join(sorted(free))}")
