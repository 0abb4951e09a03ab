"""Training itself: settings, curves and combinations, the tables and figures A and C of Kornblith et al. 2021."""

import math
from collections.abc import Iterator

import pandas as pd

from zoo import datasets
from zoo.app.figures import papers, shapes
from zoo.app.figures.needs import (
    AUGMENTED,
    CARDS,
    COMBINED,
    CURVES,
    LOGS,
    LONG,
    OBJECTIVES,
    TRAINING_SPLIT,
)
from zoo.app.figures.record import DIGITS, IMAGENET, figure
from zoo.app.figures.result import Result, Value, by_row
from zoo.app.figures.study import Study
from zoo.app.figures.transfer import home_values
from zoo.errors import ZooError
from zoo.objectives import options

HELD = "'*-held'"  # models trained with a holdout, under names of their own
HOLDING = "NAMES --data in1k after zoo train resnet50-cosine.in1k --set holdout=50046 --as NAME"
# What a log calls a quantity of the training images, measured on plain images first; and of those not learnt from.
TRAINING, HOLDOUT = ("train_{}", "{}"), ("holdout_{}", "test_{}")
REGULARIZERS = {"dropout": "rho", "logit-penalty": "beta", "logit-norm": "tau", "cosine": "tau"}
TASKS = ("food101", "cifar10", "cifar100", "birdsnap", "sun397", "cars", "pets", "flowers")


def curve(study: Study, quantity: str, forms: tuple[str, ...]) -> pd.DataFrame:
    """One row per model and epoch that its log has the quantity of: model, row, epoch, and the quantity."""
    rows = []
    for name, log in study.logs.items():
        fields = [form.format(quantity) for form in forms]
        field = next((f for f in fields if any(f in line for line in log)), None)
        rows += [(name, study.rows[name], int(line["epoch"]), float(line[field])) for line in log if field and field in line]
    return pd.DataFrame(rows, columns=["model", "row", "epoch", quantity])


def _percent(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.assign(accuracy=100 * frame["accuracy"])


@figure("loss/table-A.1", "Hyper-parameters", [CARDS], DIGITS, IMAGENET)
def hyperparameters(study: Study) -> Result:
    """What each objective was trained with: its own settings and the epochs."""
    rows = []
    for row, (first, *_) in study.members.items():
        card = study.cards[first]
        settings = card.hyperparameters if card else {}
        own = [name for part in study.objective(first).split("+") for name in options(part) if name in settings]
        said = ", ".join(f"{name} = {settings[name]:g}" for name in own)
        rows.append({"row": row, "settings": said or "none", "epochs": settings.get("epochs", math.nan)})
    frame = pd.DataFrame(rows)
    drawn = frame.assign(column="epochs", mean=frame["epochs"], error=math.nan, seeds=1, paper=math.nan)
    return Result(frame, shapes.dots(drawn))


@figure("loss/table-A.2", "Datasets to transfer to", [], "", "")
def transfer_sets(study: Study) -> Result:
    """Classes, sizes and metric of each, as far as they are on this machine."""
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
    """Top-1 and top-5 accuracy on the images that were learnt from, as prediction sees them."""
    values: list[Value] = []
    for name, outputs in study.train.items():
        values.append((name, "train-top1", 100 * outputs.accuracy))
        values += [(name, "train-top5", 100 * outputs.top5)] if outputs.top5 is not None else []
    return by_row(study, values, papers.loss_table("C.1"))


@figure("loss/C.1", "Validation accuracy over training", [CURVES], HELD, HOLDING)
def validation_curves(study: Study) -> Result:
    """On the images held out of training, a line per model."""
    frame = _percent(curve(study, "accuracy", HOLDOUT))
    return Result(frame, shapes.curves(frame, "epoch", "accuracy"))


@figure("loss/C.2", "Training accuracy over training", [LOGS], DIGITS, IMAGENET)
def training_curves(study: Study) -> Result:
    """On plain training images where the log has that, else on the batches as they went by."""
    frame = _percent(curve(study, "accuracy", TRAINING))
    return Result(frame, shapes.curves(frame, "epoch", "accuracy"))


@figure("loss/C.3", "Validation against training accuracy", [CURVES], HELD, HOLDING)
def validation_against_training(study: Study) -> Result:
    """A line per model, in the order of the epochs."""
    train, held = (_percent(curve(study, "accuracy", forms)) for forms in (TRAINING, HOLDOUT))
    frame = train.merge(held, on=["model", "row", "epoch"], suffixes=("_training", "_validation"))
    return Result(frame, shapes.curves(frame, "accuracy_training", "accuracy_validation"))


@figure("loss/E.4", "Class separation over training", [LOGS], DIGITS, IMAGENET)
def separation_curves(study: Study) -> Result:
    """Of the training images, and of those held out where there are some."""
    parts = {"training": TRAINING, "validation": HOLDOUT}
    frames = [curve(study, "class_separation", forms).assign(images=images) for images, forms in parts.items()]
    frame = pd.concat([part for part in frames if len(part)], ignore_index=True)
    return Result(frame, shapes.curves(frame, "epoch", "class_separation", panel="images"))


@figure(
    "loss/table-C.4", "Objectives combined", [COMBINED], HELD,
    HOLDING.replace("cosine", "sigmoid+dropout"),
)  # fmt: skip
def combined(study: Study) -> Result:
    """The best accuracy on the holdout at any epoch: losses down, what they are combined with across."""
    values = []
    for name in study.logs:
        best = max((line["holdout_accuracy"] for line in study.logs[name] if "holdout_accuracy" in line), default=math.nan)
        if best == best:
            values.append((name, _combination(study, name), 100 * best))
    losses = {name: study.objective(name).partition("+")[0] for name in study.rows}
    return by_row(study, values, papers.loss_table("C.4"), rows=losses)


def _combination(study: Study, name: str) -> str:
    """`holdout-dropout-0.7`, as the cards call it; `holdout` of a loss alone."""
    card = study.cards[name]
    parts = study.objective(name).split("+")[1:]
    values = [
        f"-{part}-{card.value(REGULARIZERS[part]) if card and part in REGULARIZERS else ''}".rstrip("-") for part in parts
    ]
    return "holdout" + "".join(values)


AUGMENTATIONS = "NAMES --data in1k after zoo train resnet50-cosine.in1k --set auto_augment=imagenet --as NAME"


@figure("loss/table-C.5", "AutoAugment and Mixup", [AUGMENTED], "resnet8-softmax softmax-auto", AUGMENTATIONS)
def augmented(study: Study) -> Result:
    """Accuracy with standard augmentation, with AutoAugment and with Mixup."""
    values = [(name, _augmented(study, name, column), value) for name, column, value in home_values(study)]
    return by_row(study, values, papers.loss_table("C.5"), rows=study.objectives)


@figure(
    "loss/table-C.6", "Longer training", [AUGMENTED, LONG], "softmax-long",
    AUGMENTATIONS.replace("imagenet --as", "imagenet --set decay=0.985 --as"),
)  # fmt: skip
def longer(study: Study) -> Result:
    """Accuracy of models whose learning rate falls by 1.5% an epoch instead of 2.5%, and how long they were trained."""
    return by_row(study, _longer(study), papers.loss_table("C.6"), rows=study.objectives)


def _longer(study: Study) -> Iterator[Value]:
    for name, column, value in home_values(study):
        card = study.cards[name]
        if card and card.value("decay") == 0.985:
            start = "long-autoaugment" + ("-mixup" if card.value("mixup") else "")
            yield name, f"{start}-{column}", value
            if column == "top1":
                yield name, f"{start}-epochs", float(card.value("epochs"))


def _augmented(study: Study, name: str, column: str) -> str:
    card = study.cards[name]
    kinds = [kind for kind, setting in (("autoaugment", "auto_augment"), ("mixup", "mixup")) if card and card.value(setting)]
    return "-".join([*kinds, column])
