"""What objectives change inside a network: the figures by layer of Kornblith et al. 2021."""

import itertools
from typing import Any

import pandas as pd
import torch
from torch.nn.modules.batchnorm import _BatchNorm

import diversity
from diversity.charts import matrix_chart
from diversity.feature_charts import separation_chart, similarity_chart, sparsity_chart
from zoo import datasets
from zoo.app.figures import shapes
from zoo.app.figures.needs import IMAGES, INCEPTION_V3, OBJECTIVES, TRAINING_SPLIT, models
from zoo.app.figures.record import DIGITS, IMAGENET, figure
from zoo.app.figures.result import Result, by_row
from zoo.app.figures.study import Study
from zoo.models import registry
from zoo.models.model import Model

INCEPTION = "'inception_v3-*.in1k' --data in1k"
SMALLER = "an Inception v3 takes images of 299 pixels; loss/2a and loss/2b are the same of resnet8"
DRAWN = 6  # layers in the figure of corresponding layers, the last ones, where objectives differ


@figure("loss/2a", "Layers of one objective against layers of another", [models(), IMAGES, TRAINING_SPLIT], DIGITS, IMAGENET)
@figure(
    "loss/B.1a",
    "Layers against layers, Inception v3",
    [INCEPTION_V3, models(), IMAGES],
    None,
    INCEPTION,
    SMALLER,
)
def layers_against_layers(study: Study, *, epochs: int = 1, control: int = 512) -> Result:
    """CKA of all layers of the base, or the first softmax model, with those of one model of each row.

    Another seed of the base's own row stands for it. With `control`, the last panel is against the base as it was before
    training, its batch norm moments those of so many training images.
    """
    base = study.base_name or next(iter(study.rows))
    others = {row: [name for name in names if name != base] for row, names in study.members.items()}
    found = {names[0]: layer_cka(base, names[0], study, epochs) for names in others.values() if names}
    if control:
        found["at initialization"] = layer_cka(base, _untrained(base, study, control), study, epochs)
    drawn = [similarity_chart(frame, f"{base} and {name}") for name, frame in found.items()]
    table = [
        {"first": base, "second": name, "layer": str(a), "other layer": str(b), "cka": value}
        for name, frame in found.items()
        for a, row in frame.iterrows()
        for b, value in row.items()
    ]
    return Result(pd.DataFrame(table), shapes.side_by_side(*drawn))


def _untrained(name: str, study: Study, count: int) -> Model:
    """The model with the weights it began with, and the moments that its activations then have."""
    model, images = registry.load(name, pretrained=False), datasets.load(study.training_split)
    for module in model.network.modules():
        if isinstance(module, _BatchNorm):
            module.momentum = None  # moments of all that is seen, not of what was seen last
    pixels = torch.stack([model.transform.pixels(images[row]) for row in range(min(count, len(images)))])
    model.network.train()
    with torch.no_grad():
        for batch in pixels.split(64):
            model.network(model.transform.normalise(batch.to(model.device)))
    return model


@figure("loss/2b", "Corresponding layers, objective by objective", [OBJECTIVES, IMAGES], DIGITS, IMAGENET)
@figure(
    "loss/B.1b",
    "Corresponding layers, Inception v3",
    [INCEPTION_V3, OBJECTIVES, IMAGES],
    None,
    INCEPTION,
    SMALLER,
)
def corresponding_layers(study: Study, *, epochs: int = 1) -> Result:
    """CKA of the same layer of two objectives' networks, a matrix per layer; on the diagonal two seeds of one objective."""
    seeds = {row: names[:2] for row, names in study.members.items()}
    frame = diversity.layer_cka([*itertools.chain(*seeds.values())], study.data, epochs=epochs, seed=study.seed)
    rows = []
    for (a, ours), (b, theirs) in itertools.combinations_with_replacement(seeds.items(), 2):
        second = ours[1:] if a == b else theirs  # of one seed alone there is no second to compare it with
        for first, layer in frame.index:
            if second and first == ours[0] and (second[0], layer) in frame.columns:
                rows.append((a, b, str(layer), frame.loc[(first, layer), (second[0], layer)]))
    table = pd.DataFrame(rows, columns=["row", "other", "layer", "cka"])
    drawn = []
    for layer in list(dict.fromkeys(table["layer"]))[-DRAWN:]:
        half = table[table["layer"] == layer].pivot(index="row", columns="other", values="cka")
        order = list(study.members)
        half = half.reindex(index=order, columns=order)
        drawn.append(matrix_chart(half.fillna(half.T), layer))
    return Result(table, shapes.side_by_side(*drawn))


@figure("loss/3", "Sparsity by layer", [models(1), IMAGES], DIGITS, IMAGENET)
def sparsity(study: Study) -> Result:
    """The share of non-zero activations after each block, in percent, averaged over seeds."""
    frame = diversity.layer_sparsity(list(study.names), study.data)
    return _by_layer(study, frame.assign(nonzero=100 * frame["nonzero"]), "nonzero", sparsity_chart, 100)


@figure("loss/4", "Class separation by layer", [models(1), TRAINING_SPLIT], DIGITS, IMAGENET)
def separation(study: Study) -> Result:
    """R² of the training images after each block, averaged over seeds."""
    return _by_layer(study, diversity.layer_separation(list(study.names), study.training_split), "r2", separation_chart, 1)


def _by_layer(study: Study, frame: pd.DataFrame, value: str, chart: Any, unit: float) -> Result:
    values = frame[["model", "layer", value]].itertuples(index=False, name=None)
    found = by_row(study, values, untested=set(frame["layer"]))
    means = found.frame.rename(columns={"row": "model", "column": "layer"})
    return Result(found.frame, chart(means.assign(**{value: means["mean"] / unit})), (), found.shown)


def layer_cka(first: Any, second: Any, study: Study, epochs: int) -> pd.DataFrame:
    return diversity.cka(first, second, data=study.data, epochs=epochs, seed=study.seed)
