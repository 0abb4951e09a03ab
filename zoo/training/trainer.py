"""`zoo.train`: train a recipe by name, store the network in one file, and find it again."""

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

from zoo import datasets, networks
from zoo.cards import labels
from zoo.cards.card import Card
from zoo.cards.names import snapshot
from zoo.core import files, settings, typed
from zoo.core.links import to_probabilities
from zoo.datasets import Dataset
from zoo.errors import InputError, UnknownName, ZooError
from zoo.models import recipe_cards, trained
from zoo.models.trained import Record
from zoo.networks.network import Network
from zoo.runs.engines.loader import killed_worker_told
from zoo.runs.runner import run
from zoo.training.loop import CHECKPOINT, fit
from zoo.training.monitor import Examination, Watching
from zoo.training.plans import Plan, plan
from zoo.training.processes import Processes
from zoo.training.randomness import For, seed_of


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
    """Make the model of a recipe, an architecture with an objective (Kornblith et al. 2021, A.1), or find it made.

    The data, the seed and the settings that are not given are the recipe's own; any hyper-parameter of the objective and
    any setting of the recipe may be given by name. A name is one recipe, so a model with other settings needs a name of
    its own, `save_as`. The model is stored in `<home>/weights/NAME`, where `zoo.load(NAME)` finds it. A finished model is
    left alone and an interrupted one goes on where it stopped, unless `restart`.

    Every `measure_every` epochs the log gets `train_*` and `test_*` figures of the weights that would be the result (the
    paper's Appendix E.4 has one every 8). Every `snapshots_every` epochs these weights are kept as a model of their own,
    `zoo.load("NAME@epoch12")`.

    >>> made = train("resnet8-cosine", data="digits", seed=1)  # doctest: +SKIP
    >>> made.name, made.card.hyperparameters["tau"]  # doctest: +SKIP
    ('resnet8-cosine-s1.digits', 0.15)
    >>> train("resnet8-cosine-s1").fresh  # doctest: +SKIP
    False
    """
    made = plan(name, data, seed, epochs, save_as, **hyperparameters)
    place = Path(home).expanduser() if home is not None else settings.home()

    def teach(teacher: str, train_set: Dataset) -> Tensor:
        return probabilities(teacher, train_set, place, progress)

    for option, every in {"measure_every": measure_every, "snapshots_every": snapshots_every}.items():
        if not isinstance(every, int) or every < 0:
            raise InputError(f"{option} is {every!r}, expected a number of epochs, or 0 for never")
    return make(made, place, progress, restart, checkpoint_every, teach, measure_every, snapshots_every)


def probabilities(name: str, train_set: Dataset, home: Path, progress: bool = True) -> Tensor:
    """The probabilities [N, K] of a model, such as a saved ensemble with its members' temperatures, for each image.

    They are for the images as prediction sees them, computed once and kept as the model's outputs: shifts and flips in
    training do not change what the teacher said, and a resumed run reads the same numbers.
    """
    outputs = run(name, data=train_set, home=home, embeddings=False, progress=progress)[name]
    if outputs.classes != train_set.classes or list(outputs.ids) != list(train_set.ids):
        raise InputError(
            f"teacher {name}: predicts {len(outputs.classes)} classes for {len(outputs)} images, expected the "
            f"{len(train_set.classes)} classes of {train_set.spec} for all {len(train_set)}; name a model of this dataset"
        )
    return torch.as_tensor(to_probabilities(torch.tensor(outputs.logits), 1.0, outputs.link))


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
        network = networks.build(made.architecture, classes, made.objective, made.hyperparameters, size)
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


def describe(made: Plan, train_set: Dataset) -> Card:
    """The card of a planned model: its recipe's, or one of its own with the settings and the classes it really has."""
    if made.name == str(made.parts):
        card = recipe_cards.card(made.parts)
        return (
            card if card.sha256 is None else recipe_cards.made(made.parts)
        )  # the card of shipped weights describes those alone
    settings = {**made.hyperparameters, **made.recipe.settings}
    card = recipe_cards.describe(made.parts, settings, made.recipe.transform, made.command)
    label_set, details = _classes(train_set, card.labels)
    return dataclasses.replace(card, name=made.name, labels=label_set, details=details)


def record(made: Plan, train_set: Dataset, card: Card, epoch: int, steps: int, results: dict[str, float]) -> Record:
    """How a model was made, to be kept with its weights."""
    return Record(
        card=dataclasses.replace(card, path=None),
        data=made.data,
        fingerprint=train_set.fingerprint,
        command=made.command,
        epoch=epoch,
        steps=steps,
        results=results,
    )


def _classes(train_set: Dataset, name: str) -> tuple[str, dict[str, object]]:
    """The label set, and the class names where no label set of that name has just these."""
    name = train_set.label_set or name
    try:
        known = labels.classes(name) == train_set.classes
    except UnknownName:
        known = False
    return name, {} if known else {"classes": list(train_set.classes)}
