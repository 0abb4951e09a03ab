"""`zoo head`: a linear head for another dataset."""

import dataclasses
from typing import TYPE_CHECKING, Annotated, Any

import typer

from zoo.app.options import TRAIN, Fresh, Json, ModelFiles, Models, NewName, command, spec_option
from zoo.app.terminal import note, print_json, print_table
from zoo.errors import InputError

if TYPE_CHECKING:
    from zoo.models.model import Model

# 1 to 100,000; weaker penalties take longest and fit noise. Rounded to the six digits of the command on the head's card,
# so that the command reproduces the head exactly.
STRENGTHS = [float(f"{10 ** (power / 2):g}") for power in range(11)]


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("head", rich_help_panel=TRAIN)(command(head))


@dataclasses.dataclass(frozen=True, kw_only=True)
class _AnyModel(ModelFiles):
    """Facts about bare files; the size of the input is that of any model."""

    image_size: Annotated[int | None, typer.Option("--image-size", min=8, help="Side of the input in pixels.")] = None


def head(
    *,
    models: Models,
    data: Annotated[str, spec_option("--data", "Dataset whose classes the heads predict.")],
    strength: Annotated[
        float | None,
        typer.Option(
            "--strength",
            help="Strength of the penalty on the weights. Default: the best one on a held-out fifth.",
            show_default=False,
        ),
    ] = None,
    name: NewName = None,
    fresh: Fresh = False,
    model_files: _AnyModel,
    json: Json = False,
) -> None:
    """Fit linear heads to models' embeddings of a dataset's training images.

    The default name of a head is MODEL-linear.DATASET. The embeddings are stored like any other outputs.

    [dim]zoo head efficientnet-lite0 --data cifar10 --image-size 96[/dim]
    """
    from zoo import datasets
    from zoo.cards import labels
    from zoo.models import registry
    from zoo.models.heads import fit_linear, save_linear
    from zoo.runs import runner

    image_size = model_files.image_size
    names = [str(one) for one in runner.resolve(dataclasses.replace(model_files, image_size=None).named(models))]
    if name is not None and len(names) > 1:
        raise InputError(f"is one name for {len(names)} heads", argument="name", hint="Fit one head at a time to name it")
    spec = datasets.training_split(data)
    if spec is None:
        raise InputError("has no training split to fit a head on", where=data, argument="data")
    train_set = datasets.load(spec)
    if train_set.labels is None:
        raise InputError("has no labels to fit a head on", where=spec, argument="data")
    rows = []
    for base in names:
        model = registry.load(base)
        model = model if image_size is None else _with_image_size(model, image_size)
        outputs = runner.run(model, data=train_set, fresh=fresh, embeddings=True)[model.name]
        new_name = name or f"{base.removesuffix('.' + model.card.dataset)}-linear.{train_set.name}"
        embeddings = outputs.require_embeddings().array()
        penalty = _best_strength(embeddings, train_set.labels) if strength is None else strength
        fitted = fit_linear(model, embeddings, train_set.labels, train_set.classes, penalty, new_name)
        resized = "" if image_size is None else f" --image-size {image_size}"
        recipe = f"zoo head {model.name} --data {data}{resized} --strength {penalty:g} --name {new_name}"
        known = train_set.name in labels.known() and train_set.classes == labels.classes(train_set.name)
        fitted.card = dataclasses.replace(
            fitted.card,
            labels=train_set.name if known else fitted.card.labels,
            details=fitted.card.details | {"data": spec, "command": recipe},
        )
        note(f"{fitted.name}: saved in {save_linear(fitted)}")
        row = {"model": fitted.name, "base": model.name, "features": model.num_features, "images": len(train_set)}
        rows.append(row | {"strength": penalty})
    if json:
        print_json(rows)
    else:
        print_table(rows)


def _best_strength(embeddings: Any, labels: Any) -> float:
    """Return the strength with the best held-out score of a linear probe, in dimensions of unit variance as in the head."""
    import numpy as np

    from probes import LinearProbe

    x = np.asarray(embeddings, np.float32)
    scale = x.std(0)
    return LinearProbe(STRENGTHS, tolerance=1e-3).fit((x - x.mean(0)) / np.where(scale > 0, scale, 1), labels).strength_


def _with_image_size(model: "Model", size: int) -> "Model":
    """Return the model with images scaled to another size, and the same weights."""
    from zoo.datasets.preprocessing import Pipeline
    from zoo.models.model import Model

    if model.card.transform is None:
        raise InputError("the card has no transform to change", where=model.name, argument="image_size")
    spec = dataclasses.replace(
        model.card.transform, size=(model.card.transform.size[0], size, size), resize=(size,), fit="squash"
    )
    card = dataclasses.replace(model.card, transform=spec)
    return Model(card, model.network, Pipeline(spec), model.classes, model.weights_hash)
