"""From a model trained here to one that comes with the package: weights in float16, and a card that says what they score."""

import dataclasses
import hashlib
from pathlib import Path

import numpy as np
from safetensors.numpy import save

from zoo import calibration, cards
from zoo._registry import registry, trained
from zoo._running.runner import run
from zoo._storage import checkpoints, files
from zoo.cards import Card
from zoo.errors import InputError, ZooError
from zoo.model import Model
from zoo.sources.assembly import fit

LEAST_AGREEMENT = 0.999


def ship(name: str, folder: Path, data: str | None = None) -> Card:
    """Write `NAME.safetensors` and `NAME.md` into a folder of cards, and return the card.

    The weights are rounded to float16. The rounded network is run on the test images, `data` unless they are the dataset's
    own: what it scores there stands on the card, and one that says otherwise than the unrounded network on more than one
    image in a thousand is refused.
    """
    model = registry.load(name)
    file = trained.path(model.name)
    if not file.exists():
        raise InputError(f"{model.name}: was not trained here, there is no {file}; `zoo train` makes it")
    record, tensors, _ = trained.read(file)
    spec = data or f"{record.data.partition(':')[0]}:test"
    rounded = {key: _rounded(values) for key, values in tensors.items()}
    weights = save(rounded)
    digest = hashlib.sha256(weights).hexdigest()

    before = run(model, data=spec, embeddings=False)[model.name]
    network = registry.load(name).network
    fit(model.name, network, checkpoints.as_torch({key: np.asarray(values) for key, values in rounded.items()}), str(file))
    small = Model(model.card, network, model.transform, model.classes, digest)
    after = run(small, data=spec, embeddings=False)[model.name]
    agreement = float((before.predictions() == after.predictions()).mean())
    if agreement < LEAST_AGREEMENT:
        raise ZooError(f"{model.name}: rounded to float16 it agrees with itself on {agreement:.2%} of {spec} only")

    fitted = calibration.calibrate([after], 0.5)
    results = {
        "test_accuracy": after.accuracy,
        "train_accuracy": record.results["train_accuracy"],
        "train_class_separation": record.results["train_class_separation"],
        "temperature": round(fitted.fits[model.name].temperature, 4),
    }
    card = dataclasses.replace(
        model.card,
        sha256=digest,
        details=model.card.details | {"results": results, "command": record.command},
        body=_body(model.card, record, results, spec, agreement, len(after)),
        path=None,
    )
    files.make_folder(folder)
    files.write(folder / f"{model.name}.safetensors", weights)
    files.write(folder / f"{model.name}.md", cards.write(card).encode())
    return card


def _rounded(values: np.ndarray) -> np.ndarray:
    return values.astype(np.float16) if values.dtype == np.float32 else np.asarray(values)


def _body(card: Card, record: trained.Record, results: dict[str, float], spec: str, agreement: float, images: int) -> str:
    right = f"{round(results['test_accuracy'] * images):,} of the {images:,} images of {spec}"
    return f"""# {card.title}

```
{record.command}
```

Right on {right}: {results["test_accuracy"]:.2%}. Class separation of the training images:
{results["train_class_separation"]:.4f}. Temperature, fitted on a stratified half of {spec}: {results["temperature"]:.3f}.

The weights are those of epoch {record.epoch}, kept in float16, in which {agreement:.2%} of the answers are those of float32.
"""
