"""Class separation, training curves and settings: Table 3 and Appendices A, C and E of Kornblith et al. 2021."""

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd
import torch

import diversity
from diversity import feature_charts, training_curves
from diversity.densities import angular_visual_hardness, distance_densities, kernel_density
from diversity.separation import METRICS
from diversity.spectra import singular_spectra
from diversity.training_curves import TRAINING, VALIDATION
from zoo import datasets
from zoo.app.figures import needs, papers, shapes
from zoo.app.figures.record import DIGITS, IMAGENET, figure
from zoo.app.figures.result import Result, Value, by_row
from zoo.app.figures.study import Study
from zoo.app.figures.transfer import home_values, separation_values
from zoo.cards.published import HOLDOUT, IMAGENET_EPOCHS, LONG_EPOCHS, LONG_MIXUP_EPOCHS, MAX_EPOCHS
from zoo.errors import ZooError
from zoo.models import registry
from zoo.objectives import options

HELD_OUT = "'*-held'"  # models trained with a holdout and measured during training
_TRAIN = "zoo train resnet50-cosine.in1k"
_HELD = f"--set holdout={HOLDOUT} --set epochs={MAX_EPOCHS}"
# The figures end at the epoch that is best on the holdout; class separation was measured every 8 epochs (Fig. E.4).
CURVES = f"MODELS --data in1k after {_TRAIN} {_HELD} --measure-every 8 --name NAME"
COMBINATIONS = f"MODELS --data in1k after zoo train resnet50-sigmoid+dropout.in1k {_HELD} --set rho=0.7 --name NAME"
# The epoch, and alpha of Mixup, were chosen on a holdout; then models were trained on all images (A.1, Table C.5).
AUTO_AUGMENT = (
    f"MODELS --data in1k after {_TRAIN} --set auto_augment=imagenet {_HELD} --name NAME-held && "
    f"{_TRAIN} --set auto_augment=imagenet --set epochs=BEST --name NAME"
)
AND_MIXUP = (
    f"{AUTO_AUGMENT} && for alpha in 0.1 0.2 0.3 0.4; do {_TRAIN} --set mixup=$alpha {_HELD} --name NAME-$alpha; done && "
    f"{_TRAIN} --set mixup=ALPHA --set epochs=BEST --name NAME-mixup"
)
_LONG = f"{_TRAIN} --set auto_augment=imagenet --set decay={needs.LONG_DECAY}"
LONGER = (
    f"MODELS --data in1k after {_LONG} --set epochs={LONG_EPOCHS['cosine']} --name NAME && "
    f"{_LONG} --set mixup=ALPHA --set epochs={LONG_MIXUP_EPOCHS['cosine']} --name NAME-mixup"
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


def curve(study: Study, quantity: str, images: Sequence[str]) -> pd.DataFrame:
    """Return a quantity over training: one row per model and epoch; models whose log lacks the quantity are left out.

    Args:
        study: the models.
        quantity: such as accuracy.
        images: `TRAINING` or `VALIDATION`.
    """
    rows = [
        (name, study.rows[name], epoch, value)
        for name, log in study.logs.items()
        for _, epoch, value in training_curves.curve(log, quantity, images)
    ]
    return pd.DataFrame(rows, columns=["model", "row", "epoch", quantity])


def _accuracy(study: Study, images: Sequence[str]) -> pd.DataFrame:
    frame = curve(study, "accuracy", images)
    return frame.assign(accuracy=100 * frame["accuracy"])


@figure("loss/table-A.1", "Hyper-parameters", [needs.CARDS], DIGITS, IMAGENET)
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
    drawn = frame.assign(column="epochs", mean=frame["epochs"], paper=frame["epochs, paper"])
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
    return Result(frame, shapes.dots(drawn))


@figure("loss/table-C.1", "Accuracy on the training images", [needs.OBJECTIVES, needs.TRAINING_SPLIT], DIGITS, IMAGENET)
def training_accuracy(study: Study) -> Result:
    """Top-1 and top-5 accuracy on the training images, without augmentation."""
    values: list[Value] = []
    for name, outputs in study.train.items():
        values.append((name, "train-top1", 100 * outputs.accuracy))
        values += [(name, "train-top5", 100 * outputs.top5)] if outputs.top5 is not None else []
    return by_row(study, values, papers.loss_table("C.1"))


@figure("loss/C.1", "Validation accuracy over training", [needs.VALIDATION_CURVES], HELD_OUT, CURVES)
def validation_accuracy_curves(study: Study) -> Result:
    """Accuracy on the validation images, or on the holdout if a log has no other, one line per model."""
    frame = _accuracy(study, VALIDATION)
    return Result(frame, shapes.curves(frame, "epoch", "accuracy"))


@figure("loss/C.2", "Training accuracy over training", [needs.TRAINING_CURVES], HELD_OUT, CURVES)
def training_accuracy_curves(study: Study) -> Result:
    """Accuracy on the training images without augmentation, one line per model."""
    frame = _accuracy(study, TRAINING)
    return Result(frame, shapes.curves(frame, "epoch", "accuracy"))


@figure(
    "loss/C.3", "Validation against training accuracy", [needs.TRAINING_CURVES, needs.VALIDATION_CURVES], HELD_OUT, CURVES
)
def validation_against_training(study: Study) -> Result:
    """Accuracy on validation against training images after each epoch, one line per model."""
    training, validation = (_accuracy(study, fields) for fields in (TRAINING, VALIDATION))
    frame = training.merge(validation, on=["model", "row", "epoch"], suffixes=("_training", "_validation"))
    return Result(frame, shapes.curves(frame, "accuracy_training", "accuracy_validation"))


@figure("loss/E.4", "Class separation over training", [needs.SEPARATION_CURVES], HELD_OUT, CURVES)
def separation_curves(study: Study) -> Result:
    """Class separation of training and validation images, one line per model."""
    splits = {"training": TRAINING, "validation": VALIDATION}
    frames = [curve(study, "class_separation", fields).assign(images=images) for images, fields in splits.items()]
    frame = pd.concat([part for part in frames if len(part)], ignore_index=True)
    return Result(frame, shapes.curves(frame, "epoch", "class_separation", panel="images"))


@figure("loss/table-C.4", "Combined objectives", [needs.COMBINED], HELD_OUT, COMBINATIONS)
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
    parts = study.objective(name).split("+")[1:]
    values = [study.setting(name, REGULARIZERS[part]) if part in REGULARIZERS else "" for part in parts]
    return "-".join(["holdout", *(f"{part}-{value}".rstrip("-") for part, value in zip(parts, values, strict=True))])


@figure("loss/table-C.5", "AutoAugment and Mixup", [needs.AUGMENTED], "resnet8-softmax softmax-auto", AND_MIXUP)
def augmentations(study: Study) -> Result:
    """Accuracy with standard augmentation, with AutoAugment and with Mixup."""
    values = [(name, augmented(study, name, column), value) for name, column, value in home_values(study)]
    return by_row(study, values, papers.loss_table("C.5"), rows=study.objectives)


@figure("loss/table-C.6", "Longer training", [needs.AUGMENTED, needs.LONG], "softmax-long", LONGER)
def longer(study: Study) -> Result:
    """Accuracy of models whose learning rate falls by 1.5% instead of 2.5% per epoch, and their number of epochs."""
    values: list[Value] = []
    for name, column, value in home_values(study):
        if study.setting(name, "decay") == needs.LONG_DECAY:
            values.append((name, f"long-{augmented(study, name, column)}", value))
            if column == "top1":
                values.append((name, f"long-{augmented(study, name, 'epochs')}", float(study.setting(name, "epochs"))))
    return by_row(study, values, papers.loss_table("C.6"), rows=study.objectives)


def augmented(study: Study, name: str, column: str) -> str:
    """Return the column of a quantity after the model's augmentation, as the cards name it: `autoaugment-mixup-top1`."""
    settings = {"autoaugment": "auto_augment", "mixup": "mixup"}
    return "-".join([*(kind for kind, setting in settings.items() if study.setting(name, setting)), column])


@figure("loss/table-3", "Class separation by objective", [needs.OBJECTIVES, needs.TRAINING_SPLIT], DIGITS, IMAGENET)
def separation_table(study: Study) -> Result:
    """Accuracy, and class separation of the training images."""
    values = [*_top1(study), *separation_values(study)]
    return by_row(study, values, papers.loss_table("3"), untested=["class-separation"])


@figure("loss/table-E.1", "Class separation by three distances", [needs.OBJECTIVES, needs.TRAINING_SPLIT], DIGITS, IMAGENET)
def separation_metrics(study: Study) -> Result:
    """Class separation by cosine distance, cosine distance about the mean, and Euclidean distance."""
    values: list[Value] = []
    for name, outputs in study.train.items():
        x, y = outputs.require_embeddings(), outputs.require_labels()
        values += [(name, f"separation-{metric}", diversity.class_separation(x, y, metric)) for metric in METRICS]
    return by_row(study, values, papers.loss_table("E.1"), untested={column for _, column, _ in values})


@figure("loss/table-E.2", "Neural collapse", [needs.OBJECTIVES, needs.RECIPES, needs.TRAINING_SPLIT], DIGITS, IMAGENET)
def collapse_table(study: Study) -> Result:
    """Distance of class means and classifier weights from a regular simplex; 0 at complete collapse."""
    values: list[Value] = []
    for name, outputs in study.train.items():
        weight, bias = final_layer(name)
        collapse = diversity.neural_collapse(outputs.require_embeddings()[:], outputs.require_labels(), weight, bias)
        values += [(name, f"collapse-{key.replace('_', '-')}", value) for key, value in asdict(collapse).items()]
    return by_row(study, values, papers.loss_table("E.2"), untested={column for _, column, _ in values})


@figure("loss/table-E.3", "Augmentation and class separation", [needs.AUGMENTED, needs.TRAINING_SPLIT],
        "resnet8-softmax softmax-auto", AUTO_AUGMENT)  # fmt: skip
def augmented_separation(study: Study) -> Result:
    """Accuracy and class separation with and without AutoAugment."""
    measured = [*_top1(study), *separation_values(study)]
    values = [(name, augmented(study, name, column), value) for name, column, value in measured]
    untested = {column for _, column, _ in values if column.endswith("class-separation")}
    return by_row(study, values, papers.loss_table("E.3"), untested=untested, rows=study.objectives)


def _top1(study: Study) -> list[Value]:
    return [value for value in home_values(study) if value[1] == "top1"]


@figure("loss/E.1", "Angular visual hardness", [needs.models(1), needs.RECIPES], DIGITS, f"{IMAGENET} -O bandwidth=5e-6")
def hardness(study: Study, *, bandwidth: float | None = None) -> Result:
    """Densities of the angle between examples and the weights of their class, relative to all classes."""

    def density(name: str) -> pd.DataFrame:
        outputs = study.runs[name]
        scores = angular_visual_hardness(outputs.require_embeddings()[:], outputs.require_labels(), final_layer(name)[0])
        return kernel_density(scores, bandwidth)

    return _one_per_row(study, density, feature_charts.hardness_chart)


@figure("loss/E.2", "Singular values of embeddings, weights and class means",
        [needs.models(1), needs.RECIPES, needs.TRAINING_SPLIT], DIGITS, IMAGENET)  # fmt: skip
def spectra(study: Study) -> Result:
    """Singular values relative to the largest."""

    def spectrum(name: str) -> pd.DataFrame:
        outputs = study.train[name]
        return singular_spectra(outputs.require_embeddings()[:], outputs.require_labels(), final_layer(name)[0])

    return _one_per_row(study, spectrum, feature_charts.spectra_chart)


@figure("loss/E.3", "Distances within and between classes", [needs.models(1), needs.TRAINING_SPLIT], DIGITS, IMAGENET)
def distances(study: Study, *, bins: int = 200, rows: int = 10_000) -> Result:
    """Densities of the cosine distance between two training examples, on one scale for all objectives."""

    def density(name: str) -> pd.DataFrame:
        outputs = study.train[name]
        return distance_densities(outputs.require_embeddings()[:], outputs.require_labels(), bins, rows, study.seed)

    return _one_per_row(study, density, feature_charts.density_chart)


def _one_per_row(study: Study, compute: Callable[[str], pd.DataFrame], chart: Callable[[Any], Any]) -> Result:
    """Return the results of the first model of each row; the chart's legend adds the model's accuracy."""
    frames = {row: compute(names[0]) for row, names in study.members.items()}
    table = pd.concat([frame.assign(row=row) for row, frame in frames.items()], ignore_index=True)
    labels = {row: f"{row} ({study.runs[study.members[row][0]].accuracy:.1%})" for row in frames}
    return Result(table, chart({labels[row]: frame for row, frame in frames.items()}))


def final_layer(name: str) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Return weights [K, D] and biases [K] of a model's classifier; cosine softmax has weights of unit length."""
    head: Any = registry.load(name, device="cpu").network.head
    weight, bias = head.weight.detach(), head.bias.detach()
    return (torch.nn.functional.normalize(weight), bias) if "cosine" in registry.card(name).objective else (weight, bias)
