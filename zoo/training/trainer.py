"""`zoo.train`: train a recipe by name and store the network in one file, where `zoo.load` finds it."""

import contextlib
import dataclasses
import os
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zoo import datasets, networks
from zoo.cards import labels
from zoo.cards.card import Card
from zoo.cards.names import snapshot
from zoo.core import files
from zoo.core import home as home_layout
from zoo.core.links import to_probabilities
from zoo.datasets import Dataset
from zoo.errors import InputError, UnknownName, ZooError, ZooWarning
from zoo.models import recipe_cards, registry, trained
from zoo.models.trained import Record
from zoo.networks.network import Network
from zoo.runs.engines.loader import translate_killed_worker
from zoo.runs.runner import run
from zoo.training.loop import CHECKPOINT, fit
from zoo.training.monitor import Evaluator, Monitor
from zoo.training.plans import Plan, plan
from zoo.training.processes import Processes
from zoo.training.randomness import For, seed_of


@dataclass(frozen=True)
class Trained:
    """A trained model."""

    name: str
    record: Record  # card, data, command and results
    folder: Path  # with weights and log
    fresh: bool  # False if the model existed before and nothing was done

    @property
    def card(self) -> Card:
        return self.record.card

    @property
    def results(self) -> dict[str, float]:
        """Accuracy, NLL and class separation on the training and the test images."""
        return self.record.results

    @property
    def log(self) -> list[dict[str, Any]]:
        """One entry per epoch."""
        return trained.log(self.folder)


def train(
    name: str,
    data: str | None = None,
    seed: int | None = None,
    epochs: int | None = None,
    home: Path | str | None = None,
    progress: bool = True,
    restart: bool = False,
    save_as: str | None = None,
    checkpoint_every: float = 30.0,
    measure_every: int = 0,
    snapshots_every: int = 0,
    **hyperparameters: Any,
) -> Trained:
    """Train the model of a recipe: an architecture with an objective (Kornblith et al. 2021, A.1).

    The model is stored in `<home>/weights/NAME`. A finished model is returned as it is, and an interrupted training
    continues from its checkpoint, unless `restart` is set.

    Args:
        name: a recipe, `ARCHITECTURE-OBJECTIVE[-sSEED][.DATASET]`.
        data: spec of the training images; default: the training split of the name's dataset.
        seed: random seed; default: the name's, else 0.
        epochs: number of epochs; default: the recipe's.
        home: where to store the model; default `ZOO_HOME`.
        progress: whether to show progress.
        restart: whether to train from the beginning and replace an existing model.
        save_as: name of the model. Needed if settings or images differ from the recipe's.
        checkpoint_every: seconds between checkpoints.
        measure_every: epochs between evaluations, whose `train_*` and `test_*` scores are written into the log; 0: never.
            The paper's Appendix E.4 uses 8.
        snapshots_every: epochs between snapshots, which load as `zoo.load("NAME@epoch12")`; 0: never.
        hyperparameters: settings of the recipe and hyper-parameters of the objective.

    >>> model = train("resnet8-cosine", data="digits", seed=1)  # doctest: +SKIP
    >>> model.name, model.card.hyperparameters["tau"]  # doctest: +SKIP
    ('resnet8-cosine-s1.digits', 0.15)
    >>> train("resnet8-cosine-s1").fresh  # doctest: +SKIP
    False
    """
    planned = plan(name, data, seed, epochs, save_as, **hyperparameters)
    for argument, every in {"measure_every": measure_every, "snapshots_every": snapshots_every}.items():
        if not isinstance(every, int) or every < 0:
            raise InputError(argument=argument, expected="a number of epochs, or 0 for never", found=every)
    return train_plan(planned, home_layout.root(home), progress, restart, checkpoint_every, measure_every, snapshots_every)


def build(name: str) -> None:
    """Train a recipe of the embedded dataset that `zoo.load` did not find, after printing one line."""
    planned = plan(name)
    print(
        f"zoo: building {planned.name} once: {planned.recipe.epochs} epochs on the embedded dataset {planned.dataset}",
        file=sys.stderr,
        flush=True,
    )
    train_plan(planned, home_layout.root())


def train_plan(
    planned: Plan,
    home: Path,
    progress: bool = True,
    restart: bool = False,
    checkpoint_every: float = 30.0,
    measure_every: int = 0,
    snapshots_every: int = 0,
) -> Trained:
    """Train a planned model, or return it if it exists. Arguments as in `train`."""
    train_set = datasets.load(planned.data)
    folder = trained.path(planned.name, home).parent
    if not restart and (existing := _finished(planned, train_set, home)):
        _check_snapshots(planned, home, snapshots_every)
        _remove_checkpoint(folder)
        return Trained(planned.name, existing, folder, fresh=False)
    with _exclusive(files.make_folder(folder), planned.name) as waited:
        if waited and (existing := _finished(planned, train_set, home)):
            return Trained(planned.name, existing, folder, fresh=False)
        every = {"measure_every": measure_every, "snapshots_every": snapshots_every}
        return _train(planned, train_set, home, progress, restart, checkpoint_every, every)


@translate_killed_worker()
def _train(
    planned: Plan,
    train_set: Dataset,
    home: Path,
    progress: bool,
    restart: bool,
    checkpoint_every: float,
    every: dict[str, int],
) -> Trained:
    teacher = planned.recipe.teacher
    soft_targets = probabilities(teacher, train_set, home, progress) if teacher else None
    folder = trained.path(planned.name, home).parent
    network = initial_network(planned, train_set)
    about = {
        "architecture": planned.architecture,
        "objective": planned.objective,
        "hyperparameters": planned.hyperparameters,
    }
    processes = Processes(planned.recipe)
    evaluator = Evaluator(planned, train_set, processes)
    card = describe(planned, train_set)

    def store_snapshot(network: Network, epoch: int, step: int, scores: dict[str, float]) -> None:
        _store(network, _record(planned, train_set, trained.snapshot_card(card, epoch), epoch, step, scores), home)

    done = fit(
        network, train_set, planned.recipe, soft_targets=soft_targets, folder=folder, about=about, title=planned.name,
        progress=progress, resume=not restart, checkpoint_every=checkpoint_every,
        watch=Monitor(evaluator, store_snapshot, **every),
    )  # fmt: skip
    results = evaluator(network, f"{planned.name}, evaluation", progress)
    if processes.main:
        _store(network, _record(planned, train_set, card, done.epoch, done.steps, results), home)
        (folder / CHECKPOINT).unlink(missing_ok=True)  # if the process is killed before this, the next call removes it
    processes.wait()
    return Trained(planned.name, trained.describe(trained.path(planned.name, home)), folder, fresh=True)


def initial_network(planned: Plan, train_set: Dataset) -> Network:
    """Return the untrained network of a plan. Its weights depend on the model's name and seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of(planned.recipe.entropy, For.START))
        size, classes = planned.recipe.transform.size, len(train_set.classes)
        return networks.build(planned.architecture, classes, planned.objective, planned.hyperparameters, size)


def probabilities(name: str, train_set: Dataset, home: Path, progress: bool = True) -> Tensor:
    """Return a teacher's probabilities [N, K] for each image, as it would predict them, without augmentation.

    A saved ensemble averages its members' probabilities at their stored temperatures. The outputs are stored, so that a
    resumed run reads the same numbers.
    """
    outputs = run(name, data=train_set, home=home, embeddings=False, progress=progress)[name]
    if outputs.classes != train_set.classes or list(outputs.ids) != list(train_set.ids):
        raise InputError(
            where=f"teacher {name}",
            expected=f"predictions of the {len(train_set.classes)} classes of {train_set.spec} for {len(train_set)} images",
            found=f"{len(outputs.classes)} classes for {len(outputs)} images",
            hint="Name a model of this dataset: {teacher=NAME}",
        )
    uncalibrated = _uncalibrated_members(name)
    if uncalibrated:
        shown = ", ".join(uncalibrated[:3]) + (", ..." if len(uncalibrated) > 3 else "")
        warnings.warn(
            f"teacher {name}: {len(uncalibrated)} members have temperature 1, so their uncalibrated probabilities are "
            f"averaged ({shown}); calibrate the members' outputs and save the ensemble again",
            ZooWarning,
            stacklevel=2,
        )
    return torch.as_tensor(to_probabilities(torch.tensor(outputs.logits), 1.0, outputs.link))


def _uncalibrated_members(name: str) -> list[str]:
    """Return the members of an ensemble, and of ensembles in it, whose temperature is exactly 1; none for other models."""
    uncalibrated = []
    for member in registry.card(name).members:
        if registry.card(member.name).members:
            uncalibrated += _uncalibrated_members(member.name)
        elif member.temperature == 1.0:
            uncalibrated.append(member.name)
    return uncalibrated


def _store(network: Network, record: Record, home: Path) -> None:
    state = {name: value.detach().cpu().numpy() for name, value in network.state_dict().items()}
    files.write(trained.path(record.card.name, home), trained.encode(record, state))


def _check_snapshots(planned: Plan, home: Path, every: int) -> None:
    """Raise an error if a finished model lacks a snapshot, which cannot be made afterwards."""
    for epoch in range(every, planned.recipe.epochs + 1, every) if every else ():
        if not trained.path(snapshot(planned.name, epoch), home).exists():
            raise InputError(
                f"the trained model has no snapshot of epoch {epoch}",
                where=planned.name,
                argument="snapshots_every",
                hint="Train the model again with {restart=True}, or leave out {snapshots_every}",
            )


def _remove_checkpoint(folder: Path) -> None:
    """Remove the checkpoint of a finished model, left by a process that was killed, unless another process restarts it."""
    if (folder / CHECKPOINT).exists():
        with contextlib.suppress(OSError, ZooError), files.lock(folder / "lock") as first:
            if first:
                (folder / CHECKPOINT).unlink(missing_ok=True)


def _finished(planned: Plan, train_set: Dataset, home: Path) -> Record | None:
    """Return the record of the model if it exists; raise an error if another recipe's model has its name."""
    path = trained.path(planned.name, home)
    if not path.exists():
        return None
    found = trained.describe(path)
    # A network trained before initial weights depended on the name stays valid: only its settings must agree.
    stored = dataclasses.replace(found.card.training, initialisation="name and seed")
    changed = trained.changes(stored, describe(planned, train_set).training)
    if found.fingerprint != train_set.fingerprint:
        changed.append(f"the images of {planned.data}")
    if changed:
        raise InputError(
            f"a model of this name was trained by another recipe ({'; '.join(changed[:3])})",
            where=planned.name,
            hint="Choose another name with {save_as=NAME}, or replace the model with {restart=True}",
        )
    return found


@contextlib.contextmanager
def _exclusive(folder: Path, name: str) -> Iterator[bool]:
    """Wait until no other process trains this model; yield whether there was one. Processes of one run count as one."""
    if int(os.environ.get("RANK", "0")) > 0:
        yield False
        return
    waited = False
    while True:
        with files.lock(folder / "lock") as first:
            if first:
                yield waited
                return
        if not waited:
            print(f"zoo: another process is training {name}; waiting for it", file=sys.stderr, flush=True)
        waited = True
        time.sleep(1)


def describe(planned: Plan, train_set: Dataset) -> Card:
    """Return the card of a planned model: the recipe's, or one with the model's own settings and classes."""
    if planned.name == str(planned.parts) and "precision" not in planned.changed:
        card = recipe_cards.card(planned.parts)
        return card if card.sha256 is None else recipe_cards.made(planned.parts)  # not the card of shipped weights
    settings = {**planned.hyperparameters, **planned.recipe.settings}
    card = recipe_cards.describe(planned.parts, settings, planned.recipe.transform, planned.command)
    label_set = train_set.label_set or card.labels
    try:
        known = labels.classes(label_set) == train_set.classes
    except UnknownName:
        known = False
    details: dict[str, Any] = {} if known else {"classes": list(train_set.classes)}
    return dataclasses.replace(card, name=planned.name, labels=label_set, details=details)


def _record(planned: Plan, train_set: Dataset, card: Card, epoch: int, steps: int, results: dict[str, float]) -> Record:
    return Record(
        card=dataclasses.replace(card, path=None),
        data=planned.data,
        fingerprint=train_set.fingerprint,
        command=planned.command,
        epoch=epoch,
        steps=steps,
        results=results,
    )
