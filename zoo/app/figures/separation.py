"""How far objectives pull classes apart: the tables and figures on class separation of Kornblith et al. 2021."""

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

import pandas as pd
import torch

import diversity
from diversity import feature_charts
from diversity.separation import METRICS
from zoo.app.figures import papers
from zoo.app.figures.needs import AUGMENTED, OBJECTIVES, RECIPES, TRAINING_SPLIT, models
from zoo.app.figures.record import DIGITS, IMAGENET, figure
from zoo.app.figures.result import Result, Value, by_row
from zoo.app.figures.study import Study
from zoo.app.figures.transfer import home_values, separation_values
from zoo.models import registry

SEPARATIONS = ("class-separation", "autoaugment-class-separation")


@figure("loss/table-3", "Class separation by objective", [OBJECTIVES, TRAINING_SPLIT], DIGITS, IMAGENET)
def separation_table(study: Study) -> Result:
    """Accuracy, and class separation of the training images."""
    home = [value for value in home_values(study) if value[1] == "top1"]
    return by_row(study, [*home, *separation_values(study)], papers.loss_table("3"), untested=["class-separation"])


@figure("loss/table-E.1", "Class separation by three distances", [OBJECTIVES, TRAINING_SPLIT], DIGITS, IMAGENET)
def separation_metrics(study: Study) -> Result:
    """Cosine, cosine about the mean, and Euclidean."""
    values = [
        (name, f"separation-{metric}", diversity.class_separation(outputs.embeddings, outputs.require_labels(), metric))
        for name, outputs in study.train.items()
        for metric in METRICS
    ]
    return by_row(study, values, papers.loss_table("E.1"), untested={column for _, column, _ in values})


@figure("loss/table-E.2", "Neural collapse", [OBJECTIVES, RECIPES, TRAINING_SPLIT], DIGITS, IMAGENET)
def collapse_table(study: Study) -> Result:
    """How near class means and classifier are to a regular simplex; 0 at complete collapse."""
    values: list[Value] = []
    for name, outputs in study.train.items():
        weight, bias = final_layer(name)
        found = asdict(diversity.neural_collapse(outputs.embeddings, outputs.require_labels(), weight, bias))
        values += [(name, f"collapse-{key.replace('_', '-')}", value) for key, value in found.items()]
    return by_row(study, values, papers.loss_table("E.2"), untested={column for _, column, _ in values})


@figure(
    "loss/table-E.3", "Augmentation and class separation", [AUGMENTED, TRAINING_SPLIT],
    "resnet8-softmax softmax-auto",
    "NAMES --data in1k after zoo train resnet50-cosine.in1k --set auto_augment=imagenet --as NAME",
)  # fmt: skip
def augmented_separation(study: Study) -> Result:
    """Accuracy and class separation with and without AutoAugment."""
    home = [value for value in home_values(study) if value[1] == "top1"]
    values = [(name, f"{_policy(study, name)}{column}", x) for name, column, x in [*home, *separation_values(study)]]
    return by_row(study, values, papers.loss_table("E.3"), untested=SEPARATIONS, rows=study.objectives)


def _policy(study: Study, name: str) -> str:
    card = study.cards[name]
    return "autoaugment-" if card and card.value("auto_augment") else ""


@figure("loss/E.1", "Angular visual hardness", [models(1), RECIPES], DIGITS, IMAGENET)
def hardness(study: Study, *, bandwidth: float | None = None) -> Result:
    """Densities of how far examples point from their own class's weights; the paper's bandwidth is 5e-6."""

    def density(name: str) -> pd.DataFrame:
        outputs = study.runs[name]
        scores = diversity.angular_visual_hardness(outputs.embeddings, outputs.require_labels(), final_layer(name)[0])
        return diversity.kernel_density(scores, bandwidth)

    return _drawn(study, density, feature_charts.hardness_chart)


@figure(
    "loss/E.2", "Singular values of features, weights and centroids", [models(1), RECIPES, TRAINING_SPLIT], DIGITS, IMAGENET
)
def spectra(study: Study) -> Result:
    """Relative to the largest."""

    def spectrum(name: str) -> pd.DataFrame:
        outputs = study.train[name]
        return diversity.singular_spectra(outputs.embeddings, outputs.require_labels(), final_layer(name)[0])

    return _drawn(study, spectrum, feature_charts.spectra_chart)


@figure("loss/E.3", "Distances within and between classes", [models(1), TRAINING_SPLIT], DIGITS, IMAGENET)
def distances(study: Study, *, bins: int = 200, rows: int = 10_000) -> Result:
    """Densities of the cosine distance between two training examples."""

    def density(name: str) -> pd.DataFrame:
        outputs = study.train[name]
        return diversity.distance_densities(outputs.embeddings, outputs.require_labels(), bins, rows, study.seed)

    return _drawn(study, density, feature_charts.density_chart)


def _drawn(study: Study, one: Callable[[str], pd.DataFrame], chart: Callable[[Any], Any]) -> Result:
    """One model of each row, as in the paper, and all of them in one chart."""
    frames = {row: one(names[0]) for row, names in study.members.items()}
    return Result(pd.concat([frame.assign(row=row) for row, frame in frames.items()], ignore_index=True), chart(frames))


def final_layer(name: str) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Weights [K, D] and biases [K] of a model's classifier; unit weights where its objective acts with such."""
    head: Any = registry.load(name, device="cpu").network.head
    weight, bias = head.weight.detach(), head.bias.detach()
    return (torch.nn.functional.normalize(weight), bias) if "cosine" in registry.card(name).objective else (weight, bias)
