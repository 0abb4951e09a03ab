"""Store outputs from memory, so that they are found by name like those of a run."""

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from zoo import datasets
from zoo.core import arrays, checks, files
from zoo.core.backend import cast, dtype_name
from zoo.datasets import user_datasets
from zoo.errors import InputError, ZooError
from zoo.outputs.outputs import Outputs
from zoo.outputs.store import layout
from zoo.outputs.store.layout import IMPORTED, SHARD_ROWS, Identity, card_text
from zoo.outputs.store.lookup import imports_like
from zoo.outputs.store.run_folder import RunFolder, write_fits
from zoo.outputs.store.shards import Shard

_MAX_ATTEMPTS = 1000


def save(outputs: Outputs, home: Path | str | None = None, replace: bool = False) -> Outputs:
    """Store outputs, and return the stored ones, memory-mapped.

    A replacement becomes visible in one step: at any time a reader finds either the old outputs or the new ones. If several
    processes replace the same outputs at once, one of them is the last. The old folder is renamed, not deleted.

    Args:
        outputs: what to store.
        home: where to store it; default `ZOO_HOME`.
        replace: whether to replace outputs stored under this name for this dataset.
    """
    home = None if home is None else Path(home)
    identity = _identity(outputs)
    for _ in range(_MAX_ATTEMPTS):
        run = _folder(identity, home, replace)
        try:
            return _save(outputs, run, home)
        except ZooError:
            if run.path.exists():
                raise
            # Another process replaced these outputs while they were written or opened.
    raise ZooError("is constantly being replaced by other processes", where=outputs.name)


def _folder(identity: Identity, home: Path | None, replace: bool) -> RunFolder:
    """Return the current import if it has the same contents, else a folder of the next generation."""
    imports = imports_like(RunFolder.of(identity, home))
    if not imports:
        return RunFolder.of(identity, home)
    newest = imports[-1]
    if newest.identity.digest == identity.digest:
        return RunFolder(newest.path, identity)
    if not replace:
        raise InputError(
            f"outputs of this name on {identity.dataset or 'unnamed data'} are stored in {newest.path}",
            where=identity.name,
            hint="Choose another name, or replace them with {replace=True}",
        )
    return RunFolder(identity.folder(home, layout.generation(newest.path) + 1), identity)


def _save(outputs: Outputs, run: RunFolder, home: Path | None) -> Outputs:
    for number in run.missing():
        rows = run.identity.rows(number)
        run.write(number, _shard(outputs, slice(rows.start, rows.stop)))
    if outputs.dataset is not None and datasets.is_user_dataset(outputs.dataset):
        user_datasets.remember(outputs.dataset, outputs.ids.tolist(), outputs.classes, outputs.labels, outputs.targets, home)
    record = _calibration(outputs)
    fits = dict(outputs.details.get("fits") or {}) | ({record["split"]: record} if record else {})
    if fits:
        write_fits(run.path, fits)
    run.finish()
    opened = run.open()
    for older in imports_like(run)[:-1]:  # includes this import if another process has already replaced it
        retire(older.path)
    if record is None:
        return opened
    return dataclasses.replace(opened, temperature=outputs.temperature, details=opened.details | {"calibration": record})


def _calibration(outputs: Outputs) -> dict[str, Any] | None:
    """Return the record of the outputs' temperature."""
    if outputs.temperature is None:
        return None
    record = outputs.details.get("calibration") or {"split": "given"}
    return record | {"temperature": float(outputs.temperature)}


def _identity(outputs: Outputs) -> Identity:
    contents = files.digest(_contents(outputs))
    spec = outputs.dataset
    return Identity(
        name=outputs.name,
        kind=outputs.kind,
        link=outputs.link,
        classes=outputs.classes,
        weights=f"{IMPORTED}:{contents}",
        transform=IMPORTED,
        precision=str(outputs.values.dtype).removeprefix("torch."),
        embeddings=outputs.embeddings is not None,
        fingerprint=IMPORTED,
        examples=len(outputs),
        shard_rows=SHARD_ROWS,
        label_classes=outputs.label_classes,
        dataset=spec,
        dataset_name=Path(spec).name if spec else "unnamed",
        card=None if outputs.card is None else card_text(outputs.card),
    )


def _contents(outputs: Outputs) -> Iterator[str | bytes]:
    yield from outputs.ids.tolist()
    for number in range(0, len(outputs), SHARD_ROWS):
        shard = _shard(outputs, slice(number, number + SHARD_ROWS))
        for array in (shard.values, shard.embeddings, shard.labels, shard.targets):
            yield b"" if array is None else array.tobytes()


def _shard(outputs: Outputs, rows: slice) -> Shard:
    return Shard(
        ids=outputs.ids[rows].tolist(),
        values=None if outputs.kind == "embeddings" else to_numpy(outputs.values[rows]),
        embeddings=None if outputs.embeddings is None else to_numpy(outputs.embeddings[rows]),
        labels=None if outputs.labels is None else outputs.labels[rows],
        targets=None if outputs.targets is None else outputs.targets[rows],
    )


def to_numpy(values: arrays.Array) -> np.ndarray:
    """Return rows of outputs as a NumPy array; bfloat16, which NumPy lacks, becomes float32."""
    rows = checks.array(values, "values")
    return arrays.to_numpy(cast(rows, "float32") if dtype_name(rows) == "bfloat16" else rows)


def retire(folder: Path) -> None:
    """Take the folder of a run out of use by renaming it."""
    layout.put_aside(folder, "replaced")
