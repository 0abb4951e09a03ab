"""Studies of made-up outputs under the names of recipes, which have real cards. No model is trained or run."""

import dataclasses
import zlib
from collections.abc import Sequence

import numpy as np

from zoo.app.figures import Study
from zoo.models import registry
from zoo.outputs.outputs import Outputs, Runs

CLASSES, WIDTH = 10, 8
SIZES = {"digits:test": 240, "digits:train": 200, "digits-rotated:train": 120, "digits-rotated:test": 80}
TASK = tuple(str(90 * turns) for turns in range(4))  # classes of the other task


def made(name: str, spec: str) -> Outputs:
    """Return outputs of one model, the same for the same arguments, whose logits and embeddings depend on the class."""
    rows, rng = SIZES[spec], np.random.default_rng(zlib.crc32(f"{name} {spec}".encode()))
    shared = np.random.default_rng(zlib.crc32(spec.encode()))
    other = spec.startswith("digits-rotated")
    labels = shared.permutation(np.arange(rows) % (len(TASK) if other else CLASSES))
    directions = np.random.default_rng(1).normal(size=(CLASSES, WIDTH))
    difficulty = shared.normal(size=(rows, 1))
    logits = 3 * np.eye(CLASSES)[labels] - 3 + rng.normal(size=(rows, CLASSES)) * (1 + 0.5 * np.abs(difficulty))
    embeddings = directions[labels] + 1.1 * rng.normal(size=(rows, WIDTH))
    outputs = Outputs.from_arrays(
        name, logits=logits, embeddings=embeddings.astype(np.float32), labels=labels, card=registry.card(name), dataset=spec,
        link=registry.card(name).link,
    )  # fmt: skip
    return dataclasses.replace(outputs, label_classes=TASK) if other else outputs


def outputs(names: Sequence[str], data: str, **options: object) -> Runs:
    """Return made-up outputs of several models; takes the place of `zoo.run`."""
    return Runs(made(name, data) for name in names)


def names(objectives: Sequence[str] = ("softmax", "sigmoid", "squared-error"), seeds: int = 3) -> list[str]:
    return [f"resnet8-{one}{f'-s{seed}' if seed else ''}.digits" for one in objectives for seed in range(seeds)]


def study(models: Sequence[str] | None = None, **changes: object) -> Study:
    """Return a study with another task; default: three objectives with three seeds, temperatures from half of the rows."""
    options = {"transfer": ["digits-rotated:test"], "temperatures_from": 0.5, "outputs": outputs} | changes
    return Study(models or names(), "digits:test", **options)  # type: ignore[arg-type]
