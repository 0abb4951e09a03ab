"""Fine-tuning: a pretrained network with a new head, trained on another dataset (Kornblith et al. 2021, A.3).

Learning rate and weight decay are chosen from a grid by the score on a validation split. With the best pair the network is
trained again on training and validation images together and tested once. For several networks, such as several pretraining
seeds, the pair is the best on average.
"""

import copy
import dataclasses
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from probes._inputs import is_fraction
from probes.metrics import metric
from zoo import datasets, objectives
from zoo.cards.names import unknown
from zoo.cards.recipes import setting_names
from zoo.core.splits import hold_out
from zoo.datasets import Dataset
from zoo.datasets.dataset import joined
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
_BATCH_SIZE = 256  # not given in A.3; from the authors' earlier transfer study


@dataclass(frozen=True)
class FineTuning:
    """Validation scores of the grid, and the models fine-tuned with its best pair."""

    table: pd.DataFrame  # one row per model, learning_rate and weight_decay: validation score; NaN if training diverged
    best: dict[str, float]  # learning_rate, weight_decay, and their mean validation score
    accuracies: dict[str, float]  # by model, on the test set, by the dataset's metric
    models: list[Model]  # the fine-tuned models

    @property
    def accuracy(self) -> float:
        """The mean test accuracy over the models."""
        return float(np.mean(list(self.accuracies.values())))


@dataclass(frozen=True)
class _Task:
    """What all training runs share."""

    training: Dataset
    validation: Dataset
    everything: Dataset  # training and validation images together
    test: Dataset
    objective: str
    settings: dict[str, Any]
    folder: Path | None
    workers: int | None
    progress: bool


def finetune(
    models: str | Model | Sequence[str | Model],
    data: str | Dataset,
    test: str | Dataset | None = None,
    validation: float | str | Dataset = 0.2,
    *,
    learning_rates: Sequence[float] = LEARNING_RATES,
    weight_decays: Sequence[float] = WEIGHT_DECAYS,
    steps: int = STEPS,
    batch_size: int = _BATCH_SIZE,
    objective: str = "softmax",
    seed: int = 0,
    folder: str | Path | None = None,
    workers: int | None = None,
    progress: bool = True,
    **settings: Any,
) -> FineTuning:
    """Fine-tune models on a dataset, with learning rate and weight decay chosen from a grid.

    Training uses SGD with momentum 0.9, a cosine schedule, random crops and flips. The weight decay in the gradient is
    `weight_decay / learning_rate`, so that the shrinkage per step does not depend on the learning rate.

    Args:
        models: names, patterns or loaded models. Loaded models are not changed.
        data: the name of a dataset, whose splits `train` and `test` are used; or the training images, together with `test`.
        test: the test images, if `data` are training images.
        validation: the fraction of each class held out of the training images, or a dataset.
        learning_rates: the learning rates of the grid; default: the paper's 8.
        weight_decays: the weight decays of the grid; default: 0 and the paper's 8.
        steps: the length of each training run.
        batch_size: images per step.
        objective: the loss of the new head.
        seed: the seed of the validation split and of training.
        folder: where training runs are stored; an interrupted grid continues from there. Default: nowhere.
        workers: processes that decode images.
        progress: whether to show progress.
        settings: other settings of the `Recipe`, such as `crop` or `flip`.

    >>> start = registry.load("resnet8-softmax", pretrained=False, device="cpu")
    >>> found = finetune(start, "digits:train[:64]", "digits:test[:32]", learning_rates=[0.01], weight_decays=[0, 1e-4],
    ...                  steps=2, batch_size=16, crop=0.0, progress=False)
    >>> found.best["learning_rate"], len(found.table), 0 <= found.accuracy <= 1
    (0.01, 2, True)
    """
    _check_grid(learning_rates, weight_decays, steps)
    allowed = setting_names() - {"epochs", "steps", "batch_size", "learning_rate", "weight_decay", "holdout"}
    for name in settings:
        if name not in allowed:
            raise unknown("setting", name, sorted(allowed), list_known=True)
    recipe = {"crop": 0.1, "flip": True, "nesterov": False, "seed": seed, "steps": steps, "batch_size": batch_size}
    splits = _splits(data, test, validation, seed)
    task = _Task(*splits, objective, recipe | settings, None if folder is None else Path(folder), workers, progress)
    starts = [entry if isinstance(entry, Model) else registry.load(entry) for entry in runner.resolve(models)]
    rows = []
    for start, rate, decay in itertools.product(starts, learning_rates, weight_decays):
        tuned = _train(start, task.training, rate, decay, task, "grid")
        rows.append((start.name, rate, decay, _score(tuned, task.validation, task) if tuned else np.nan))
    table = pd.DataFrame(rows, columns=["model", "learning_rate", "weight_decay", "validation"])
    rate, decay, score = _best(table)
    tuned_models, accuracies = [], {}
    for start in starts:
        tuned = _train(start, task.everything, rate, decay, task, "final")
        if tuned is None:
            problem = f"training on all images diverged at learning rate {rate:g}, but not without the validation images"
            raise ZooError(problem, where=start.name, hint="Leave out the largest of {learning_rates}")
        accuracies[start.name] = _score(tuned, task.test, task)
        tuned_models.append(tuned)
    return FineTuning(table, {"learning_rate": rate, "weight_decay": decay, "validation": score}, accuracies, tuned_models)


def _train(start: Model, images: Dataset, rate: float, decay: float, task: _Task, stage: str) -> Model | None:
    """Return a copy of the model fine-tuned with one pair of the grid; None if training diverged."""
    recipe = _recipe(start, rate, decay, task)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of(recipe.entropy, For.START))
        head = ObjectiveHead(start.num_features, len(images.classes), objectives.get(task.objective))
    body, blocks = copy.deepcopy((start.network.body, start.network.blocks))  # at once: the blocks are parts of the body
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
    except ZooError:  # training also raises it for a loss that is not finite, after which the weights are not finite either
        if all(torch.isfinite(weight).all() for weight in network.parameters()):
            raise
        return None
    card = dataclasses.replace(start.card, labels=images.name, link=head.objective.link, head="fine-tuned")
    return Model(card, network, start.transform, images.classes)


def _recipe(start: Model, rate: float, decay: float, task: _Task) -> Recipe:
    if not isinstance(start.transform, Pipeline):
        problem = "its library preprocesses the images in a way that training cannot repeat"
        raise InputError(problem, where=start.name)
    # `steps` among the settings replaces the number of epochs.
    recipe = Recipe(
        start.transform.spec, 1, batch_size=task.settings["batch_size"], learning_rate=rate, weight_decay=decay / rate
    )
    return recipe.change(**task.settings)


def _score(model: Model, dataset: Dataset, task: _Task) -> float:
    """Return the dataset's metric on images without augmentation."""
    recipe = _recipe(model, 1.0, 0.0, task).plain()
    images = ImageBatches(dataset, ImageAugmentation(recipe), task.workers)
    batches = np.array_split(np.arange(len(dataset)), np.arange(_BATCH_SIZE, len(dataset), _BATCH_SIZE))
    predicted = []
    for pixels in images.batches(0, batches):
        _, logits = model.forward(pixels.to(model.device))
        assert logits is not None  # `_train` gave the network a head
        predicted.append(logits.argmax(1).cpu())
    return metric(dataset.metric)(torch.cat(predicted), dataset.labels)


def _best(table: pd.DataFrame) -> tuple[float, float, float]:
    """Return (learning rate, weight decay, score) of the best mean score over models; among equals the smallest."""
    means = table.groupby(["learning_rate", "weight_decay"])["validation"].apply(lambda scores: scores.mean(skipna=False))
    if means.isna().all():
        raise ZooError("training diverged at every learning rate", argument="learning_rates", hint="Choose smaller ones")
    pair: Any = means.idxmax()  # the first among equals; groups are sorted
    return float(pair[0]), float(pair[1]), float(means.max())


def _splits(
    data: str | Dataset, test: str | Dataset | None, validation: float | str | Dataset, seed: int
) -> tuple[Dataset, Dataset, Dataset, Dataset]:
    """Return (training, validation, training and validation, test) images."""
    if test is None:
        if not isinstance(data, str) or ":" in data:
            problem = f"the images to test on are missing; only {getattr(data, 'spec', data)} was given"
            raise InputError(problem, argument="test")
        data, test = f"{data}:train", f"{data}:test"
    dataset, test_set = datasets.load(data), datasets.load(test)
    labels = labels_of(dataset)
    if isinstance(validation, str | Dataset):
        training, validation_set = dataset, datasets.load(validation)
    elif is_fraction(validation):
        kept, held_out = hold_out(labels, validation, seed)
        training, validation_set = dataset.select(kept), dataset.select(held_out)
    else:
        raise InputError(argument="validation", expected="a dataset or a fraction between 0 and 1", found=validation)
    for other in (validation_set, test_set):
        labels_of(other)
        if other.classes != dataset.classes:
            problem = f"its {len(other.classes)} classes are not the {len(dataset.classes)} of {dataset.spec}"
            raise InputError(problem, where=other.spec)
        if other.fingerprint == dataset.fingerprint or validation_set.fingerprint == test_set.fingerprint:
            hint = "Pass different images for training, validation and testing"
            raise InputError("the same images are used twice", where=other.spec, hint=hint)
    everything = dataset
    if training is dataset:
        spec = f"{dataset.spec}+{validation_set.spec}"
        everything = dataclasses.replace(joined([dataset, validation_set]), spec=spec)
    return training, validation_set, everything, test_set


def _check_grid(learning_rates: Sequence[float], weight_decays: Sequence[float], steps: int) -> None:
    if not len(learning_rates) or not all(0 < rate < np.inf for rate in learning_rates):
        raise InputError(argument="learning_rates", expected="numbers above 0", found=list(learning_rates))
    if not len(weight_decays) or not all(0 <= decay < np.inf for decay in weight_decays):
        raise InputError(argument="weight_decays", expected="numbers of at least 0", found=list(weight_decays))
    for argument, values in (("learning_rates", learning_rates), ("weight_decays", weight_decays)):
        if len(set(values)) < len(values):
            raise InputError(argument=argument, expected="different numbers", found=list(values))
    if steps < 1:
        raise InputError(argument="steps", expected="at least 1", found=steps)
