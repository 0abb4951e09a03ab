"""Dataclasses from the plain values of a YAML or JSON file, checked field by field against their annotations.

A field that is unknown, missing or of the wrong type is an error that names it by its path, `zoo.training.seed`. The
annotations understood are the ones data files need: dataclasses, lists, tuples of one type, string-keyed dicts, literals,
unions with None, numbers, booleans, strings, paths and Any, which stands for what JSON can hold: no date, no NaN. No number
has more than a hundred digits. A field that older files call by another name says so: `field(metadata={"formerly": "old"})`.
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
_LONGEST_SHOWN = 200


class _Mismatch(Exception):
    """A value its annotation does not allow. Containers prepend their part of the path only when one is raised."""

    def __init__(self, problem: str, path: str = "") -> None:
        super().__init__(problem)
        self.problem, self.path = problem, path

    def inside(self, part: str) -> "_Mismatch":
        return _Mismatch(self.problem, part + self.path)


def build(kind: type[Kind], values: Mapping[str, Any], where: str, root: str) -> Kind:
    """A `kind` from plain values; `where` names the file and `root` the path of the values in it, for the error message.

    >>> @dataclasses.dataclass
    ... class Point:
    ...     x: float
    ...     y: float = 0.0
    >>> build(Point, {"x": 1}, "map.yaml", "origin")
    Point(x=1.0, y=0.0)
    >>> build(Point, {"x": "one"}, "map.yaml", "origin")
    Traceback (most recent call last):
    zoo.errors.InputError: map.yaml: field 'origin.x' must be a number, found 'one'
    """
    try:
        made: Kind = _converter(typing.cast(Any, kind))(values)
    except _Mismatch as bad:
        raise InputError(f"{where}: field '{root}{bad.path}' {bad.problem}") from None
    return made


def plain(value: Any) -> Any:
    """The reverse of `build`: dicts, lists and scalars, without the fields that have their default value."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        pairs = ((f, getattr(value, f.name)) for f in dataclasses.fields(value))
        return {f.name: plain(item) for f, item in pairs if not is_default(f, item)}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    return value


def is_default(f: dataclasses.Field[Any], value: Any) -> bool:
    """Whether `value` is what the field has when it is left out."""
    if f.default is not dataclasses.MISSING:
        return bool(value == f.default)
    return f.default_factory is not dataclasses.MISSING and value == f.default_factory()


@functools.cache
def _converter(hint: Any) -> Callable[[Any], Any]:
    """The function that checks and converts one value for an annotation; made once per annotation."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return _to_dataclass(hint)
    if origin is Literal:
        return _to_literal(args)
    if origin in (types.UnionType, typing.Union):
        inner = _converter(next(arg for arg in args if arg is not type(None)))
        return lambda value: None if value is None else inner(value)
    if origin in (list, tuple):
        return _to_sequence(origin, _converter(args[0]))
    if origin is dict:
        return _to_dict(_converter(args[1]))
    return _SCALARS[hint]


def _to_dataclass(kind: Any) -> Callable[[Any], Any]:
    hints = typing.get_type_hints(kind)
    fields = dataclasses.fields(kind)
    convert = {f.name: _converter(hints[f.name]) for f in fields}
    renamed = {f.metadata["formerly"]: f.name for f in fields if "formerly" in f.metadata}
    required = [f.name for f in fields if f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING]

    def to_dataclass(values: Any) -> Any:
        if not isinstance(values, Mapping):
            raise _Mismatch(f"must be a mapping, found {_shown(values)}")
        checked = {}
        for written, value in values.items():
            name = renamed.get(written, written) if isinstance(written, str) else written
            if name not in convert:
                raise _Mismatch(
                    f"is unknown; known fields: {', '.join(sorted(convert))}",
                    f".{name[:_LONGEST_SHOWN]}" if isinstance(name, str) else f"[{_shown(name)}]",
                )
            try:
                checked[name] = convert[name](value)
            except _Mismatch as bad:
                raise bad.inside(f".{name}") from None
        for name in required:
            if name not in checked:
                raise _Mismatch("is missing", f".{name}")
        try:
            return kind(**checked)
        except InputError as error:  # what a dataclass checks about its own fields taken together
            raise _Mismatch(str(error)) from None

    return to_dataclass


def _to_literal(allowed: tuple[Any, ...]) -> Callable[[Any], Any]:
    def to_literal(value: Any) -> Any:
        if value not in allowed:
            raise _Mismatch(f"is {_shown(value)}, expected one of {', '.join(map(str, allowed))}")
        return value

    return to_literal


def _to_sequence(kind: Callable[[Any], Any], inner: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def to_sequence(value: Any) -> Any:
        if not isinstance(value, (list, tuple)):
            raise _Mismatch(f"must be a list, found {_shown(value)}")
        items = []
        for i, item in enumerate(value):
            try:
                items.append(inner(item))
            except _Mismatch as bad:
                raise bad.inside(f"[{i}]") from None
        return kind(items)

    return to_sequence


def _to_dict(inner: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def to_dict(value: Any) -> Any:
        if not isinstance(value, Mapping):
            raise _Mismatch(f"must be a mapping, found {_shown(value)}")
        items = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise _Mismatch(f"has the key {_shown(key)}, expected text")
            try:
                items[key] = inner(item)
            except _Mismatch as bad:
                raise bad.inside(f".{key}") from None
        return items

    return to_dict


def _to_float(value: Any) -> float:
    if (not isinstance(value, float) and not _is_whole(value)) or not math.isfinite(value):
        raise _Mismatch(f"must be a number, found {_shown(value)}")
    return float(value)


def _to_int(value: Any) -> int:
    if not _is_whole(value):
        raise _Mismatch(f"must be a whole number, found {_shown(value)}")
    return int(value)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**100


def _to_bool(value: Any) -> bool:
    if not isinstance(value, bool):
        raise _Mismatch(f"must be true or false, found {_shown(value)}")
    return value


def _to_str(value: Any) -> str:
    if not isinstance(value, str):
        raise _Mismatch(f"must be text, found {_shown(value)}")
    return value


def differences(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """What differs between two plain descriptions, as `field: old -> new`, nested fields by their path."""
    found = []
    for key in sorted({*old, *new}):
        before, after = old.get(key), new.get(key)
        if isinstance(before, Mapping) and isinstance(after, Mapping):
            found += [f"{key}.{line}" for line in differences(before, after)]
        elif before != after:
            found.append(f"{key}: {before!r} -> {after!r}")
    return found


def _to_plain(value: Any) -> Any:
    """What JSON can hold, as it is."""
    if isinstance(value, (list, tuple)):
        return _to_sequence(type(value), _to_plain)(value)
    if isinstance(value, Mapping):
        return _to_dict(_to_plain)(value)
    if value is None or isinstance(value, (str, bool)) or _is_whole(value):
        return value
    if not isinstance(value, float) or not math.isfinite(value):
        raise _Mismatch(f"must be text, a finite number, true or false, found {_shown(value)}")
    return value


def _shown(value: Any) -> str:
    """The value as an error message shows it, cut short."""
    try:
        text = repr(value)
    except (ValueError, RecursionError):  # an integer of more digits than Python prints
        text = f"a huge {type(value).__name__}"
    return text if len(text) <= _LONGEST_SHOWN else f"{text[:_LONGEST_SHOWN]}..."


_SCALARS: dict[Any, Callable[[Any], Any]] = {
    float: _to_float,
    int: _to_int,
    bool: _to_bool,
    str: _to_str,
    Path: lambda value: Path(_to_str(value)),
    Any: _to_plain,
}
