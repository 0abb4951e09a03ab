"""What figures need of models and data. Every need is checked before any model runs, and gives a reason if it is not met."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from diversity.training_curves import RECORD, TRAINING, VALIDATION, curve
from zoo import datasets
from zoo.app.figures.study import RECIPE, Study
from zoo.cards.card import Card
from zoo.errors import ZooError

SNAPSHOT = re.compile(r"(?P<name>.+)@epoch(?P<epoch>\d+)\Z")
LONG_DECAY = 0.985  # of the learning rate per epoch, in Table C.6 of Kornblith et al. 2021


@dataclass(frozen=True)
class Need:
    """A requirement of a figure: its description, and a function that returns why a study does not meet it, or None."""

    words: str
    missing: Callable[[Study], str | None]


def _need(words: str, met: Callable[[Study], object], reason: str) -> Need:
    return Need(words, lambda study: None if met(study) else f"needs {reason}")


def _all(words: str, unmet: Callable[[Study], Sequence[str]], reason: str) -> Need:
    """Need something of all models, rows or tasks; the reason names the first without it, in place of `{}`."""
    return Need(words, lambda study: f"needs {reason.format(found[0])}" if (found := unmet(study)) else None)


def _of_cards(words: str, met: Callable[[Card | None], object], reason: str) -> Need:
    return _all(words, lambda study: [name for name, card in study.cards.items() if not met(card)], reason)


def models(count: int = 2) -> Need:
    """Need at least this many models."""
    words = "a model" if count == 1 else f"{count} models"
    reason = f"needs at least {count} models, got {{}}"
    return Need(words, lambda study: None if len(study.names) >= count else reason.format(len(study.names)))


def architecture(name: str) -> Need:
    """Need models of one architecture only."""
    only = f"{name} models only, and {{}} is not one"
    return _of_cards(f"models of {name}", lambda card: card and card.architecture == name, only)


def transferred_to(name: str) -> Need:
    """Need a dataset to transfer to."""
    words = f"--transfer {name}"
    return _need(words, lambda study: any(spec.partition(":")[0] == name for spec in study.transfer), words)


def logged(quantity: str, splits: Sequence[str], images: str) -> Need:
    """Need a training log with a quantity of these images, measured with the weights that training would return."""

    def missing(study: Study) -> str | None:
        present = any(curve(log, quantity, splits) for log in study.logs.values())
        hint = f"no training log has the {quantity.replace('_', ' ')} of {images}; {RECORD}"
        return LOGS.missing(study) or (None if present else hint)

    return Need(f"training logs with {images} (--measure-every)", missing)


def _trained_with(what: str, setting: str, met: Callable[[Any], object], example: object) -> Need:
    words = f"models trained with {what}"
    return _need(
        words,
        lambda study: any(met(study.setting(name, setting)) for name in study.names),
        f"{words}; train some: --set {setting}={example} --name NAME",
    )


def _images(study: Study) -> str | None:
    try:
        datasets.load(study.data)
    except ZooError as error:
        return str(error)
    return None


def _task(study: Study) -> str | None:
    if not study.transfer:
        return "needs a dataset to transfer to; name one with --transfer"
    single = [spec for spec in study.transfer if datasets.training_split(spec) in (None, spec)]
    return f"needs the test split of a dataset with a training split, and {single[0]} is not one" if single else None


def _combined(study: Study) -> str | None:
    held_out = any("holdout_accuracy" in entry for log in study.logs.values() for entry in log)
    several = any("+" in study.objective(name) for name in study.names)
    reason = "needs a holdout, and no training log has one; train with --set holdout=N" if not held_out else None
    return (
        LOGS.missing(study) or reason or (None if several else "needs combined objectives, such as resnet8-sigmoid+dropout")
    )


def _temperatures(study: Study) -> str | None:
    values = {study.setting(name, "tau") for name in study.of_objective("cosine").names}
    command = "zoo train resnet8-cosine.digits --set tau=0.05 --name cosine-tau-0.05"
    return None if len(values) > 1 else f"needs cosine models of several tau, got {len(values)}; train some: {command}"


OBJECTIVES = _need("two objectives", lambda study: len(study.members) > 1, "models of at least two training objectives")
SEEDS = _all(
    "two seeds of each objective",
    lambda study: [row for row, members in study.members.items() if len(members) < 2],
    "at least two seeds of every objective, and {} has one",
)
TRAINING_SPLIT = _all(
    "data with a training split",
    lambda study: [] if datasets.training_split(study.data) else [study.data],
    "a training split, and {} has none",
)
IMAGES = Need("the images", _images)
TASK = Need("--transfer", _task)
CARDS = _of_cards("a card of every model", bool, "the training settings of every model, and {} has no card")
RECIPES = _of_cards(
    "models trained by recipes",
    lambda card: card and card.source == RECIPE,
    "the final layer of models trained by recipes, and {} was not",
)
LOGS = _need("training logs", lambda study: study.logs, "training logs of the models, which `zoo train` writes")
TRAINING_CURVES = logged("accuracy", TRAINING, "plain training images")
VALIDATION_CURVES = logged("accuracy", VALIDATION, "validation images")
SEPARATION_CURVES = logged("class_separation", TRAINING, "plain training images")
COMBINED = Need("combined objectives, trained with a holdout", _combined)
TEMPERATURES = Need("cosine models of several tau", _temperatures)
AUGMENTED = _trained_with("AutoAugment", "auto_augment", bool, "imagenet")
INCEPTION_V3 = architecture("inception_v3")
LONG = _trained_with(f"decay {LONG_DECAY}", "decay", lambda value: value == LONG_DECAY, LONG_DECAY)
SNAPSHOTS = _need(
    "snapshots NAME@epochN",
    lambda study: any(map(SNAPSHOT.match, study.names)),
    "snapshots of models at several epochs, NAME@epochN; train with --snapshots-every",
)
