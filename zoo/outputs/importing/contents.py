"""What a file or a frame holds, by meaning and by model: `{"logits": ..., "labels": ..., "ids": ...}`.

What the numbers are is declared, by the kind given or by the name of the array or column that holds them; it is never
guessed. What has no known meaning is left out, and named.
"""

import re
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from zoo.errors import InputError, ZooWarning
from zoo.outputs.importing import column_names
from zoo.outputs.importing.column_names import KINDS

if TYPE_CHECKING:
    import pandas as pd

Parts: TypeAlias = dict[str, Any]
_SEVERAL = ("logits", "probabilities", "embeddings")  # kinds with more than one number per example


@dataclass(frozen=True)
class Reading:
    """How to read what names do not say: the kind, the columns by meaning, and the classes."""

    where: str
    kind: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)  # meaning -> column
    classes: Sequence[str] | None = None

    def meaning(self, name: str) -> str | None:
        chosen = next((meaning for meaning, column in self.columns.items() if column == name), None)
        if chosen is not None:
            return chosen
        found = column_names.meaning(name)
        return None if found in self.columns else found  # another column was chosen for it

    def check(self, names: Sequence[str]) -> None:
        """An error for a column that was chosen and is not there."""
        for meaning, column in self.columns.items():
            if meaning not in column_names.MEANINGS:
                raise InputError(f"--column {meaning}={column}: expected one of {', '.join(column_names.MEANINGS)}")
            if column not in names:
                raise InputError(f"{self.where}: no column {column!r} for the {meaning}; found {_listed(names)}")

    def undeclared(self, names: Sequence[str], what: str) -> InputError:
        called = f"{what} {_listed(names)} is" if len(names) == 1 else f"{what}s {_listed(names)} are"
        return InputError(
            f"{self.where}: say what {called if any(names) else f'the {what} is'} with --kind "
            f"({', '.join(KINDS)}), or name the column that holds them with --column predictions=NAME"
        )

    def left_out(self, names: Sequence[str], what: str) -> None:
        warnings.warn(f"{self.where}: {what} of no known meaning left out: {_listed(names)}", ZooWarning, stacklevel=5)


def of_arrays(arrays: Mapping[str, np.ndarray], reading: Reading) -> Iterator[tuple[str | None, Parts]]:
    """(model, parts) for each model among named arrays; the model is None where no name tells it."""
    reading.check(list(arrays))
    shared: Parts = {}
    models: dict[str, Parts] = {}
    unknown: list[str] = []
    for name, values in arrays.items():
        meaning, owned = reading.meaning(name), column_names.of_model(name)
        if meaning is not None:
            _put(shared, meaning, name, values, reading)
        elif owned is not None:
            _put(models.setdefault(owned[0], {}), owned[1], name, values, reading)
        else:
            unknown.append(name)
    if unknown and not models and not _has_outputs(shared, reading):
        if reading.kind is None:
            raise reading.undeclared(unknown, "array")
        if len(unknown) == 1:
            shared[reading.kind], unknown = arrays[unknown[0]], []
        else:
            wanted = 2 if reading.kind in _SEVERAL else 1
            models = {name: {reading.kind: arrays[name]} for name in unknown if np.ndim(arrays[name]) == wanted}
            unknown = [name for name in unknown if name not in models]
    if unknown:
        reading.left_out(unknown, "arrays")
    beside = {meaning: values for meaning, values in shared.items() if meaning not in KINDS}
    if any(kind in shared for kind in KINDS) or not models:
        yield None, shared
    for name, parts in models.items():
        yield name, beside | parts


def _has_outputs(found: Mapping[str, Any], reading: Reading) -> bool:
    """Whether outputs are named; embeddings are beside the point unless they are what was declared, or all there is."""
    return any(kind in found for kind in KINDS if kind != "embeddings" or reading.kind in (None, kind))


def _put(parts: Parts, meaning: str, name: str, values: np.ndarray, reading: Reading) -> None:
    """File an array under its meaning, which its shape may narrow."""
    if meaning == "targets" and np.ndim(values) == 1:
        meaning = "labels"
    if meaning == "predictions" and np.ndim(values) == 2:  # Keras calls them so
        if reading.kind not in ("logits", "probabilities"):
            raise InputError(
                f"{reading.where}: {name!r} has shape {list(np.shape(values))}, one number per class; say with --kind "
                "whether they are logits or probabilities"
            )
        meaning = reading.kind
    if meaning in parts:
        raise InputError(
            f"{reading.where}: {name!r} is a second array of {meaning}; choose one with --column {meaning}=NAME"
        )
    parts[meaning] = values


def of_table(table: "pd.DataFrame", reading: Reading) -> Iterator[tuple[str | None, Parts]]:
    """(model, parts) for each model in a table with one row per example, or per model and example."""
    table = table.rename(columns=str)
    if len(table) == 0:
        raise InputError(f"{reading.where}: expected at least one row, found none")
    names = table.columns.tolist()
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise InputError(f"{reading.where}: column {twice!r} is given twice")
    reading.check(names)
    single, wide, loose = _roles(table, reading)
    one_each = [] if reading.kind != "predictions" or "predictions" in single else loose
    if not one_each:
        loose = _declare(loose, single, wide, table, reading)
    if loose and not one_each:
        reading.left_out(loose, "columns")
    for meaning, column in single.items():
        missing = table[column].isna().to_numpy()
        if missing.any():
            raise InputError(
                f"{reading.where}: row {int(missing.argmax())} has no {column} ({int(missing.sum())} of {len(table)} rows); "
                f"fill in its {meaning}, or remove the row"
            )
    if one_each:
        beside = _of_rows(table, single, {}, reading)
        for column in one_each:
            yield column, beside | _of_rows(table, {"predictions": column}, {}, reading)
    elif "model" in single:
        column = single.pop("model")
        for name, rows in table.groupby(column, sort=False, observed=True):
            yield str(name), _of_rows(rows, single, wide, reading)
    else:
        yield None, _of_rows(table, single, wide, reading)


def _roles(table: "pd.DataFrame", reading: Reading) -> tuple[dict[str, str], dict[str, dict[str, str]], list[str]]:
    """Columns by role: one by meaning, those of one class each by kind, and the rest."""
    of_classes = set(reading.classes or ()) if set(reading.classes or ()) <= set(table.columns) else set()
    candidates: dict[str, list[str]] = {}
    wide: dict[str, dict[str, str]] = {}
    loose = []
    for column in table.columns:
        meaning, per_class = reading.meaning(column), column_names.class_column(column)
        if column in of_classes or not _suits(meaning, table[column]):
            loose.append(column)
        elif meaning is not None:
            candidates.setdefault(meaning, []).append(column)
        elif per_class is not None:
            wide.setdefault(per_class[0], {})[per_class[1]] = column
        else:
            loose.append(column)
    single = {}
    for meaning, columns in candidates.items():
        if len(columns) > 1 and meaning not in ("ids", "model"):
            raise InputError(
                f"{reading.where}: columns {_listed(columns)} could all be the {meaning}; choose one with "
                f"--column {meaning}=NAME"
            )
        single[meaning] = min(columns, key=column_names.rank) if len(columns) > 1 else columns[0]
    return single, wide, loose


def _declare(
    loose: list[str], single: dict[str, str], wide: dict[str, dict[str, str]], table: "pd.DataFrame", reading: Reading
) -> list[str]:
    """Give columns of no known meaning the kind that was declared, one class each; what is left of them."""
    from pandas.api.types import is_numeric_dtype

    if _has_outputs({**single, **wide}, reading):
        return loose
    numeric = [column for column in loose if is_numeric_dtype(table[column])]
    if not numeric or reading.kind is None:
        if not loose:
            found = table.columns.tolist()
            raise InputError(
                f"{reading.where}: no outputs among its columns {_listed(found)}; name the one that holds them with "
                "--column predictions=NAME"
            )
        raise reading.undeclared(loose, "column")
    wide[reading.kind] = _numbered(numeric)
    return [column for column in loose if column not in numeric]


def _numbered(columns: list[str]) -> dict[str, str]:
    """Class -> column: the columns' own names, or their numbers where they are `p0`, `p1`, ... to the last."""
    found = [re.fullmatch(r"(.*?)(\d+)", column) for column in columns]
    if len({match and match[1] for match in found}) == 1 and found[0] is not None:
        by_number = {int(match[2]): column for match, column in zip(found, columns, strict=True) if match}
        if sorted(by_number) == list(range(len(columns))):
            return {str(k): by_number[k] for k in sorted(by_number)}
    return dict(zip(columns, columns, strict=True))


def _of_rows(
    table: "pd.DataFrame", single: Mapping[str, str], wide: Mapping[str, Mapping[str, str]], reading: Reading
) -> Parts:
    parts: Parts = {meaning: _column(table[column], f"{reading.where} {column}") for meaning, column in single.items()}
    for kind, columns in wide.items():
        values = table[list(columns.values())].to_numpy()
        if values.dtype.kind not in "biuf":
            bad = next(column for column in columns.values() if table[column].dtype.kind not in "biuf")
            raise InputError(f"{reading.where}: column {bad!r} holds {table[bad].dtype}, expected numbers")
        parts[kind] = values if values.dtype.kind == "f" else values.astype(np.float64)
        if kind != "embeddings":
            parts["classes"] = list(columns)
    return parts


def _column(values: "pd.Series[Any]", where: str) -> np.ndarray:
    if _holds_lists(values):
        lengths = {len(value) for value in values}
        if len(lengths) > 1:
            raise InputError(f"{where}: rows of different lengths ({min(lengths)} to {max(lengths)})")
        return np.array([np.asarray(value) for value in values])
    array = values.to_numpy()
    if array.dtype.kind == "f" and (array == np.floor(array)).all():  # text files do not tell 3.0 from 3
        return array.astype(np.int64)
    return array.astype(str).astype(object) if array.dtype.kind == "b" else array


def _suits(meaning: str | None, values: "pd.Series[Any]") -> bool:
    """Whether a column can hold what its name says: a lone `prob` is a confidence, an `image` may be an image's bytes."""
    if meaning in _SEVERAL:
        return _holds_lists(values)
    return meaning != "ids" or values.dtype != object or not isinstance(values.iloc[0], (dict, bytes))


def _holds_lists(values: "pd.Series[Any]") -> bool:
    return values.dtype == object and isinstance(values.iloc[0], (list, np.ndarray))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(repr(name) for name in names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "")
