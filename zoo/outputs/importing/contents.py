"""The contents of a file or frame, by model and meaning: `{"logits": ..., "labels": ..., "ids": ...}`.

The meaning of numbers is declared: by `kind`, or by the name of their array or column. Only two forms are recognised without
a declaration: rows of non-negative numbers that all sum to one are probabilities, and columns of zeros with one 1 in each
row are labels. Arrays and columns of unknown meaning are left out with a warning that names them.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from zoo.core.arrays import SUM_TOLERANCE
from zoo.errors import InputError
from zoo.outputs.importing import column_names
from zoo.outputs.kinds import KINDS

if TYPE_CHECKING:
    import pandas as pd

Parts: TypeAlias = dict[str, Any]
_WIDE_KINDS = ("logits", "probabilities", "embeddings")  # several numbers per example
PRESENT = "present"  # among the parts of a table: which rows [N] have no empty cell
_MAX_LISTED = 8


@dataclass(frozen=True)
class Reading:
    """How to read one source: the user's declarations."""

    where: str  # name of the source in messages
    kind: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)  # meaning -> column
    classes: Sequence[str] | None = None
    drop_missing: bool = False  # whether to drop rows with empty cells
    left_out: dict[str, list[str]] = field(default_factory=dict)  # unused columns, in words -> the sources that have them

    def meaning(self, name: str) -> str | None:
        """Return what an array or column holds: as declared, else as its name says."""
        declared = next((meaning for meaning, column in self.columns.items() if column == name), None)
        if declared is not None:
            return declared
        found = column_names.meaning(name)
        return None if found in self.columns else found  # another column was declared to hold this

    def check(self, names: Sequence[str]) -> None:
        """Raise an error for a declared column that does not exist."""
        for meaning, column in self.columns.items():
            if meaning not in column_names.MEANINGS:
                expected = f"MEANING=NAME with one of the meanings {', '.join(column_names.MEANINGS)}"
                raise InputError(argument="columns", expected=expected, found=f"{meaning}={column}")
            if column not in names:
                problem = f"no column {column!r} for the {meaning}; found {_listed(names)}"
                raise InputError(problem, where=self.where, argument="columns")

    def undeclared(self, names: Sequence[str], what: str) -> InputError:
        """Return the error that asks for the kind of arrays or columns."""
        listed = f"{what}{'s' * (len(names) > 1)} {_listed(names)}" if any(names) else f"the {what}"
        return InputError(
            f"the meaning of {listed} is unknown",
            where=self.where,
            hint=f"Declare it with {{kind}} ({', '.join(KINDS)}), or name a column with {{columns=predictions=NAME}}",
        )

    def leave_out(self, names: Sequence[str], what: str) -> None:
        """Note that arrays or columns are not used, for one warning about all sources."""
        self.left_out.setdefault(f"{what} of unknown meaning left out: {_listed(names)}", []).append(self.where)

    def ambiguous(self, names: Sequence[str], meaning: str) -> InputError:
        """Return the error for several arrays or columns with the same meaning."""
        return InputError(
            f"{_listed(names)} could all be the {meaning}",
            where=self.where,
            hint=f"Choose one with {{columns={meaning}=NAME}}",
        )


def of_arrays(arrays: Mapping[str, np.ndarray], reading: Reading) -> Iterator[tuple[str | None, Parts]]:
    """Yield (model, parts) for each model among named arrays; the model is None if no array's name contains it."""
    reading.check(list(arrays))
    shared: Parts = {}
    models: dict[str, Parts] = {}
    unknown: list[str] = []
    for name, values in arrays.items():
        meaning, in_model = reading.meaning(name), column_names.of_model(name)
        if meaning is not None:
            _put(shared, meaning, name, values, reading)
        elif in_model is not None:
            _put(models.setdefault(in_model[0], {}), in_model[1], name, values, reading)
        else:
            unknown.append(name)
    if unknown and not models and not _has_outputs(shared, reading):
        kind = reading.kind
        fitting = [name for name in unknown if _can_hold(arrays[name], kind)]
        if kind is None:
            fitting = [name for name in fitting if _sums_to_one(arrays[name])]
            kind = "probabilities"
            if not fitting:
                raise reading.undeclared(unknown, "array")
        if len(unknown) == 1:
            shared[kind], unknown = arrays[unknown[0]], []
        else:
            models = {name: {kind: arrays[name]} for name in fitting}
            unknown = [name for name in unknown if name not in models]
    if unknown:
        reading.leave_out(unknown, "arrays")
    common = {meaning: values for meaning, values in shared.items() if meaning not in KINDS}
    if any(kind in shared for kind in KINDS) or not models:
        yield None, shared
    for name, parts in models.items():
        yield name, common | parts


def _can_hold(values: np.ndarray, kind: str | None) -> bool:
    """Return whether an array has the dimensions of a kind of outputs."""
    if kind == "probabilities":  # [N]: of the positive class alone
        return np.ndim(values) == 2 or (np.ndim(values) == 1 and np.asarray(values).dtype.kind == "f")
    return bool(np.ndim(values) == (1 if kind == "predictions" else 2))


def _has_outputs(parts: Mapping[str, Any], reading: Reading) -> bool:
    """Return whether outputs are among the parts. Embeddings count only if no other kind is declared."""
    return any(kind in parts for kind in KINDS if kind != "embeddings" or reading.kind in (None, kind))


def _put(parts: Parts, meaning: str, name: str, values: np.ndarray, reading: Reading) -> None:
    """Add an array under its meaning, after correcting the meaning by the array's shape."""
    if meaning == "targets" and np.ndim(values) == 1:
        meaning = "labels"
    if meaning == "labels" and np.ndim(values) == 2 and _is_one_hot(np.asarray(values)):
        values = np.asarray(values).argmax(1)
    if meaning == "predictions" and (np.ndim(values) == 2 or reading.kind == "probabilities"):
        meaning = _kind_of_scores(name, values, reading)  # Keras calls all outputs predictions
    if meaning in parts:
        raise reading.ambiguous([name, f"another array of {meaning}"], meaning)
    parts[meaning] = values


def _kind_of_scores(name: str, values: np.ndarray, reading: Reading) -> str:
    if reading.kind in ("logits", "probabilities"):
        return reading.kind
    if np.shape(values)[1] == 1 and bool(((np.asarray(values) >= 0) & (np.asarray(values) <= 1)).all()):
        return "probabilities"  # of the positive class
    if _sums_to_one(values):
        return "probabilities"
    problem = f"{name!r} has shape {list(np.shape(values))}, one number per class"
    raise InputError(problem, where=reading.where, hint="Say with {kind} whether they are logits or probabilities")


def of_table(table: "pd.DataFrame", reading: Reading) -> Iterator[tuple[str | None, Parts]]:
    """Yield (model, parts) for each model in a table with one row per example, or per model and example."""
    table = table.rename(columns=str)
    if len(table) == 0:
        raise InputError("has no rows", where=reading.where)
    names = table.columns.tolist()
    column_names.check_unique(names, reading.where)
    reading.check(names)
    single, wide, loose = _roles(table, reading)
    models = loose if reading.kind == "predictions" and "predictions" not in single else []
    if not models:
        loose = _assign_loose(loose, single, wide, table, reading)
        if loose:
            reading.leave_out(loose, "columns")
    _check_missing(table, single, reading)
    if models:
        common = _of_rows(table, single, {kind: wide[kind] for kind in ("labels",) if kind in wide}, reading)
        for column in models:
            _check_missing(table, {"predictions": column}, reading)
            parts = _of_rows(table, {"predictions": column}, {}, reading)
            yield column, common | parts | {PRESENT: common[PRESENT] & parts[PRESENT]}
    elif "model" in single:
        column = single.pop("model")
        for name, rows in table.groupby(column, sort=False, observed=True):
            yield str(name), _of_rows(rows, single, wide, reading)
    else:
        yield None, _of_rows(table, single, wide, reading)


def _check_missing(table: "pd.DataFrame", columns: Mapping[str, str], reading: Reading) -> None:
    """Raise an error for an empty cell in the columns {meaning: column}, unless rows with empty cells are dropped."""
    for meaning, column in columns.items() if not reading.drop_missing else ():
        missing = table[column].isna().to_numpy()
        if missing.any():
            raise InputError(
                f"row {int(missing.argmax())} has no {column} ({int(missing.sum())} of {len(table)} rows)",
                where=reading.where,
                hint=f"Fill in its {meaning}, or drop such rows on import with {{drop_missing=True}}",
            )


def _roles(table: "pd.DataFrame", reading: Reading) -> tuple[dict[str, str], dict[str, dict[str, str]], list[str]]:
    """Return the columns by role: {meaning: column}, {kind: {class: column}} for one column per class, and the rest."""
    class_names = set(reading.classes or ())
    class_columns = class_names if class_names <= set(table.columns) else set()
    candidates: dict[str, list[str]] = {}
    wide: dict[str, dict[str, str]] = {}
    loose = []
    for column in table.columns:
        meaning, per_class = reading.meaning(column), column_names.class_column(column)
        if column in class_columns or not _suits(meaning, table[column], reading.kind):
            loose.append(column)
        elif meaning is not None:
            candidates.setdefault(meaning, []).append(column)
        elif per_class is not None and per_class[0] != "predictions":  # `pred_time` may hold anything
            wide.setdefault(per_class[0], {})[per_class[1]] = column
        else:
            loose.append(column)
    single = {}
    for meaning, columns in candidates.items():
        if len(columns) > 1 and meaning not in ("ids", "model"):
            raise reading.ambiguous(columns, meaning)
        single[meaning] = min(columns, key=column_names.rank) if len(columns) > 1 else columns[0]
    one_hot = wide.get("labels")
    if one_hot is not None and ("labels" in single or not _is_one_hot(table[list(one_hot.values())].to_numpy())):
        loose += wide.pop("labels").values()
    return single, {kind: _in_order(by_class) for kind, by_class in wide.items()}, loose


def _assign_loose(
    loose: list[str], single: dict[str, str], wide: dict[str, dict[str, str]], table: "pd.DataFrame", reading: Reading
) -> list[str]:
    """Give columns of unknown meaning the declared kind or the one their values show; return the columns left over."""
    from pandas.api.types import is_numeric_dtype

    numeric = [column for column in loose if is_numeric_dtype(table[column])]
    positive = _positive_column(numeric, single, wide, table, reading)
    if positive is not None:
        single["probabilities"] = positive
    elif not _has_outputs({**single, **wide}, reading):
        if not loose:
            raise InputError(
                f"no outputs among its columns {_listed(table.columns.tolist())}",
                where=reading.where,
                hint="Name the column that holds them with {columns=predictions=NAME}",
            )
        predicted = _predicted_by_class(numeric)
        by_class = predicted or _by_class(numeric)
        values = table[list(by_class.values())].to_numpy()
        kind = reading.kind or ("probabilities" if _sums_to_one(values) else None)
        if kind is None and predicted and _is_one_hot(values):
            kind = "predictions"
        if not numeric or kind is None:
            raise reading.undeclared(loose, "column")
        wide[kind] = by_class
    elif "labels" not in {*single, *wide}:
        one_hot = next((set(wide[kind]) for kind in ("probabilities", "logits") if kind in wide), set())
        if one_hot and one_hot <= set(numeric) and _is_one_hot(table[sorted(one_hot)].to_numpy()):
            wide["labels"] = {column: column for column in numeric if column in one_hot}
    used = {*single.values(), *(column for columns in wide.values() for column in columns.values())}
    return [column for column in loose if column not in used]


def _positive_column(
    numeric: list[str],
    single: Mapping[str, str],
    wide: Mapping[str, Mapping[str, str]],
    table: "pd.DataFrame",
    reading: Reading,
) -> str | None:
    """Return the column with the probability of the positive class, if there is one.

    In a table with predictions, a single probability may be the confidence in the predicted class instead. It is the
    positive class's only if one class is predicted wherever it exceeds 1/2, and another one elsewhere.
    """
    columns = [column for column in numeric if reading.meaning(column) in ("probabilities", "predictions")]
    if len(columns) != 1 or {"logits", "probabilities"} & {*single, *wide} or reading.kind not in (None, "probabilities"):
        return None
    p = table[columns[0]].to_numpy()
    if not ((p >= 0) & (p <= 1)).all() or ("predictions" in single and not positive_class(table[single["predictions"]], p)):
        return None
    return columns[0]


def positive_class(predictions: Any, p: np.ndarray) -> str | None:
    """Return the class whose probability `p` [N] is: the one predicted exactly where `p` exceeds 1/2. None if there is none.

    >>> positive_class(["dog", "cat", "dog"], np.array([0.9, 0.2, 0.6])), positive_class([1, 0], np.array([0.9, 0.8]))
    ('dog', None)
    """
    names = np.asarray(predictions).astype(str)
    above, below = set(names[p > 0.5].tolist()), set(names[p < 0.5].tolist())
    return above.pop() if len(above) == len(below) == 1 and above != below else None


def _sums_to_one(values: Any) -> bool:
    """Return whether numbers [N, K] can only be probabilities: every row sums to one, and not all are 0 or 1."""
    array = np.asarray(values)
    if array.ndim != 2 or array.shape[1] < 2 or not len(array) or array.dtype.kind != "f":
        return False
    tolerance = SUM_TOLERANCE if array.dtype.itemsize < 4 else 1e-3
    sums = array.sum(1, dtype=np.float64)
    return bool((array >= 0).all() and (np.abs(sums - 1) <= tolerance).all() and ((array > 0) & (array < 1)).any())


def _is_one_hot(values: np.ndarray) -> bool:
    if values.ndim != 2 or values.shape[1] < 2 or values.dtype.kind not in "biuf":
        return False
    return bool(((values == 0) | (values == 1)).all() and (values.sum(1) == 1).all())


def _predicted_by_class(columns: list[str]) -> dict[str, str]:
    """Return {class: column} of columns such as `pred_cat` and `pred_dog`; empty if there is only one."""
    named = {column: column_names.class_column(column) for column in columns}
    found = {name[1]: column for column, name in named.items() if name is not None and name[0] == "predictions"}
    return _in_order(found) if len(found) > 1 else {}


def _in_order(by_class: dict[str, str]) -> dict[str, str]:
    """Return {class: column} in the order of the numbers if the classes are 0, 1, ...: labels may be class indices."""
    numbers = [str(k) for k in range(len(by_class))]
    return {name: by_class[name] for name in numbers} if by_class.keys() == set(numbers) else by_class


def _by_class(columns: list[str]) -> dict[str, str]:
    """Return {class: column}. The class is the column's name, or its number if the columns are called `p0`, `p1`, ..."""
    matches = [re.fullmatch(r"(.*?)(\d+)", column) for column in columns]
    if len({match and match[1] for match in matches}) == 1 and matches[0] is not None:
        by_number = {str(int(match[2])): column for match, column in zip(matches, columns, strict=True) if match}
        if by_number.keys() == {str(k) for k in range(len(columns))}:
            return _in_order(by_number)
    return dict(zip(columns, columns, strict=True))


def _of_rows(
    table: "pd.DataFrame", single: Mapping[str, str], wide: Mapping[str, Mapping[str, str]], reading: Reading
) -> Parts:
    columns = list(single.values())
    empty = table[columns].isna().any(axis=1).to_numpy()
    if empty.any():  # these rows are dropped later; until then they are filled, so that the columns keep their types
        table = table.assign(**table[columns].ffill().bfill())
    parts: Parts = {meaning: _column(table[column], f"{reading.where} {column}") for meaning, column in single.items()}
    parts[PRESENT] = ~empty
    if "predictions" in parts and "probabilities" in parts and np.ndim(parts["probabilities"]) == 1:
        parts["positive_class"] = positive_class(parts["predictions"], parts["probabilities"])
    for kind, by_class in wide.items():
        values = table[list(by_class.values())].to_numpy()
        if kind in ("labels", "predictions"):  # one-hot
            names = list(by_class)
            numbered = names == [str(k) for k in range(len(names))]
            parts[kind] = values.argmax(1) if numbered else np.array(names)[values.argmax(1)]
            parts.setdefault("classes", names)
            continue
        if values.dtype.kind not in "biuf":
            bad = next(column for column in by_class.values() if table[column].dtype.kind not in "biuf")
            example = next((cell for cell in table[bad] if isinstance(cell, str)), table[bad].iloc[0])
            raise InputError(f"column {bad!r} holds {str(example)[:40]!r}", where=reading.where, expected="numbers")
        parts[kind] = values if values.dtype.kind == "f" else values.astype(np.float64)
        if kind == "probabilities" and len(by_class) == 1:
            (parts["positive_class"],) = by_class
        elif kind != "embeddings":
            parts["classes"] = list(by_class)
    return parts


def _column(values: "pd.Series[Any]", where: str) -> np.ndarray:
    if _holds_lists(values):
        lengths = {len(value) for value in values}
        if len(lengths) > 1:
            raise InputError(f"rows have different lengths ({min(lengths)} to {max(lengths)})", where=where)
        return np.array([np.asarray(value) for value in values])
    array = values.to_numpy()
    if array.dtype.kind == "f" and (array == np.floor(array)).all():  # text files do not tell 3.0 from 3
        return array.astype(np.int64)
    return array.astype(str).astype(object) if array.dtype.kind == "b" else array


def _suits(meaning: str | None, values: "pd.Series[Any]", kind: str | None) -> bool:
    """Return whether a column can hold what its name says: `prob` needs lists, `image` may hold the bytes of an image."""
    if meaning in _WIDE_KINDS:
        return _holds_lists(values)
    if meaning == "predictions" and kind == "probabilities":  # of the positive class, as Keras predicts them
        return values.dtype.kind != "f"
    return meaning != "ids" or values.dtype != object or not isinstance(values.iloc[0], (dict, bytes))


def _holds_lists(values: "pd.Series[Any]") -> bool:
    return values.dtype == object and isinstance(values.iloc[0], (list, np.ndarray))


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _MAX_LISTED} more" if len(names) > _MAX_LISTED else ""
    return ", ".join(repr(name) for name in names[:_MAX_LISTED]) + more
