"""The command that gives models a head for another dataset: `zoo head`."""

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zoo.app.bare_files import takes_bare_files
from zoo.app.printing import JsonOption, note, print_json, print_table
from zoo.errors import InputError

if TYPE_CHECKING:
    from zoo.models.model import Model

PANEL = "Find models"
# 1 to 100,000: weaker ones take longest and fit noise. Of six digits, as the card's command says them, so that it is exact.
STRENGTHS = [float(f"{10 ** (power / 2):g}") for power in range(11)]


def register(app: typer.Typer) -> None:
    """Add this group's commands to the command line."""
    app.command("head", rich_help_panel=PANEL)(takes_bare_files(head))


def head(
    names: Annotated[list[str], typer.Argument(help="Models whose features the heads read.", metavar="NAMES")],
    data: Annotated[str, typer.Option(help="Dataset whose classes the heads predict, e.g. cifar10.")],
    side: Annotated[int | None, typer.Option(help="Scale images to this side instead of the model's own.", min=8)] = None,
    strength: Annotated[
        float | None,
        typer.Option(
            help="Of the penalty, against the sum of all losses; default: what does best on a held-out fifth.",
            show_default=False,
        ),
    ] = None,
    save_as: Annotated[str | None, typer.Option("--as", help="Another name than MODEL-linear.DATASET.")] = None,
    json: JsonOption = False,
) -> None:
    """Fit linear heads on models' features of a dataset's training images; the results are found by name at once.

    The features are outputs like any other: kept, and taken up where a run was stopped.

    [dim]zoo head efficientnet-lite0 --data cifar10 --side 96[/dim]
    """
    from zoo import datasets
    from zoo.cards import labels
    from zoo.models import registry
    from zoo.models.heads import fit_linear, save_linear
    from zoo.runs import runner

    if save_as is not None and len(names) > 1:
        raise InputError(f"--as {save_as}: one name for {len(names)} heads; fit one at a time to name them")
    spec = datasets.training_split(data)
    if spec is None:
        raise InputError(f"--data {data}: has no training split to fit a head on")
    train_set = datasets.load(spec)
    made = []
    for name in names:
        model = registry.load(name)
        model = model if side is None else _at_side(model, side)
        outputs = runner.run(model, data=train_set)[model.name]
        called = save_as or f"{name.removesuffix('.' + model.card.dataset)}-linear.{train_set.name}"
        penalty = _best_strength(outputs.embeddings, train_set.labels) if strength is None else strength
        fitted = fit_linear(model, outputs.embeddings, train_set.labels, train_set.classes, penalty, called)
        scaled = "" if side is None else f" --side {side}"
        command = f"zoo head {model.name} --data {data}{scaled} --strength {penalty:g} --as {called}"
        known = train_set.name in labels.known() and train_set.classes == labels.classes(train_set.name)
        fitted.card = dataclasses.replace(
            fitted.card,
            labels=train_set.name if known else fitted.card.labels,
            details=fitted.card.details | {"data": spec, "command": command},
        )
        path = save_linear(fitted)
        note(f"{fitted.name}: saved ({path})")
        row = {"model": fitted.name, "base": model.name, "features": model.num_features, "images": len(train_set)}
        made.append(row | {"strength": penalty})
    if json:
        print_json(made)
    else:
        print_table(made)


def _best_strength(embeddings: Any, labels: Any) -> float:
    """Chosen by a linear probe in dimensions scaled to unit variance, as the head is fitted in."""
    import numpy as np

    from probes import LinearProbe

    x = np.asarray(embeddings, np.float32)
    scale = x.std(0)
    return LinearProbe(STRENGTHS, tolerance=1e-3).fit((x - x.mean(0)) / np.where(scale > 0, scale, 1), labels).strength_


def _at_side(model: "Model", side: int) -> "Model":
    """The model with images scaled to another side; its weights stay."""
    from zoo.datasets.preprocessing import Pipeline
    from zoo.models.model import Model

    if model.card.transform is None:
        raise InputError(f"{model.name}: its card has no transform, so its side cannot be changed")
    spec = dataclasses.replace(
        model.card.transform, size=(model.card.transform.size[0], side, side), resize=(side,), fit="squash"
    )
    card = dataclasses.replace(model.card, transform=spec)
    return Model(card, model.network, Pipeline(spec), model.classes, model.weights_hash)
