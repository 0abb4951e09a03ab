"""All of a training run's state in one file: written in one step, checked when read, refused by another recipe."""

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
    """Where a run stands after `step` steps. Its random draws depend on the step alone, so they need no saving."""

    step: int
    tensors: dict[str, Tensor]  # weights, momenta, averages, running sums, by name
    log: list[dict[str, Any]] = field(default_factory=list)  # the finished epochs
    extra: dict[str, Any] = field(default_factory=dict)


def save(path: Path, checkpoint: Checkpoint, run: Mapping[str, Any]) -> None:
    """Write the checkpoint of a run, which `run` describes in plain values. Until the last instant the old one stays."""
    tensors = {name: value.detach().cpu().contiguous() for name, value in checkpoint.tensors.items()}
    note = {
        "schema": SCHEMA,
        "step": checkpoint.step,
        "log": checkpoint.log,
        "extra": checkpoint.extra,
        "run": run,
    }
    files.write(path, tensorfile.encode(tensors, note))


def load(path: Path, run: Mapping[str, Any]) -> Checkpoint | None:
    """The checkpoint at `path`, or None where there is none, or only a damaged one, which is set aside."""
    if not path.exists():
        return None
    try:
        stored, note = tensorfile.read_sealed(path)
        tensors = {name: torch.from_numpy(np.array(value)) for name, value in stored.items()}
    except CorruptFile as error:
        moved = files.set_aside(path)
        warnings.warn(f"{error}; set aside as {moved.name}, training starts again", ZooWarning, stacklevel=2)
        return None
    if note["schema"] != SCHEMA:
        raise InputError(f"{path}: schema {note['schema']}, this version reads {SCHEMA}; restart the training or upgrade")
    changed = differences(note["run"], files.parse_json(_text(run).encode(), "run"))
    if changed:
        raise InputError(
            f"{path}: belongs to another recipe ({'; '.join(changed[:3])}); train under another name, or restart (--restart)"
        )
    return Checkpoint(note["step"], tensors, note["log"], note["extra"])


def _text(value: Any) -> str:
    import json

    return json.dumps(value, sort_keys=True, allow_nan=False)
