"""Named models made here: trained, stored in one file, and found by every other part from then on."""

import contextlib
import os
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zoo import architectures, datasets, settings
from zoo._registry import trained
from zoo._registry.trained import Record
from zoo._running.engines.loading import killed_worker_told
from zoo._storage import files, typed
from zoo.cards import Card
from zoo.datasets import Dataset
from zoo.errors import InputError, ZooError, ZooWarning
from zoo.model import Network
from zoo.training.augmentation import ImageAugmentation
from zoo.training.describing import describe, record
from zoo.training.evaluation import evaluate
from zoo.training.fitting import CHECKPOINT, fit
from zoo.training.loading import ImageBatches
from zoo.training.planning import Plan, plan
from zoo.training.processes import Processes
from zoo.training.randomness import For, seed_of
from zoo.training.recipes import differences

MOST_MEASURED = 50_000  # training images on which the finished network's class separation is measured


@dataclass(frozen=True)
class Trained:
    """A model that is there now."""

    name: str
    record: Record  # how it was made
    folder: Path  # weights and log
    fresh: bool  # False: it was there before, and nothing was done

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


def make(
    made: Plan,
    place: Path,
    progress: bool = True,
    restart: bool = False,
    checkpoint_every: float = 30.0,
    teach: Callable[[str, Dataset], Tensor] | None = None,
) -> Trained:
    """Train what is planned, or find it made; `teach` gives the probabilities of the teacher that a recipe names."""
    train_set = datasets.load(made.data)
    if not restart and (found := _finished(made, train_set, place)):
        _clear(trained.path(made.name, place).parent)
        return Trained(made.name, found, trained.path(made.name, place).parent, fresh=False)
    with _turn(files.make_folder(trained.path(made.name, place).parent), made.name) as waited:
        if waited and (found := _finished(made, train_set, place)):
            return Trained(made.name, found, trained.path(made.name, place).parent, fresh=False)
        named = made.recipe.teacher
        targets = teach(named, train_set) if named and teach else None
        return _make(made, train_set, place, progress, restart, checkpoint_every, targets)


def build(name: str) -> None:
    """Train a recipe of the embedded dataset because somebody loads it, and say so in one line."""
    made = plan(name)
    print(
        f"zoo: building {made.name} once, {made.recipe.epochs} epochs on the embedded {made.dataset}",
        file=sys.stderr,
        flush=True,
    )
    make(made, settings.home())


@killed_worker_told()
def _make(
    made: Plan,
    train_set: Dataset,
    place: Path,
    progress: bool,
    restart: bool,
    checkpoint_every: float,
    soft_targets: Tensor | None,
) -> Trained:
    folder = trained.path(made.name, place).parent
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of(made.recipe.seed, For.START))
        size, classes = made.recipe.transform.size, len(train_set.classes)
        network = architectures.build(made.architecture, classes, made.objective, made.hyperparameters, size)
    about = {"architecture": made.architecture, "objective": made.objective, "hyperparameters": made.hyperparameters}
    done = fit(
        network, train_set, made.recipe, soft_targets=soft_targets, folder=folder, about=about, title=made.name,
        progress=progress, resume=not restart, checkpoint_every=checkpoint_every,
    )  # fmt: skip
    processes = Processes(made.recipe)
    results = _measure(network, made, train_set, processes)
    if processes.main:
        _store(network, record(made, train_set, done, results), place)
    processes.wait()
    return Trained(made.name, trained.describe(trained.path(made.name, place)), folder, fresh=True)


def _measure(network: Network, made: Plan, train_set: Dataset, processes: Processes) -> dict[str, float]:
    """What the finished network does on the images as prediction sees them."""
    prepare = ImageAugmentation(made.recipe.plain())
    step = -(-len(train_set) // MOST_MEASURED)
    found = evaluate(network, ImageBatches(train_set.select(slice(None, None, step)), prepare), processes)
    results = {f"train_{name}": value for name, value in found.items()}
    try:
        test_set = datasets.load(made.test) if made.test else None
    except ZooError as error:
        warnings.warn(f"{made.name}: trained, but not tested: {error}", ZooWarning, stacklevel=2)
        test_set = None
    if test_set is not None:
        found = evaluate(network, ImageBatches(test_set, prepare), processes)
        results |= {f"test_{name}": value for name, value in found.items()}
    return {name: round(value, 6) for name, value in results.items()}


def _store(network: Network, made: Record, place: Path) -> None:
    """Write the model, then remove the checkpoint: killed in between, the next call removes it."""
    path = trained.path(made.card.name, place)
    state = {name: value.detach().cpu().numpy() for name, value in network.state_dict().items()}
    files.write(path, trained.encode(made, state))
    (path.parent / CHECKPOINT).unlink(missing_ok=True)


def _clear(folder: Path) -> None:
    """Remove the checkpoint of a finished model, unless somebody trains it anew: its process was killed before it could."""
    if (folder / CHECKPOINT).exists():
        with contextlib.suppress(OSError, ZooError), files.lock(folder / "lock") as first:
            if first:
                (folder / CHECKPOINT).unlink(missing_ok=True)


def _finished(made: Plan, train_set: Dataset, place: Path) -> Record | None:
    """How the model was made if it is there already; an error if another recipe's model has its name."""
    path = trained.path(made.name, place)
    if not path.exists():
        return None
    found = trained.describe(path)
    changed = differences(typed.plain(found.card.training), typed.plain(describe(made, train_set).training))
    if found.fingerprint != train_set.fingerprint:
        changed.append(f"images of {made.data}: others than now")
    if changed:
        raise InputError(
            f"{made.name}: is there already, trained by another recipe ({'; '.join(changed[:3])}); "
            "save this one under another name (--as), or replace that one (--restart)"
        )
    return found


@contextlib.contextmanager
def _turn(folder: Path, name: str) -> Iterator[bool]:
    """Wait until no other process trains this model; whether there was one. Processes of one run count as one."""
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
