"""Outputs made elsewhere, put into the store so that they are found by name like any other."""

import dataclasses
import itertools
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from zoo import datasets
from zoo.core import arrays, files
from zoo.core.columns import Column
from zoo.datasets import user_datasets
from zoo.errors import InputError
from zoo.outputs.outputs import Outputs
from zoo.outputs.store.layout import IMPORTED, SHARD_ROWS, Identity, card_text
from zoo.outputs.store.lookup import stored
from zoo.outputs.store.run_folder import RunFolder, save_fit
from zoo.outputs.store.shards import Shard


def save(outputs: Outputs, home: Path | str | None = None, replace: bool = False) -> Outputs:
    """Store `outputs` and return them memory-mapped from there.

    Another import of that name on that dataset is an error unless `replace`; then the old folder is renamed, not deleted.
    """
    home = None if home is None else Path(home)
    run = RunFolder.of(_identity(outputs), home)
    others = [old for old in stored(home) if _same_place(old.identity, run.identity) and old.path != run.path]
    if others and not replace:
        raise InputError(
            f"{outputs.name}: outputs of that name on {outputs.dataset or 'unnamed data'} are stored in {others[0].path}; "
            "choose another name, or replace them (--replace)"
        )
    missing = run.missing()
    for number in missing:
        rows = run.identity.rows(number)
        run.write(number, _shard(outputs, slice(rows.start, rows.stop)))
    if outputs.dataset is not None and datasets.is_user_dataset(outputs.dataset):
        user_datasets.remember(outputs.dataset, outputs.ids.tolist(), outputs.classes, outputs.labels, outputs.targets, home)
    run.finish()
    for old in others:
        retire(old.path)
    kept = run.open()
    if outputs.temperature is None:
        return kept
    record = outputs.details.get("calibration") or {"temperature": outputs.temperature, "split": "given"}
    save_fit(kept, record)
    return dataclasses.replace(kept, temperature=outputs.temperature, details=kept.details | {"calibration": record})


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
        values=None if outputs.kind == "embeddings" else _numpy(outputs.values, rows),
        embeddings=None if outputs.embeddings is None else _numpy(outputs.embeddings, rows),
        labels=None if outputs.labels is None else outputs.labels[rows],
        targets=None if outputs.targets is None else outputs.targets[rows],
    )


def _numpy(column: Column, rows: slice) -> np.ndarray:
    values = arrays.tensor(column[rows], "values").cpu()
    return (values.float() if str(values.dtype) == "torch.bfloat16" else values).numpy()


def _same_place(old: Identity, new: Identity) -> bool:
    return old.name == new.name and old.dataset == new.dataset and old.fingerprint == IMPORTED


def retire(folder: Path) -> None:
    for number in itertools.count(1):
        target = folder.with_name(f".replaced-{number}-{folder.name}")
        if not target.exists():
            with files.writing(target):
                folder.rename(target)
            return
