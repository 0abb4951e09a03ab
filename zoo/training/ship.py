"""Turn a local model into a shipped one: write its weights and a card with its test scores into a folder of cards.

The weights of a trained network are written in float16. Of a linear head on another model's embeddings, only the head is
written.
"""

import dataclasses
import hashlib
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from zoo import calibration
from zoo.cards import card as cards
from zoo.cards.card import Card
from zoo.core import files, state_dicts
from zoo.errors import InputError, ZooError
from zoo.models import registry, trained
from zoo.models.model import Model
from zoo.models.sources.assembly import fit
from zoo.models.trained import local_head
from zoo.outputs.outputs import Outputs
from zoo.runs.runner import run

MIN_AGREEMENT = 0.999  # fraction of images with the same prediction in float16 as in float32


def ship(name: str, folder: Path, data: str | None = None) -> Card:
    """Write a model's weights and its card `NAME.md`, and return the card.

    Raises an error if the float16 weights change more than one prediction in a thousand.

    Args:
        name: a model that `zoo train` or `zoo head` made on this machine.
        folder: the folder of cards.
        data: spec of the images for the scores on the card; default: the test split of the model's dataset.
    """
    model = registry.load(name)
    return (_head if model.card.source == "fitted" else _network)(model, folder, data)


def made_here(card: Card) -> bool:
    """Return whether a model was trained or fitted on this machine and is not shipped."""
    return (trained.path(card.name).exists() or local_head(card).exists()) and registry.available(card) != "shipped"


def _network(model: Model, folder: Path, data: str | None) -> Card:
    file = trained.path(model.name)
    if not file.exists():
        raise InputError(f"was not trained on this machine: {file} is missing", where=model.name, hint="Run `zoo train`")
    record, tensors, _ = trained.read(file)
    spec = data or _test_of(record.data)
    rounded = {key: values.astype(np.float16) if values.dtype == np.float32 else values for key, values in tensors.items()}
    weights = save(rounded)

    before = run(model, data=spec, embeddings=False)[model.name]
    network = registry.load(model.name).network
    fit(model.name, network, state_dicts.as_torch(rounded), str(file))
    small = Model(model.card, network, model.transform, model.classes, hashlib.sha256(weights).hexdigest())
    after = run(small, data=spec, embeddings=False)[model.name]
    agreement = float((before.predictions == after.predictions).mean())
    if agreement < MIN_AGREEMENT:
        problem = f"rounding to float16 keeps only {agreement:.2%} of the predictions on {spec}"
        raise ZooError(problem, where=model.name, expected=f"at least {MIN_AGREEMENT:.1%}")
    train_results = {key: record.results[key] for key in ("train_accuracy", "train_class_separation")}
    text = f"""Class separation of the training images: {train_results["train_class_separation"]:.4f}.

The weights are those of epoch {record.epoch}, in float16. {agreement:.2%} of the predictions are the same as in float32.
"""
    path = folder / f"{model.name}.safetensors"
    return _write(record.card, after, spec, record.command, train_results, text, weights, path)


def _head(model: Model, folder: Path, data: str | None) -> Card:
    details, file = model.card.details, local_head(model.card)
    if not file.exists() or "data" not in details:
        raise InputError("its head was not fitted on this machine", where=model.name, hint="Fit one with `zoo head`")
    spec = data or _test_of(details["data"])
    outputs = run(model, data=spec, embeddings=False)[model.name]
    text = f"A linear head on the embeddings of {details['base']}, fitted on {details['data']}. It needs that model.\n"
    path = folder / f"{model.name}.head.safetensors"
    return _write(model.card, outputs, spec, details["command"], {}, text, file.read_bytes(), path)


def _write(
    card: Card,
    outputs: Outputs,
    spec: str,
    command: str,
    train_results: dict[str, float],
    text: str,
    weights: bytes,
    path: Path,
) -> Card:
    """Write the weights to `path` and the card beside them; return the card."""
    temperature = calibration.calibrate([outputs], 0.5).fits[outputs.name].temperature
    results = {"test_accuracy": outputs.accuracy, **train_results, "temperature": round(temperature, 4)}
    correct = round(outputs.accuracy * len(outputs))
    body = f"""# {card.title}

```
{command}
```

Accuracy on {spec}: {outputs.accuracy:.2%} ({correct:,} of {len(outputs):,} images).
Temperature, fitted on a stratified half of {spec}: {temperature:.3f}.
{text}"""
    new = dataclasses.replace(
        card,
        sha256=hashlib.sha256(weights).hexdigest(),
        details=card.details | {"results": results, "command": command},
        body=body,
        path=None,
    )
    files.make_folder(path.parent)
    files.write(path, weights)
    files.write(path.parent / f"{card.name}.md", cards.write(new).encode())
    return new


def _test_of(training: str) -> str:
    return f"{training.partition(':')[0]}:test"
