"""Hyper-parameters, training curves, combined objectives, augmentation: Appendices A, C and E of Kornblith et al. 2021."""

import math
from collections.abc import Iterator

import pandas as pd

from zoo import datasets
from zoo.app.figures import papers, shapes
from zoo.app.figures.needs import (
    AUGMENTED,
    CARDS,
    COMBINED,
    LONG,
    LONG_DECAY,
    OBJECTIVES,
    SEPARATION_CURVES,
    TRAINING_CURVES,
    TRAINING_FIELDS,
    TRAINING_SPLIT,
    VALIDATION_CURVES,
    VALIDATION_FIELDS,
)
from zoo.app.figures.record import DIGITS, IMAGENET, figure
from zoo.app.figures.result import Result, Value, by_row
from zoo.app.figures.study import Study
from zoo.app.figures.transfer import home_values
from zoo.cards.published import HOLDOUT, IMAGENET_EPOCHS, LONG_EPOCHS, MAX_EPOCHS
from zoo.errors import ZooError
from zoo.objectives import options

HELD_OUT = "'*-held'"  # models trained with a holdout and measured during training
_TRAIN = "zoo train resnet50-cosine.in1k"
# The figures end at the epoch that is best on the holdout; class separation was measured every 8 epochs (Fig. E.4).
CURVES = f"MODELS --data in1k after {_TRAIN} --set holdout={HOLDOUT} --set epochs={MAX_EPOCHS} --measure-every 8 --name NAME"
COMBINATIONS = (
    "MODELS --data in1k after zoo train resnet50-sigmoid+dropout.in1k "
    f"--set holdout={HOLDOUT} --set epochs={MAX_EPOCHS} --set rho=0.7 --name NAME"
)
# The epoch of training with AutoAugment was chosen on a holdout; then models were trained on all images (A.1, Table C.5).
AUGMENTATION = (
    f"MODELS --data in1k after {_TRAIN} --set auto_augment=imagenet --set holdout={HOLDOUT} --set epochs={MAX_EPOCHS} "
    f"--name NAME-held && {_TRAIN} --set auto_augment=imagenet --set epochs=BEST --name NAME"
)
LONGER = (
    f"MODELS --data in1k after {_TRAIN} --set auto_augment=imagenet --set decay={LONG_DECAY} "
    f"--set epochs={LONG_EPOCHS['cosine']} --name NAME"
)
REGULARIZERS = {"dropout": "rho", "logit-penalty": "beta", "logit-norm": "tau", "cosine": "tau"}
TASKS = ("food101", "cifar10", "cifar100", "birdsnap", "sun397", "cars", "pets", "flowers")
# Table A.1: the values tried, the one chosen between asterisks.
GRIDS = {
    "label-smoothing": "alpha = 0.08, 0.09, *0.1*, 0.11, 0.12",
    "extra-l2": "lambda_final = 0.0004, 0.0006, *0.0008*, 0.001",
    "dropout": "rho = 0.6, 0.65, *0.7*, 0.75, 0.8, 0.85",
    "logit-penalty": "beta = 5e-05, 0.0001, 0.0002, 0.0004, *0.0006*, 0.0008",
    "logit-norm": "tau = 0.03, *0.04*, 0.05, 0.06",
    "cosine": "tau = 0.04, 0.045, *0.05*, 0.06, 0.07, 0.08",
    "squared-error": "kappa = *9*, M = *60*, loss scale = *10*",
}


def curve(study: Study, quantity: str, fields: tuple[str, ...]) -> pd.DataFrame:
    """Return a quantity over training: one row per model and epoch, up to the epoch of the model's weights.

    The quantity is measured on plain images with the weights that training would return, such as their moving average.

    Args:
        study: the models; those whose log lacks the quantity are left out.
        quantity: such as accuracy.
        fields: forms of the log's field, of which the first that the log has is used.
    """
    rows = []
    for name, log in study.logs.items():
        field = next((f.format(quantity) for f in fields if any(f.format(quantity) in entry for entry in log)), None)
        last = study.saved_epoch(name) or math.inf
        entries = [entry for entry in log if field in entry and entry["epoch"] <= last] if field else []
        rows += [(name, study.rows[name], int(entry["epoch"]), float(entry[str(field)])) for entry in entries]
    return pd.DataFrame(rows, columns=["model", "row", "epoch", quantity])


def _accuracy(study: Study, fields: tuple[str, ...]) -> pd.DataFrame:
    frame = curve(study, "accuracy", fields)
    return frame.assign(accuracy=100 * frame["accuracy"])


@figure("loss/table-A.1", "Hyper-parameters", [CARDS], DIGITS, IMAGENET)
def hyperparameters(study: Study) -> Result:
    """Hyper-parameters of each objective and the number of epochs, and the values that the paper chose from."""
    rows = []
    for row, (first, *_) in study.members.items():
        card, objective = study.cards[first], study.objective(first)
        settings = card.hyperparameters if card else {}
        names = [name for part in objective.split("+") for name in options(part) if name in settings]
        text = ", ".join(f"{name} = {settings[name]:g}" for name in names)
        rows.append(
            {
                "row": row, "settings": text or "none", "epochs": settings.get("epochs", math.nan),
                "settings, paper": GRIDS.get(objective, "none" if objective in IMAGENET_EPOCHS else "–"),
                "epochs, paper": IMAGENET_EPOCHS.get(objective, math.nan),
            }
        )  # fmt: skip
    frame = pd.DataFrame(rows)
    drawn = frame.assign(column="epochs", mean=frame["epochs"], error=math.nan, seeds=1, paper=frame["epochs, paper"])
    return Result(frame, shapes.dots(drawn), ("the paper's value of ResNet-50 on ImageNet is between asterisks",))


@figure("loss/table-A.2", "Datasets to transfer to", [], "", "")
def transfer_sets(study: Study) -> Result:
    """Number of classes and images and metric of each dataset that is on this machine."""
    rows = []
    for name in TASKS:
        row = {"dataset": name, "classes": math.nan, "train": math.nan, "test": math.nan, "metric": datasets.metric_of(name)}
        try:
            parts = {split: datasets.load(f"{name}:{split}") for split in ("train", "test")}
            row |= {split: len(part) for split, part in parts.items()} | {"classes": len(parts["test"].classes)}
        except ZooError:
            pass
        rows.append(row)
    frame = pd.DataFrame(rows)
    drawn = frame.melt(["dataset"], ["classes", "train", "test"], "column", "mean").rename(columns={"dataset": "row"})
    return Result(frame, shapes.dots(drawn.assign(error=math.nan, seeds=1, paper=math.nan)))


@figure("loss/table-C.1", "Accuracy on the training images", [OBJECTIVES, TRAINING_SPLIT], DIGITS, IMAGENET)
def training_accuracy(study: Study) -> Result:
    """Top-1 and top-5 accuracy on the training images, without augmentation."""
    values: list[Value] = []
    for name, outputs in study.train.items():
        values.append((name, "train-top1", 100 * outputs.accuracy))
        values += [(name, "train-top5", 100 * outputs.top5)] if outputs.top5 is not None else []
    return by_row(study, values, papers.loss_table("C.1"))


@figure("loss/C.1", "Validation accuracy over training", [VALIDATION_CURVES], HELD_OUT, CURVES)
def validation_curves(study: Study) -> Result:
    """Accuracy on the validation images, or on the holdout if a log has no other, one line per model."""
    frame = _accuracy(study, VALIDATION_FIELDS)
    return Result(frame, shapes.curves(frame, "epoch", "accuracy"))


@figure("loss/C.2", "Training accuracy over training", [TRAINING_CURVES], HELD_OUT, CURVES)
def training_curves(study: Study) -> Result:
    """Accuracy on the training images without augmentation, one line per model."""
    frame = _accuracy(study, TRAINING_FIELDS)
    return Result(frame, shapes.curves(frame, "epoch", "accuracy"))


@figure("loss/C.3", "Validation against training accuracy", [TRAINING_CURVES, VALIDATION_CURVES], HELD_OUT, CURVES)
def validation_against_training(study: Study) -> Result:
    """Accuracy on validation against training images after each epoch, one line per model."""
    training, validation = (_accuracy(study, fields) for fields in (TRAINING_FIELDS, VALIDATION_FIELDS))
    frame = training.merge(validation, on=["model", "row", "epoch"], suffixes=("_training", "_validation"))
    return Result(frame, shapes.curves(frame, "accuracy_training", "accuracy_validation"))


@figure("loss/E.4", "Class separation over training", [SEPARATION_CURVES], HELD_OUT, CURVES)
def separation_curves(study: Study) -> Result:
    """Class separation of training and validation images, one line per model."""
    splits = {"training": TRAINING_FIELDS, "validation": VALIDATION_FIELDS}
    frames = [curve(study, "class_separation", fields).assign(images=images) for images, fields in splits.items()]
    frame = pd.concat([part for part in frames if len(part)], ignore_index=True)
    return Result(frame, shapes.curves(frame, "epoch", "class_separation", panel="images"))


@figure("loss/table-C.4", "Combined objectives", [COMBINED], HELD_OUT, COMBINATIONS)
def combined(study: Study) -> Result:
    """Best accuracy on the holdout at any epoch, by loss (rows) and by the objective it is combined with (columns)."""
    values = []
    for name, log in study.logs.items():
        accuracies = [entry["holdout_accuracy"] for entry in log if "holdout_accuracy" in entry]
        if accuracies:
            values.append((name, _combination(study, name), 100 * max(accuracies)))
    losses = {name: study.objective(name).partition("+")[0] for name in study.rows}
    return by_row(study, values, papers.loss_table("C.4"), rows=losses)


def _combination(study: Study, name: str) -> str:
    """Return the column as the cards name it, such as `holdout-dropout-0.7`; `holdout` for a single loss."""
    card = study.cards[name]
    parts = study.objective(name).split("+")[1:]
    values = [
        f"-{part}-{card.value(REGULARIZERS[part]) if card and part in REGULARIZERS else ''}".rstrip("-") for part in parts
    ]
    return "holdout" + "".join(values)


@figure("loss/table-C.5", "AutoAugment and Mixup", [AUGMENTED], "resnet8-softmax softmax-auto", AUGMENTATION)
def augmented(study: Study) -> Result:
    """Accuracy with standard augmentation, with AutoAugment and with Mixup."""
    values = [(name, _augmented(study, name, column), value) for name, column, value in home_values(study)]
    return by_row(study, values, papers.loss_table("C.5"), rows=study.objectives)


@figure("loss/table-C.6", "Longer training", [AUGMENTED, LONG], "softmax-long", LONGER)
def longer(study: Study) -> Result:
    """Accuracy of models whose learning rate falls by 1.5% instead of 2.5% per epoch, and their number of epochs."""
    return by_row(study, _longer(study), papers.loss_table("C.6"), rows=study.objectives)


def _longer(study: Study) -> Iterator[Value]:
    for name, column, value in home_values(study):
        card = study.cards[name]
        if card and card.value("decay") == LONG_DECAY:
            prefix = "long-autoaugment" + ("-mixup" if card.value("mixup") else "")
            yield name, f"{prefix}-{column}", value
            if column == "top1":
                yield name, f"{prefix}-epochs", float(card.value("epochs"))


def _augmented(study: Study, name: str, column: str) -> str:
    card = study.cards[name]
    kinds = [kind for kind, setting in (("autoaugment", "auto_augment"), ("mixup", "mixup")) if card and card.value(setting)]
    return "-".join([*kinds, column])
