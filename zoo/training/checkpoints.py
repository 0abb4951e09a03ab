"""The complete state of a training run in one file: written atomically, and verified when it is read."""

import json
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from zoo.core import files, tensorfile
from zoo.core.typed import differences
from zoo.errors import CorruptFile, InputError, ZooWarning

SCHEMA = 1


@dataclass
class Checkpoint:
    """State of a run after `step` steps. No generator state is needed, because random draws depend on the step only."""

    step: int
    tensors: dict[str, Tensor]  # weights, optimiser state, averages and sums, by name
    log: list[dict[str, Any]] = field(default_factory=list)  # one entry per finished epoch
    extra: dict[str, Any] = field(default_factory=dict)


def save(path: Path, checkpoint: Checkpoint, run: Mapping[str, Any]) -> None:
    """Write a checkpoint; `run` identifies the training run in plain values (recipe, data)."""
    tensors = {name: value.detach().cpu().contiguous() for name, value in checkpoint.tensors.items()}
    note = {"schema": SCHEMA, "step": checkpoint.step, "log": checkpoint.log, "extra": checkpoint.extra, "run": run}
    files.write(path, tensorfile.encode(tensors, note))


def load(path: Path, run: Mapping[str, Any]) -> Checkpoint | None:
    """Return the checkpoint at `path`; None if there is none.

    A damaged file is renamed, with a warning. A checkpoint of another run is an error.
    """
    if not path.exists():
        return None
    try:
        stored, note = tensorfile.read_sealed(path)
        tensors = {name: torch.from_numpy(np.array(value)) for name, value in stored.items()}
    except CorruptFile as error:
        renamed = files.set_aside(path)
        warnings.warn(f"{error}; renamed to {renamed.name}, training starts from the beginning", ZooWarning, stacklevel=2)
        return None
    if note["schema"] != SCHEMA:
        hint = "Upgrade the package, or pass {restart=True}"
        raise InputError(where=path, expected=f"schema {SCHEMA}", found=note["schema"], hint=hint)
    changed = differences(note["run"], json.loads(json.dumps(run, allow_nan=False)))
    if changed:
        raise InputError(
            f"belongs to another recipe ({'; '.join(changed[:3])})",
            where=path,
            hint="Choose another name with {save_as=NAME}, or pass {restart=True} to replace the checkpoint",
        )
    return Checkpoint(note["step"], tensors, note["log"], note["extra"])
