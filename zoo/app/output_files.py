"""Outputs from files and folders, for `zoo import` and `--from`, and tables of outputs, for `zoo export`."""

import dataclasses
import io
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from zoo.core.types import Link
    from zoo.outputs.outputs import Kind, Outputs, Runs


def read_outputs(
    paths: Sequence[Path],
    data: str | None = None,
    kind: "Kind | None" = None,
    *,
    name: str | None = None,
    link: "Link | None" = None,
    **options: Any,
) -> "Runs":
    """Return the outputs in files and folders: bundles that `zoo export` wrote, and any others.

    Args:
        paths: files and folders.
        data: the dataset; default: what a bundle says.
        kind: what the numbers are; default: what the files say.
        name: the model's name, if there is only one.
        link: how logits become probabilities; default: what a bundle says, else softmax.
        options: further arguments of `zoo.import_outputs`.
    """
    from zoo.outputs import bundle
    from zoo.outputs.importing.importer import import_outputs
    from zoo.outputs.outputs import Runs

    found: list[Outputs] = []
    others: list[Path] = []
    for path in map(Path.expanduser, paths):
        bundles = [one for one in (sorted(path.iterdir()) if path.is_dir() else [path]) if bundle.is_bundle(one)]
        if bundles:
            found += [outputs for one in bundles for outputs in _from_bundle(one, data, kind, name, link, options)]
        elif path.is_dir():
            found += import_outputs(path, name, kind, data=data, link=link or "softmax", **options).values()
        else:
            others.append(path)
    if others:
        source = others if len(others) > 1 else others[0]
        found += import_outputs(source, name, kind, data=data, link=link or "softmax", **options).values()
    if name is not None and len(found) > 1:
        raise InputError(
            f"is one name for {len(found)} models", argument="name", hint="Leave it out: each model has its own"
        )
    return Runs(found)


def _from_bundle(
    path: Path,
    data: str | None,
    kind: "Kind | None",
    name: str | None,
    link: "Link | None",
    options: dict[str, Any],
) -> "list[Outputs]":
    """Return the outputs of a bundle with the dataset and name that are given; refuse what contradicts the bundle."""
    from zoo.datasets import canonical, is_user_dataset
    from zoo.outputs import bundle

    spec = data if data is None or is_user_dataset(data) else canonical(data)
    meta = options.get("meta")
    for argument in ("labels", "classes", "ids", "columns"):
        if options.get(argument) is not None:
            raise InputError("cannot be given for a bundle, which has its own", where=path, argument=argument)
    held = list(bundle.read(path).values())
    for outputs in held:
        stored = {"data": outputs.dataset, "kind": outputs.kind, "link": outputs.link}
        for argument, value in {"data": spec, "kind": kind, "link": link}.items():
            if value is not None and stored[argument] not in (None, value):
                expected = f"{stored[argument]}, as in the bundle, or left out"
                raise InputError(where=f"{path}: {outputs.name}", argument=argument, expected=expected, found=value)
    held = [dataclasses.replace(outputs, dataset=outputs.dataset or spec, name=name or outputs.name) for outputs in held]
    if meta is None:
        return held
    from zoo.outputs.importing.metadata import with_cards

    return with_cards(held, meta)


def write_rows(runs: "Runs", path: Path) -> int:
    """Write one row per example and model as .csv or .parquet; return the number of rows."""
    from zoo.core import files
    from zoo.core.text import csv_bytes

    buffer, rows = io.BytesIO(), 0
    if path.suffix.lower() == ".csv":
        for number, frame in enumerate(_frames(runs)):
            header = b"" if number == 0 else csv_bytes(frame.head(0))
            buffer.write(csv_bytes(frame)[len(header) :])
            rows += len(frame)
    else:
        import pyarrow
        import pyarrow.parquet

        writer = None
        for frame in _frames(runs):
            table = pyarrow.Table.from_pandas(frame, preserve_index=False)
            writer = writer or pyarrow.parquet.ParquetWriter(buffer, table.schema)
            writer.write_table(table.cast(writer.schema))
            rows += len(frame)
        if writer is not None:
            writer.close()
    files.write(path, buffer.getvalue())
    return rows


def _frames(runs: "Runs") -> "Iterator[pd.DataFrame]":
    """Yield a table per model, all with the same columns. Probabilities are missing for models with predictions only."""
    import numpy as np
    import pandas as pd

    aligned = runs.aligned()
    has_probabilities = any(outputs.kind in ("logits", "probabilities") for outputs in aligned.values())
    for outputs in aligned.values():
        columns: dict[str, Any] = {"model": outputs.name, "id": outputs.ids.tolist()}
        columns["label"] = _names(outputs.labels, outputs.label_classes or outputs.classes, len(outputs))
        columns["prediction"] = _names(outputs.predictions, outputs.classes, len(outputs))
        if has_probabilities:
            known = outputs.kind in ("logits", "probabilities")
            values = (
                np.asarray(outputs.probabilities, np.float32)
                if known
                else np.full((len(outputs), len(outputs.classes)), np.nan)
            )
            columns["confidence"] = values.max(1)
            columns |= {f"probabilities.{name}": values[:, k] for k, name in enumerate(outputs.classes)}
        yield pd.DataFrame(columns)


def _names(indices: Any, classes: Sequence[str], rows: int) -> list[str | None]:
    if indices is None:
        return [None] * rows
    return [classes[k] if k >= 0 else None for k in indices.tolist()]
