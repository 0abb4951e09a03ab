"""From a model made here to one that comes with the package: its weights, and a card that says what they score.

A trained network's weights are kept in float16; of a linear head on another model's features the head alone is kept.
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

LEAST_AGREEMENT = 0.999


def ship(name: str, folder: Path, data: str | None = None) -> Card:
    """Write the weights and the card `NAME.md` into a folder of cards, and return the card.

    The model is run on the test images, `data` unless they are the dataset's own: what it scores there stands on the card.
    Weights in float16 that answer otherwise than the original ones on more than one image in a thousand are refused.
    """
    model = registry.load(name)
    return (_head if model.card.source == "fitted" else _network)(model, folder, data)


def made_here(card: Card) -> bool:
    """Whether `zoo train` or `zoo head` made the model on this machine, and it is not shipped."""
    return (trained.path(card.name).exists() or local_head(card).exists()) and registry.available(card) != "shipped"


def _network(model: Model, folder: Path, data: str | None) -> Card:
    file = trained.path(model.name)
    if not file.exists():
        raise InputError(f"{model.name}: was not trained here, there is no {file}; `zoo train` makes it")
    record, tensors, _ = trained.read(file)
    spec = data or _test_of(record.data)
    rounded = {key: _rounded(values) for key, values in tensors.items()}
    weights = save(rounded)

    before = run(model, data=spec, embeddings=False)[model.name]
    network = registry.load(model.name).network
    fit(model.name, network, state_dicts.as_torch({key: np.asarray(values) for key, values in rounded.items()}), str(file))
    small = Model(model.card, network, model.transform, model.classes, hashlib.sha256(weights).hexdigest())
    after = run(small, data=spec, embeddings=False)[model.name]
    agreement = float((before.predictions == after.predictions).mean())
    if agreement < LEAST_AGREEMENT:
        raise ZooError(f"{model.name}: rounded to float16 it agrees with itself on {agreement:.2%} of {spec} only")
    learnt = {key: record.results[key] for key in ("train_accuracy", "train_class_separation")}
    words = f"""Class separation of the training images: {learnt["train_class_separation"]:.4f}.

The weights are those of epoch {record.epoch}, kept in float16, in which {agreement:.2%} of the answers are those of float32.
"""
    return _write(model.card, after, spec, record.command, learnt, words, weights, folder / f"{model.name}.safetensors")


def _head(model: Model, folder: Path, data: str | None) -> Card:
    about, file = model.card.details, local_head(model.card)
    if not file.exists() or "data" not in about:
        raise InputError(f"{model.name}: its head was not fitted here by `zoo head`, which makes one that can be shipped")
    spec = data or _test_of(about["data"])
    outputs = run(model, data=spec, embeddings=False)[model.name]
    words = f"A linear head on the features of {about['base']}, fitted on {about['data']}. It comes without that model.\n"
    place = folder / f"{model.name}.head.safetensors"
    return _write(model.card, outputs, spec, about["command"], {}, words, file.read_bytes(), place)


def _write(
    card: Card, outputs: Outputs, spec: str, command: str, learnt: dict[str, float], words: str, weights: bytes, place: Path
) -> Card:
    temperature = calibration.calibrate([outputs], 0.5).fits[outputs.name].temperature
    results = {"test_accuracy": outputs.accuracy, **learnt, "temperature": round(temperature, 4)}
    right = f"{round(outputs.accuracy * len(outputs)):,} of the {len(outputs):,} images of {spec}"
    body = f"""# {card.title}

```
{command}
```

Right on {right}: {outputs.accuracy:.2%}. Temperature, fitted on a stratified half of {spec}: {temperature:.3f}.
{words}"""
    new = dataclasses.replace(
        card,
        sha256=hashlib.sha256(weights).hexdigest(),
        details=card.details | {"results": results, "command": command},
        body=body,
        path=None,
    )
    files.make_folder(place.parent)
    files.write(place, weights)
    files.write(place.parent / f"{card.name}.md", cards.write(new).encode())
    return new


def _test_of(training: str) -> str:
    return f"{training.partition(':')[0]}:test"


def _rounded(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float16) if values.dtype == np.float32 else np.asarray(values)
