"""Named models made here: trained, stored in one file, and found by every other part from then on."""

import contextlib
import dataclasses
import os
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from zoo import architectures, datasets, settings
from zoo._registry import trained
from zoo._registry.names import snapshot
from zoo._registry.trained import Record
from zoo._running.engines.loading import killed_worker_told
from zoo._storage import files, typed
from zoo.cards import Card
from zoo.datasets import Dataset
from zoo.errors import InputError, ZooError
from zoo.model import Network
from zoo.training.describing import describe, record
from zoo.training.fitting import CHECKPOINT, fit
from zoo.training.planning import Plan, plan
from zoo.training.processes import Processes
from zoo.training.randomness import For, seed_of
from zoo.training.watching import Examination, Watching


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
    measure_every: int = 0,
    snapshots_every: int = 0,
) -> Trained:
    """Train what is planned, or find it made; `teach` gives the probabilities of the teacher that a recipe names."""
    train_set = datasets.load(made.data)
    if not restart and (found := _finished(made, train_set, place)):
        _check_snapshots(made, place, snapshots_every)
        _clear(trained.path(made.name, place).parent)
        return Trained(made.name, found, trained.path(made.name, place).parent, fresh=False)
    with _turn(files.make_folder(trained.path(made.name, place).parent), made.name) as waited:
        if waited and (found := _finished(made, train_set, place)):
            return Trained(made.name, found, trained.path(made.name, place).parent, fresh=False)
        named = made.recipe.teacher
        targets = teach(named, train_set) if named and teach else None
        every = {"measure_every": measure_every, "snapshots_every": snapshots_every}
        return _make(made, train_set, place, progress, restart, checkpoint_every, targets, every)


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
    every: dict[str, int],
) -> Trained:
    folder = trained.path(made.name, place).parent
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of(made.recipe.entropy, For.START))
        size, classes = made.recipe.transform.size, len(train_set.classes)
        network = architectures.build(made.architecture, classes, made.objective, made.hyperparameters, size)
    about = {"architecture": made.architecture, "objective": made.objective, "hyperparameters": made.hyperparameters}
    processes = Processes(made.recipe)
    examine = Examination(made, train_set, processes)
    card = describe(made, train_set)

    def keep(network: Network, epoch: int, step: int, found: dict[str, float]) -> None:
        _store(network, record(made, train_set, trained.snapshot_card(card, epoch), epoch, step, found), place)

    done = fit(
        network, train_set, made.recipe, soft_targets=soft_targets, folder=folder, about=about, title=made.name,
        progress=progress, resume=not restart, checkpoint_every=checkpoint_every, watch=Watching(examine, keep, **every),
    )  # fmt: skip
    results = examine(network)
    if processes.main:
        _store(network, record(made, train_set, card, done.epoch, done.steps, results), place)
        (folder / CHECKPOINT).unlink(missing_ok=True)  # killed before this, the next call removes it
    processes.wait()
    return Trained(made.name, trained.describe(trained.path(made.name, place)), folder, fresh=True)


def _store(network: Network, made: Record, place: Path) -> None:
    state = {name: value.detach().cpu().numpy() for name, value in network.state_dict().items()}
    files.write(trained.path(made.card.name, place), trained.encode(made, state))


def _check_snapshots(made: Plan, place: Path, every: int) -> None:
    """An error where a finished model has not the snapshots that are asked for: they cannot be had afterwards."""
    for epoch in range(every, made.recipe.epochs + 1, every) if every else ():
        if not trained.path(snapshot(made.name, epoch), place).exists():
            raise InputError(
                f"{made.name}: is there already, without a snapshot of epoch {epoch}; train it again (--restart), or leave "
                "out the snapshots"
            )


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
    # A network trained before initial weights depended on the name stays valid: only its settings must agree.
    stored = dataclasses.replace(found.card.training, initialisation="name and seed")
    changed = typed.differences(typed.plain(stored), typed.plain(describe(made, train_set).training))
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
