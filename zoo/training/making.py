"""Named models made here: trained, described by a card, stored, and found by every other part from then on."""

import contextlib
import hashlib
import json
import os
import sys
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from zoo import architectures, cards, datasets, files, settings, typed
from zoo.cards import Card
from zoo.datasets import Dataset
from zoo.errors import InputError, ZooError, ZooWarning
from zoo.model import Network
from zoo.training import teacher
from zoo.training.augmentation import PictureAugmentation
from zoo.training.describing import describe
from zoo.training.evaluation import evaluate
from zoo.training.fitting import CHECKPOINT, LOG, Fit, fit
from zoo.training.loading import Pictures
from zoo.training.planning import Plan, plan
from zoo.training.processes import Processes
from zoo.training.randomness import For, seed_of
from zoo.training.recipes import differences

WEIGHTS = "model.safetensors"
MOST_MEASURED = 50_000  # training pictures on which the finished network's class separation is measured


@dataclass(frozen=True)
class Trained:
    """A model that is there now."""

    name: str
    card: Card
    folder: Path  # weights and log
    fresh: bool  # False: it was there before, and nothing was done

    @property
    def results(self) -> dict[str, float]:
        """Accuracy, NLL and class separation on the training and the test pictures."""
        return self.card.details["results"]

    @property
    def log(self) -> list[dict[str, Any]]:
        """One entry an epoch."""
        return [json.loads(line) for line in (self.folder / LOG).read_text().splitlines()]


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
    **hyperparameters: Any,
) -> Trained:
    """Make the model of a recipe, an architecture with an objective (Kornblith et al. 2021, A.1), or find it made.

    The data, the seed and the settings that are not given are the recipe's own; any hyper-parameter of the objective and
    any setting of the recipe may be given by name. The model is stored in `<home>/weights/NAME` with a card in
    `<home>/cards`, and `zoo.load(NAME)` finds it. A finished model is left alone and an interrupted one goes on where it
    stopped, unless `restart`. The name says the dataset and the seed where they are not the default ones; `save_as` gives
    another one, which a model needs whose settings differ from those of a finished model.

    >>> trained = train("resnet8-cosine", data="digits", seed=1, tau=0.1)  # doctest: +SKIP
    >>> trained.name, trained.card.hyperparameters["tau"]  # doctest: +SKIP
    ('resnet8-cosine-s1', 0.1)
    >>> train("resnet8-cosine", data="digits", seed=1, tau=0.1).fresh  # doctest: +SKIP
    False
    """
    made = plan(name, data, seed, epochs, save_as, **hyperparameters)
    place = Path(home).expanduser() if home is not None else settings.home()
    train_set = datasets.load(made.data)
    if not restart and (card := _finished(made, train_set, place)):
        return Trained(made.name, card, place / "weights" / made.name, fresh=False)
    with _turn(files.make_folder(place / "weights" / made.name), made.name) as waited:
        if waited and (card := _finished(made, train_set, place)):
            return Trained(made.name, card, place / "weights" / made.name, fresh=False)
        return _make(made, train_set, place, progress, restart, checkpoint_every)


def build(name: str) -> None:
    """Train a recipe of the embedded dataset because somebody loads it, and say so in one line."""
    made = plan(name)
    stem = name.removesuffix(f".{made.dataset}")
    print(
        f"zoo: building {name} once, {made.recipe.epochs} epochs on the embedded {made.dataset} "
        f"(ImageNet instead: `zoo train {stem} --data in1k`, then load {stem}.in1k)",
        file=sys.stderr,
        flush=True,
    )
    train(name)


def _make(made: Plan, train_set: Dataset, place: Path, progress: bool, restart: bool, checkpoint_every: float) -> Trained:
    folder = place / "weights" / made.name
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of(made.recipe.seed, For.START))
        size, classes = made.recipe.transform.size, len(train_set.classes)
        network = architectures.build(made.architecture, classes, made.objective, made.hyperparameters, size)
    about = {"architecture": made.architecture, "objective": made.objective, "hyperparameters": made.hyperparameters}
    named = made.recipe.teacher
    taught = teacher.probabilities(named, train_set, place, progress) if named else None
    done = fit(
        network, train_set, made.recipe, soft_targets=taught, folder=folder, about=about, title=made.name, progress=progress,
        resume=not restart, checkpoint_every=checkpoint_every,
    )  # fmt: skip
    processes = Processes(made.recipe)
    results = _measure(network, made, train_set, processes)
    card = _store(network, made, train_set, done, results, place) if processes.main else None
    processes.wait()
    return Trained(made.name, card or cards.read(place / "cards" / f"{made.name}.md"), folder, fresh=True)


def _measure(network: Network, made: Plan, train_set: Dataset, processes: Processes) -> dict[str, float]:
    """What the finished network does on the pictures as prediction sees them."""
    prepare = PictureAugmentation(made.recipe.plain())
    step = -(-len(train_set) // MOST_MEASURED)
    found = evaluate(network, Pictures(train_set.select(slice(None, None, step)), prepare), processes)
    results = {f"train_{name}": value for name, value in found.items()}
    try:
        test_set = datasets.load(made.test) if made.test else None
    except ZooError as error:
        warnings.warn(f"{made.name}: trained, but not tested: {error}", ZooWarning, stacklevel=2)
        test_set = None
    if test_set is not None:
        found = evaluate(network, Pictures(test_set, prepare), processes)
        results |= {f"test_{name}": value for name, value in found.items()}
    return {name: round(value, 6) for name, value in results.items()}


def _store(
    network: Network, made: Plan, train_set: Dataset, done: Fit, results: dict[str, float], place: Path
) -> Card:  # fmt: skip
    """Write the card, then the weights, then remove the checkpoint: killed in between, the next run writes them again.

    A card whose weights are missing says that they must be made; weights without their card could be taken for those of
    another one.
    """
    from safetensors.torch import save

    state = {name: value.detach().cpu().contiguous() for name, value in network.state_dict().items()}
    data = save(state)
    card = describe(made, train_set, done, results, hashlib.sha256(data).hexdigest())
    files.write(files.make_folder(place / "cards") / f"{made.name}.md", cards.write(card).encode())
    folder = place / "weights" / made.name
    files.write(folder / WEIGHTS, data)
    (folder / CHECKPOINT).unlink(missing_ok=True)
    return card


def _finished(made: Plan, train_set: Dataset, place: Path) -> Card | None:
    """The card of the model if it is there already; an error if another recipe's model has its name."""
    path = place / "cards" / f"{made.name}.md"
    if not path.exists() or not (place / "weights" / made.name / WEIGHTS).exists():
        return None
    card = cards.read(path)
    wanted = describe(made, train_set)
    changed = differences(typed.plain(card.training), typed.plain(wanted.training))
    if card.details.get("fingerprint") != train_set.fingerprint:
        changed.append(f"pictures of {made.data}: others than now")
    if changed:
        raise InputError(
            f"{made.name}: is there already, trained by another recipe ({'; '.join(changed[:3])}); "
            "save this one under another name (--as), or replace that one (--restart)"
        )
    return card


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
