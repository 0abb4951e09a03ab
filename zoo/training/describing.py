"""The card of a model trained here."""

from typing import Any

from zoo import labels
from zoo.cards import Card, Training
from zoo.catalogue.tags import family
from zoo.datasets import Dataset
from zoo.errors import UnknownName
from zoo.objectives import get
from zoo.training.fitting import Fit
from zoo.training.planning import Plan

_FAMILIES = {"resnet8": "resnet", "resnet8x2": "resnet", "resnet20": "resnet", "all-cnn-c": "all-cnn", "wrn-16-8": "wrn"}


def describe(
    made: Plan,
    train_set: Dataset,
    done: Fit | None = None,
    results: dict[str, float] | None = None,
    sha256: str | None = None,
) -> Card:
    """The card of a planned model; with what came of it once it is trained."""
    dataset = train_set.label_set or made.dataset if made.dataset == "in1k" else made.dataset
    label_set, details = _classes(train_set, dataset)
    details |= {"data": made.data, "fingerprint": train_set.fingerprint, "command": made.command, "results": results or {}}
    if done is not None:
        details |= {"epoch": done.epoch, "steps": done.steps, "seconds": round(done.seconds, 1)}
    return Card(
        name=made.name,
        source="recipe",
        family=_FAMILIES.get(made.architecture) or family(made.architecture),
        architecture=made.architecture,
        labels=label_set,
        link=get(made.objective).link,
        head="trained",
        training=Training(
            dataset=dataset,
            framework="supervised",
            objective=made.objective,
            hyperparameters={**made.hyperparameters, **made.recipe.settings},
            seed=made.recipe.seed,
        ),
        transform=made.recipe.transform,
        sha256=sha256,
        license="apache-2.0",
        details=details,
        title=f"{made.architecture} trained with {made.objective} on {made.dataset}",
        body=_body(made, done, results or {}),
    )


def _classes(train_set: Dataset, dataset: str) -> tuple[str, dict[str, Any]]:
    """The label set, and the class names where no label set of that name has just these."""
    name = train_set.label_set or dataset
    try:
        known = labels.classes(name) == train_set.classes
    except UnknownName:
        known = False
    return name, {} if known else {"classes": list(train_set.classes)}


def _body(made: Plan, done: Fit | None, results: dict[str, float]) -> str:
    lines = [f"# {made.architecture} trained with {made.objective} on {made.dataset}", "", "```", made.command, "```"]
    if done is not None:
        lines += ["", f"{done.steps} steps in {done.seconds:.0f} s; the weights are those of epoch {done.epoch}.", ""]
        lines += ["| pictures | accuracy | NLL | class separation |", "| --- | --- | --- | --- |"]
        for part in ("train", "test"):
            if f"{part}_accuracy" in results:
                accuracy, nll, separation = (results[f"{part}_{key}"] for key in ("accuracy", "nll", "class_separation"))
                lines.append(f"| {part} | {accuracy:.2%} | {nll:.4f} | {separation:.4f} |")
    return "\n".join(lines)
