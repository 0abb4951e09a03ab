"""Class separation of objectives: Table 3 and Appendix E of Kornblith et al. 2021."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pandas as pd
import torch

import diversity
from diversity import feature_charts
from diversity.densities import distance_densities, kernel_density
from diversity.hardness import angular_visual_hardness
from diversity.separation import METRICS
from diversity.spectra import singular_spectra
from zoo.app.figures import papers
from zoo.app.figures.needs import AUGMENTED, OBJECTIVES, RECIPES, TRAINING_SPLIT, models
from zoo.app.figures.over_training import AUGMENTATION
from zoo.app.figures.record import DIGITS, IMAGENET, figure
from zoo.app.figures.result import Result, Value, by_row
from zoo.app.figures.study import Study
from zoo.app.figures.transfer import home_values, separation_values
from zoo.models import registry

SEPARATIONS = ("class-separation", "autoaugment-class-separation")


@figure("loss/table-3", "Class separation by objective", [OBJECTIVES, TRAINING_SPLIT], DIGITS, IMAGENET)
def separation_table(study: Study) -> Result:
    """Accuracy, and class separation of the training images."""
    values = [*_top1(study), *separation_values(study)]
    return by_row(study, values, papers.loss_table("3"), untested=["class-separation"])


@figure("loss/table-E.1", "Class separation by three distances", [OBJECTIVES, TRAINING_SPLIT], DIGITS, IMAGENET)
def separation_metrics(study: Study) -> Result:
    """Class separation by cosine distance, cosine distance about the mean, and Euclidean distance."""
    values: list[Value] = []
    for name, outputs in study.train.items():
        x, y = outputs.require_embeddings(), outputs.require_labels()
        values += [(name, f"separation-{metric}", diversity.class_separation(x, y, metric)) for metric in METRICS]
    return by_row(study, values, papers.loss_table("E.1"), untested={column for _, column, _ in values})


@figure("loss/table-E.2", "Neural collapse", [OBJECTIVES, RECIPES, TRAINING_SPLIT], DIGITS, IMAGENET)
def collapse_table(study: Study) -> Result:
    """Distance of class means and classifier weights from a regular simplex; 0 at complete collapse."""
    values: list[Value] = []
    for name, outputs in study.train.items():
        weight, bias = final_layer(name)
        collapse = diversity.neural_collapse(outputs.require_embeddings()[:], outputs.require_labels(), weight, bias)
        values += [(name, f"collapse-{key.replace('_', '-')}", value) for key, value in asdict(collapse).items()]
    return by_row(study, values, papers.loss_table("E.2"), untested={column for _, column, _ in values})


@figure("loss/table-E.3", "Augmentation and class separation", [AUGMENTED, TRAINING_SPLIT], "resnet8-softmax softmax-auto",
        AUGMENTATION)  # fmt: skip
def augmented_separation(study: Study) -> Result:
    """Accuracy and class separation with and without AutoAugment."""
    values = [(name, f"{_policy(study, name)}{column}", x) for name, column, x in [*_top1(study), *separation_values(study)]]
    return by_row(study, values, papers.loss_table("E.3"), untested=SEPARATIONS, rows=study.objectives)


def _top1(study: Study) -> list[Value]:
    return [value for value in home_values(study) if value[1] == "top1"]


def _policy(study: Study, name: str) -> str:
    card = study.cards[name]
    return "autoaugment-" if card and card.value("auto_augment") else ""


@figure("loss/E.1", "Angular visual hardness", [models(1), RECIPES], DIGITS, f"{IMAGENET} -O bandwidth=5e-6")
def hardness(study: Study, *, bandwidth: float | None = None) -> Result:
    """Densities of the angle between examples and the weights of their class, relative to all classes."""

    def density(name: str) -> pd.DataFrame:
        outputs = study.runs[name]
        scores = angular_visual_hardness(outputs.require_embeddings()[:], outputs.require_labels(), final_layer(name)[0])
        return kernel_density(scores, bandwidth)

    return _one_per_row(study, density, feature_charts.hardness_chart)


@figure("loss/E.2", "Singular values of embeddings, weights and class means", [models(1), RECIPES, TRAINING_SPLIT], DIGITS,
        IMAGENET)  # fmt: skip
def spectra(study: Study) -> Result:
    """Singular values relative to the largest."""

    def spectrum(name: str) -> pd.DataFrame:
        outputs = study.train[name]
        return singular_spectra(outputs.require_embeddings()[:], outputs.require_labels(), final_layer(name)[0])

    return _one_per_row(study, spectrum, feature_charts.spectra_chart)


@figure("loss/E.3", "Distances within and between classes", [models(1), TRAINING_SPLIT], DIGITS, IMAGENET)
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
