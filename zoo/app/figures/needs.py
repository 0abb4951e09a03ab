"""What figures need of models and data. Every need is checked before any model runs, and gives a reason if it is not met."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from zoo import datasets
from zoo.app.figures.study import RECIPE, Study
from zoo.errors import ZooError

SNAPSHOT = re.compile(r"(?P<name>.+)@epoch(?P<epoch>\d+)\Z")
LONG_DECAY = 0.985  # of the learning rate per epoch, in Table C.6 of Kornblith et al. 2021
# Fields of a training log, by the images they are measured on. Validation images come before held-out training images.
TRAINING_FIELDS, VALIDATION_FIELDS = ("train_{}",), ("test_{}", "holdout_{}")


@dataclass(frozen=True)
class Need:
    """A need in words, and a function that returns why a study does not meet it, or None."""

    words: str
    missing: Callable[[Study], str | None]


def models(count: int = 2) -> Need:
    """Need at least this many models."""

    def missing(study: Study) -> str | None:
        return None if len(study.names) >= count else f"needs at least {count} models, got {len(study.names)}"

    return Need("a model" if count == 1 else f"{count} models", missing)


def architecture(name: str) -> Need:
    """Need models of one architecture only."""

    def missing(study: Study) -> str | None:
        others = [model for model, card in study.cards.items() if card is None or card.architecture != name]
        return f"needs {name} models only, and {others[0]} is not one" if others else None

    return Need(f"models of {name}", missing)


def transferred_to(*names: str) -> Need:
    """Need one of these datasets to transfer to."""

    def missing(study: Study) -> str | None:
        passed = [spec for spec in study.transfer if spec.partition(":")[0] in names]
        return None if passed else f"needs --transfer {' or '.join(names)}"

    return Need(f"--transfer {names[0]}", missing)


def logged(quantity: str, fields: tuple[str, ...], images: str) -> Need:
    """Need a training log with a quantity of these images, measured with the weights that training would return."""
    wanted = [field.format(quantity) for field in fields]

    def missing(study: Study) -> str | None:
        present = any(field in entry for log in study.logs.values() for entry in log for field in wanted)
        hint = f"no training log has the {quantity.replace('_', ' ')} of {images}; train with --measure-every 8"
        return _logs(study) or (None if present else hint)

    return Need(f"training logs with {images} (--measure-every)", missing)


def _objectives(study: Study) -> str | None:
    return None if len(study.members) > 1 else "needs models of at least two training objectives"


def _seeds(study: Study) -> str | None:
    single = [row for row, members in study.members.items() if len(members) < 2]
    return f"needs at least two seeds of every objective, and {single[0]} has one" if single else None


def _training_split(study: Study) -> str | None:
    return None if datasets.training_split(study.data) else f"needs a training split, and {study.data} has none"


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


def _cards(study: Study) -> str | None:
    bare = [name for name, card in study.cards.items() if card is None]
    return f"needs the training settings of every model, and {bare[0]} has no card" if bare else None


def _recipes(study: Study) -> str | None:
    others = [name for name, card in study.cards.items() if card is None or card.source != RECIPE]
    return f"needs the final layer of models trained by recipes, and {others[0]} was not" if others else None


def _logs(study: Study) -> str | None:
    return None if study.logs else "needs training logs, which `zoo train` writes, and none of the models has one"


def _holdout(study: Study) -> str | None:
    present = any("holdout_accuracy" in entry for log in study.logs.values() for entry in log)
    return _logs(study) or (None if present else "needs a holdout, and no training log has one; train with --set holdout=N")


def _combined(study: Study) -> str | None:
    several = [name for name in study.names if "+" in study.objective(name)]
    return _holdout(study) or (None if several else "needs combined objectives, such as resnet8-sigmoid+dropout")


def _temperatures(study: Study) -> str | None:
    values = {card.value("tau") for card in study.of_objective("cosine").cards.values() if card}
    command = "zoo train resnet8-cosine.digits --set tau=0.05 --name cosine-tau-0.05"
    return None if len(values) > 1 else f"needs cosine models of several tau, got {len(values)}; train some: {command}"


def _augmented(study: Study) -> str | None:
    augmented = [name for name, card in study.cards.items() if card and card.value("auto_augment")]
    command = "--set auto_augment=imagenet --name NAME"
    return None if augmented else f"needs models trained with AutoAugment; train some: {command}"


def _long(study: Study) -> str | None:
    long = [name for name, card in study.cards.items() if card and card.value("decay") == LONG_DECAY]
    return (
        None if long else f"needs models trained with decay {LONG_DECAY}; train some: --set decay={LONG_DECAY} --name NAME"
    )


def _snapshots(study: Study) -> str | None:
    snapshots = [name for name in study.names if SNAPSHOT.match(name)]
    return None if snapshots else "needs snapshots of models at several epochs, NAME@epochN; train with --snapshots-every"


OBJECTIVES = Need("two objectives", _objectives)
SEEDS = Need("two seeds of each objective", _seeds)
TRAINING_SPLIT = Need("data with a training split", _training_split)
IMAGES = Need("the images", _images)
TASK = Need("--transfer", _task)
CARDS = Need("a card of every model", _cards)
RECIPES = Need("models trained by recipes", _recipes)
TRAINING_CURVES = logged("accuracy", TRAINING_FIELDS, "plain training images")
VALIDATION_CURVES = logged("accuracy", VALIDATION_FIELDS, "validation images")
SEPARATION_CURVES = logged("class_separation", TRAINING_FIELDS, "plain training images")
COMBINED = Need("combined objectives, trained with a holdout", _combined)
TEMPERATURES = Need("cosine models of several tau", _temperatures)
AUGMENTED = Need("models with AutoAugment", _augmented)
INCEPTION_V3 = architecture("inception_v3")
LONG = Need(f"models trained with decay {LONG_DECAY}", _long)
SNAPSHOTS = Need("snapshots NAME@epochN", _snapshots)
