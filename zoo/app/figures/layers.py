"""What objectives change inside a network: the figures by layer of Kornblith et al. 2021."""

import itertools
import re
from typing import Any

import altair as alt
import pandas as pd
import torch
from torch.nn.modules.batchnorm import _BatchNorm

import diversity
from diversity.charts import inline
from diversity.feature_charts import separation_chart, similarity_chart, sparsity_chart
from zoo import datasets, networks
from zoo.app.figures import shapes
from zoo.app.figures.needs import IMAGES, INCEPTION_V3, OBJECTIVES, TRAINING_SPLIT, models
from zoo.app.figures.record import DIGITS, IMAGENET, figure
from zoo.app.figures.result import Result, by_row
from zoo.app.figures.study import RECIPE, Study
from zoo.cards import published
from zoo.cards.names import split_snapshot
from zoo.models import registry
from zoo.models.model import Model
from zoo.training.randomness import For, seed_of

TEN_EPOCHS = "-O epochs=10"  # passes over the validation set for CKA, in minibatches of 1,500 (Section 3.2)
# The recipe chooses the epoch on a holdout (Appendix B); then the network is trained on all images (A.1).
INCEPTION = (
    f"zoo train inception_v3-cosine.in1k --set holdout={published.HOLDOUT} && "
    "zoo train inception_v3-cosine.in1k --set holdout=0 --set epochs=BEST --name NAME"
)
TOO_LARGE = "an Inception v3 takes images of 299 pixels; loss/2a and loss/2b are the same of resnet8"
INITIAL = "at initialisation"
MOMENT_BATCH = 64  # images per batch whose moments an untrained network takes


@figure("loss/2a", "Layers of one objective against layers of another", [models(), IMAGES, TRAINING_SPLIT], DIGITS,
        f"{IMAGENET} {TEN_EPOCHS}")  # fmt: skip
@figure("loss/B.1a", "Layers against layers, Inception v3", [INCEPTION_V3, models(), IMAGES], None,
        f"MODELS --data in1k {TEN_EPOCHS} after {INCEPTION}", TOO_LARGE)  # fmt: skip
def layers_against_layers(study: Study, *, epochs: int = 1, control: int = 512) -> Result:
    """CKA between all layers of the base and those of one model of each row.

    The base is the first softmax model by default; its own row is represented by another seed. If `control` is above 0, the
    last panel compares the base with its initial weights, whose batch norm moments are those of that many training images.
    """
    base = study.base_name or next(iter(study.rows))
    others = {row: [name for name in names if name != base] for row, names in study.members.items()}
    results = {names[0]: layer_cka(base, names[0], study, epochs) for names in others.values() if names}
    if control:
        results[INITIAL] = layer_cka(base, initial_model(base, study, control), study, epochs)
    drawn = [similarity_chart(frame, f"{base} and {name}") for name, frame in results.items()]
    table = [
        {"first": base, "second": name, "layer": str(a), "other layer": str(b), "cka": value}
        for name, frame in results.items()
        for a, row in frame.iterrows()
        for b, value in row.items()
    ]
    return Result(pd.DataFrame(table), shapes.side_by_side(*drawn))


def initial_model(name: str, study: Study, count: int) -> Model:
    """Return a model with the weights its training began with; random weights if the model was not trained by a recipe.

    Args:
        name: the model.
        study: whose training images give the batch norm moments.
        count: number of those images.
    """
    model, images = registry.load(name, pretrained=False), datasets.load(study.training_split)
    if model.card.source == RECIPE:
        model.network.load_state_dict(initial_network(model).state_dict())
    for module in model.network.modules():
        if isinstance(module, _BatchNorm):
            module.reset_running_stats()
            module.momentum = None  # the mean over all batches
    pixels = torch.stack([model.transform.pixels(images[row]) for row in range(min(count, len(images)))])
    model.network.train()
    with torch.no_grad():
        for batch in pixels.split(MOMENT_BATCH):
            model.network(model.transform.normalise(batch.to(model.device)))
    return model


def initial_network(model: Model) -> torch.nn.Module:
    """Return the network with which the training of a recipe's model began."""
    card = model.card
    # Models that were trained before initial weights depended on the name derive them from the seed alone.
    name = split_snapshot(card.name)[0] if card.training.initialisation else ""
    recipe = published.recipe(card.architecture, card.objective, card.dataset).change(name=name, seed=card.seed or 0)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed_of(recipe.entropy, For.START))
        size = card.input_size or recipe.transform.size
        return networks.build(card.architecture, len(model.classes), card.objective, card.hyperparameters, size)


@figure("loss/2b", "Corresponding layers of two objectives", [OBJECTIVES, IMAGES], DIGITS, f"{IMAGENET} {TEN_EPOCHS}")
@figure("loss/B.1b", "Corresponding layers, Inception v3", [INCEPTION_V3, OBJECTIVES, IMAGES], None,
        f"MODELS --data in1k {TEN_EPOCHS} after {INCEPTION}", TOO_LARGE)  # fmt: skip
def corresponding_layers(study: Study, *, epochs: int = 1) -> Result:
    """CKA of the same layer in networks of two objectives, one matrix per layer; the diagonal compares two seeds."""
    seeds = {row: names[:2] for row, names in study.members.items()}
    frame = diversity.layer_cka([*itertools.chain(*seeds.values())], study.data, epochs=epochs, seed=study.seed)
    rows = []
    for (a, firsts), (b, seconds) in itertools.combinations_with_replacement(seeds.items(), 2):
        others = firsts[1:] if a == b else seconds  # an objective with one seed has an empty diagonal
        for first, layer in frame.index:
            if others and first == firsts[0] and (others[0], layer) in frame.columns:
                rows.append((a, b, str(layer), frame.loc[(first, layer), (others[0], layer)]))
    table = pd.DataFrame(rows, columns=["row", "other", "layer", "cka"])
    mirrored = table[table["row"] != table["other"]].rename(columns={"row": "other", "other": "row"})
    both = pd.concat([table, mirrored], ignore_index=True)
    return Result(table, shapes.matrices(both, "layer", "cka", list(study.members), domain=(0, 1)))


@figure("loss/3", "Sparsity by layer", [models(1), IMAGES], DIGITS, IMAGENET)
def sparsity(study: Study) -> Result:
    """Percentage of non-zero activations after each block, averaged over seeds; dashed lines separate stages."""
    frame = diversity.layer_sparsity(list(study.names), study.data)
    return _by_layer(study, frame.assign(nonzero=100 * frame["nonzero"]), "nonzero", sparsity_chart, 100)


@figure("loss/4", "Class separation by layer", [models(1), TRAINING_SPLIT], DIGITS, IMAGENET)
def separation(study: Study) -> Result:
    """Class separation R² of the training images after each block, averaged over seeds."""
    return _by_layer(study, diversity.layer_separation(list(study.names), study.training_split), "r2", separation_chart, 1)


def _by_layer(study: Study, frame: pd.DataFrame, value: str, chart: Any, unit: float) -> Result:
    values = frame[["model", "layer", value]].itertuples(index=False, name=None)
    table = by_row(study, values, untested=set(frame["layer"]))
    means = table.frame.rename(columns={"row": "model", "column": "layer"})
    lines = chart(means.assign(**{value: means["mean"] / unit}))
    order = list(dict.fromkeys(means["layer"]))
    starts = pd.DataFrame({"layer": stage_starts(order)})
    rules = alt.Chart(inline(starts)).mark_rule(strokeDash=[4, 4], opacity=0.5).encode(x=alt.X("layer:N", sort=order))
    return Result(table.frame, alt.layer(lines, rules) if len(starts) else lines, (), table.shown)


def stage_starts(layers: list[str]) -> list[str]:
    """Return the first layer of each stage but the first.

    >>> stage_starts(["stem", "stage1_0", "stage1_1", "stage2_0", "embedding"])
    ['stage2_0']
    """
    stages = [
        (layer, match[1]) for layer in layers if (match := re.match(r"((?:stage|layer|block)\w*?\d+)(?:[_.]|\Z)", layer))
    ]
    return [layer for (_, before), (layer, stage) in itertools.pairwise(stages) if stage != before]


def layer_cka(first: Any, second: Any, study: Study, epochs: int) -> pd.DataFrame:
    """Return the CKA between all layers of two models on the study's data."""
    return diversity.cka(first, second, data=study.data, epochs=epochs, seed=study.seed)
