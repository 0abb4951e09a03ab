"""What figures need, each with the reason it gives when it is not there; all of it is known before any model runs."""

import re
from collections.abc import Callable
from dataclasses import dataclass

from zoo import datasets
from zoo.app.figures.study import RECIPE, Study
from zoo.errors import ZooError

SNAPSHOT = re.compile(r"(?P<name>.+)@epoch(?P<epoch>\d+)\Z")


@dataclass(frozen=True)
class Need:
    """In words, and a function that says why a study does not have it."""

    words: str
    missing: Callable[[Study], str | None]


def models(count: int = 2) -> Need:
    """So many models."""

    def missing(study: Study) -> str | None:
        found = len(study.names)
        return None if found >= count else f"it takes at least {count} models, found {found}"

    return Need("a model" if count == 1 else f"{count} models", missing)


def architecture(name: str) -> Need:
    """Models of one architecture alone."""

    def missing(study: Study) -> str | None:
        others = [model for model, card in study.cards.items() if card is None or card.architecture != name]
        return f"it is about {name}, and {others[0]} is none" if others else None

    return Need(f"models of {name}", missing)


def transferred_to(*names: str) -> Need:
    """Certain datasets to transfer to."""

    def missing(study: Study) -> str | None:
        given = [spec for spec in study.transfer if spec.partition(":")[0] in names]
        return None if given else f"it is about {' or '.join(names)}; name it with --transfer"

    return Need(f"--transfer {names[0]}", missing)


def _objectives(study: Study) -> str | None:
    return None if len(study.members) > 1 else "it compares training objectives, and the models have just one"


def _seeds(study: Study) -> str | None:
    few = [row for row, members in study.members.items() if len(members) < 2]
    return f"it takes at least two seeds of every objective, and {few[0]} has one" if few else None


def _training_split(study: Study) -> str | None:
    return None if datasets.training_split(study.data) else f"{study.data} has no training split, which it is about"


def _images(study: Study) -> str | None:
    try:
        datasets.load(study.data)
    except ZooError as error:
        return str(error)
    return None


def _task(study: Study) -> str | None:
    if not study.transfer:
        return "it takes another task than the models' own; name one with --transfer"
    alone = [spec for spec in study.transfer if datasets.training_split(spec) in (None, spec)]
    return f"{alone[0]} is no test split of a dataset that also has a training split" if alone else None


def _cards(study: Study) -> str | None:
    bare = [name for name, card in study.cards.items() if card is None]
    return f"no card says how {bare[0]} was trained" if bare else None


def _recipes(study: Study) -> str | None:
    others = [name for name, card in study.cards.items() if card is None or card.source != RECIPE]
    return f"{others[0]} was not trained by a recipe, and its final layer is not known" if others else None


def _logs(study: Study) -> str | None:
    return None if study.logs else "none of the models has a training log; it is kept of models trained here"


def _curves(study: Study) -> str | None:
    seen = any(
        field in line for log in study.logs.values() for line in log for field in ("holdout_accuracy", "test_accuracy")
    )
    return _logs(study) or (None if seen else "no training log has other images; train with --measure-every 8")


def _held(study: Study) -> str | None:
    held = any("holdout_accuracy" in line for log in study.logs.values() for line in log)
    return _logs(study) or (None if held else "no training log has a holdout; train with --set holdout=N")


def _combined(study: Study) -> str | None:
    both = [name for name in study.names if "+" in study.objective(name)]
    return _held(study) or (None if both else "none of the models combines objectives, as resnet8-sigmoid+dropout does")


def _temperatures(study: Study) -> str | None:
    found = {card.value("tau") for card in study.of_objective("cosine").cards.values() if card}
    how = "zoo train resnet8-cosine.digits --set tau=0.05 --as cosine-tau-0.05"
    return None if len(found) > 1 else f"it takes cosine models of several tau, found {len(found)}; train some: {how}"


def _augmented(study: Study) -> str | None:
    found = [name for name, card in study.cards.items() if card and card.value("auto_augment")]
    return (
        None
        if found
        else "none of the models was trained with AutoAugment; train some: --set auto_augment=imagenet --as NAME"
    )


def _long(study: Study) -> str | None:
    slow = [name for name, card in study.cards.items() if card and card.value("decay") == 0.985]
    return None if slow else "none of the models was trained with decay 0.985; train some: --set decay=0.985 --as NAME"


def _snapshots(study: Study) -> str | None:
    kept = [name for name in study.names if SNAPSHOT.match(name)]
    return None if kept else "it takes models as they were at several epochs, named NAME@epochN"


OBJECTIVES = Need("two objectives", _objectives)
SEEDS = Need("two seeds of each objective", _seeds)
TRAINING_SPLIT = Need("data with a training split", _training_split)
IMAGES = Need("the images", _images)
TASK = Need("--transfer", _task)
CARDS = Need("a card of every model", _cards)
RECIPES = Need("models trained by recipes", _recipes)
LOGS = Need("training logs", _logs)
CURVES = Need("training logs with images not learnt from", _curves)
COMBINED = Need("combined objectives, trained with a holdout", _combined)
TEMPERATURES = Need("cosine models of several tau", _temperatures)
AUGMENTED = Need("models with AutoAugment", _augmented)
INCEPTION_V3 = architecture("inception_v3")
LONG = Need("models trained with decay 0.985", _long)
SNAPSHOTS = Need("snapshots NAME@epochN", _snapshots)
