"""Dataclasses from the plain values of a YAML or JSON file, checked field by field against their annotations.

A field that is unknown, missing or of the wrong type is an error that names it by its path, such as `zoo.training.seed`.
Supported annotations: dataclasses, lists, tuples of one type, dicts with string keys, literals, unions with None, numbers,
booleans, strings, paths, and Any for whatever JSON can hold (no date, no NaN). Numbers have at most a hundred digits. A
renamed field gives the name that older files use: `field(metadata={"formerly": "old"})`.

pydantic is not used: its import and its schema of a card take 0.2 s of the 0.5 s that `zoo list` may take.
"""

import dataclasses
import functools
import math
import types
import typing
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from zoo.errors import InputError

Kind = TypeVar("Kind")
_MAX_PATH = 200  # characters of an unknown field's name in a message
_Convert = Callable[[Any], Any]  # raises an InputError; its `where` is the path within the value


def build(kind: type[Kind], values: Mapping[str, Any], where: str, root: str) -> Kind:
    """Return a dataclass made from plain values.

    Args:
        kind: the dataclass.
        values: its fields by name.
        where: the file, for errors.
        root: path of the values in the file, for errors.

    >>> @dataclasses.dataclass
    ... class Point:
    ...     x: float
    ...     y: float = 0.0
    >>> build(Point, {"x": 1}, "map.yaml", "origin")
    Point(x=1.0, y=0.0)
    >>> build(Point, {"x": "one"}, "map.yaml", "origin")
    Traceback (most recent call last):
    zoo.errors.InputError: map.yaml: origin.x: expected a number (got 'one')
    """
    try:
        instance: Kind = _converter(typing.cast(Any, kind))(values)
    except InputError as error:
        raise _at(root, error).inside(where) from None
    return instance


def plain(value: Any) -> Any:
    """Return a dataclass as dicts, lists and scalars, without fields that have their default: the reverse of `build`."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = ((f, getattr(value, f.name)) for f in dataclasses.fields(value))
        return {f.name: plain(item) for f, item in pairs if not _is_default(f, item)}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return value


def _is_default(f: dataclasses.Field[Any], value: Any) -> bool:
    if f.default is not dataclasses.MISSING:
        return bool(value == f.default)
    return f.default_factory is not dataclasses.MISSING and value == f.default_factory()


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return the differences between two plain descriptions as texts `path: old -> new`."""
    lines = []
    for key in sorted({*old, *new}):
        before, after = old.get(key), new.get(key)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            lines += [f"{key}.{line}" for line in differences(before, after)]
        elif before != after:
            lines.append(f"{key}: {before!r} -> {after!r}")
    return lines


@functools.cache
def _converter(hint: Any) -> _Convert:
    """Return the function that checks and converts a value for an annotation."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _to_dataclass(hint)
    if origin is Literal:
        return functools.partial(_to_literal, args)
    if origin in (types.UnionType, typing.Union):
        inner = _converter(next(arg for arg in args if arg is not type(None)))
        return lambda value: None if value is None else inner(value)
    if origin in (list, tuple):
        return functools.partial(_to_sequence, origin, _converter(args[0]))
    if origin is dict:
        return functools.partial(_to_dict, _converter(args[1]))
    return _SCALARS[hint]


def _at(part: str, error: InputError) -> InputError:
    """Put a part of a path in front of the path in an error. Paths are built only when an error is raised."""
    error.where = part + (error.where or "")
    return error


def _to_dataclass(kind: Any) -> _Convert:
    hints = typing.get_type_hints(kind)
    fields = dataclasses.fields(kind)
    convert = {f.name: _converter(hints[f.name]) for f in fields}
    renamed = {f.metadata["formerly"]: f.name for f in fields if "formerly" in f.metadata}
    required = [f.name for f in fields if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING]

    def to_dataclass(values: Any) -> Any:
        checked = {}
        for written, value in _mapping(values).items():
            name = renamed.get(written, written)
            if name not in convert:
                known = ", ".join(sorted(convert))
                raise InputError("unknown field", where=f".{str(written)[:_MAX_PATH]}", hint=f"Known fields: {known}")
            try:
                checked[name] = convert[name](value)
            except InputError as error:
                raise _at(f".{name}", error) from None
        for name in required:
            if name not in checked:
                raise InputError("missing field", where=f".{name}")
        return kind(**checked)

    return to_dataclass


def _to_literal(allowed: tuple[Any, ...], value: Any) -> Any:
    if value not in allowed:
        raise InputError(expected=f"one of {', '.join(map(str, allowed))}", found=value)
    return value


def _to_sequence(kind: Callable[[Any], Any], convert: _Convert, value: Any) -> Any:
    if not isinstance(value, (list, tuple)):
        raise InputError(expected="a list", found=value)
    items = []
    for i, item in enumerate(value):
        try:
            items.append(convert(item))
        except InputError as error:
            raise _at(f"[{i}]", error) from None
    return kind(items)


def _to_dict(convert: _Convert, value: Any) -> dict[str, Any]:
    items = {}
    for key, item in _mapping(value).items():
        if not isinstance(key, str):
            raise InputError(expected="a text key", found=key)
        try:
            items[key] = convert(item)
        except InputError as error:
            raise _at(f".{key}", error) from None
    return items


def _mapping(value: Any) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise InputError(expected="a mapping", found=value)
    return value


def _to_json(value: Any) -> Any:
    if isinstance(value, (list, tuple)):
        return _to_sequence(type(value), _to_json, value)
    if isinstance(value, Mapping):
        return _to_dict(_to_json, value)
    if value is None or isinstance(value, (str, bool)) or _is_number(value):
        return value
    raise InputError(expected="text, a finite number, true or false", found=value)


def _to_float(value: Any) -> float:
    if not _is_number(value):
        raise InputError(expected="a number", found=value)
    return float(value)


def _to_int(value: Any) -> int:
    if not _is_whole(value):
        raise InputError(expected="a whole number", found=value)
    return int(value)


def _to_bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise InputError(expected="true or false", found=value)
    return value


def _to_str(value: Any) -> str:
    if not isinstance(value, str):
        raise InputError(expected="text", found=value)
    return value


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**100


def _is_number(value: Any) -> bool:
    return (isinstance(value, float) and math.isfinite(value)) or _is_whole(value)


_SCALARS: dict[Any, _Convert] = {
    float: _to_float,
    int: _to_int,
    bool: _to_bool,
    str: _to_str,
    Path: lambda value: Path(_to_str(value)),
    Any: _to_json,
}
