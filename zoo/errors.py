"""The errors users meet. Each carries facts as fields; its message is composed from them.

    raise InputError(argument="steps", expected="at least 1", found=0)
    -> steps must be at least 1 (got 0).

    raise InputError("has NaN logits", where="a.csv: row 3", hint="Remove the row, or mask a class with -inf")
    -> a.csv: row 3: has NaN logits. Remove the row, or mask a class with -inf.

The command line shows an argument as its option: `--steps must be at least 1 (got 0).`
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Self

# An argument in a hint, with or without a value: "Pass {steps=1}." or "{replace} allows repetition."
_ARGUMENT = re.compile(r"\{([a-z_]+)(?:=([^{}]*))?\}")
_MAX_SHOWN = 200  # characters of a value in a message


class ZooError(Exception):
    """Base of every error the package raises on purpose. The command line prints it as one line, exit code 1.

    Args:
        problem: what is wrong, as a clause without a full stop. Left out if `expected` and `found` say everything.
        where: the file, model, row or field at fault.
        argument: the parameter at fault, by its Python name.
        expected: what the argument must be, as a phrase that follows "must be".
        found: the value that was passed instead. A message with a `problem` does not repeat it.
        hint: what to do next, as a sentence without a full stop. `{name=value}` refers to an argument.
    """

    exit_code = 1

    def __init__(
        self,
        problem: str = "",
        *,
        where: object = None,
        argument: str | None = None,
        expected: str | None = None,
        found: Any = None,
        hint: str | None = None,
    ) -> None:
        self.problem = problem
        self.where = None if where is None else str(where)
        self.argument = argument
        self.expected = expected
        self.found = found
        self.hint = hint
        self.options: Mapping[str, str] = {}  # how the command line calls each argument
        self.in_contents = False  # whether the argument is part of the file at `where`, not an option
        super().__init__(problem)

    def inside(self, where: object, contents: bool = False) -> Self:
        """Return this error with an outer place in front of its own: a file in front of a row.

        Args:
            where: the outer place.
            contents: whether the argument at fault is in the file, so that it is not shown as an option.
        """
        self.where = str(where) if self.where is None else f"{where}: {self.where}"
        self.in_contents |= contents
        return self

    def __str__(self) -> str:
        options = {} if self.in_contents else self.options
        argument = self.argument and options.get(self.argument, self.argument)
        parts = [self.where, argument if self.problem else None, self._statement(argument)]
        message = ": ".join(part for part in parts if part)
        if not self.hint:
            return message
        return f"{message.rstrip('.')}. {_ARGUMENT.sub(self._as_option, self.hint)}"

    def _statement(self, argument: str | None) -> str:
        if self.problem:
            return f"{self.problem}; expected {self.expected}" if self.expected else self.problem
        got = "" if self.found is None else f" (got {_shown(self.found)})"
        subject = f"{argument} must be" if argument else "expected"
        return f"{subject} {self.expected}{got}" if self.expected else type(self).__name__

    def _as_option(self, match: re.Match[str]) -> str:
        name, value = match.groups()
        if f"{name}={value}" in self.options:  # a flag that switches something off
            return self.options[f"{name}={value}"]
        if name not in self.options:
            return name if value is None else f"{name}={value}"
        option = self.options[name]
        return option if value in (None, "", "True") else f"{option} {value}"

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (type(self), self.__dict__)


def _restored(kind: type[ZooError], fields: dict[str, Any]) -> ZooError:
    """Rebuild an error that comes from another process."""
    error = kind.__new__(kind, fields["problem"])
    error.__dict__.update(fields)
    return error


class InputError(ZooError, ValueError):
    """An argument, array, file or name that cannot be used (exit code 2)."""

    exit_code = 2


class UnknownName(InputError):
    """A name that does not exist; the message suggests similar ones.

    Args:
        kind: what the name should name, such as "model" or "dataset".
        name: the unknown name.
        suggestions: similar names that exist. The hint offers them, before a hint of the caller's.
    """

    def __init__(
        self, problem: str = "", *, kind: str = "name", name: str = "", suggestions: Sequence[str] = (), **fields: Any
    ) -> None:
        self.kind, self.name, self.suggestions = kind, name, tuple(suggestions)
        if not problem and "expected" not in fields:
            problem = f"unknown {kind} {name!r}"
        if suggestions:
            offer = f"Did you mean {' or '.join(map(repr, suggestions))}?"
            fields["hint"] = f"{offer} {fields['hint']}" if fields.get("hint") else offer
        super().__init__(problem, found=fields.pop("found", name), **fields)


class MissingWeights(ZooError):
    """Weights that are not on this machine and cannot be downloaded now."""


class CorruptFile(ZooError):
    """A stored file whose contents do not match its checksum or format. It is set aside, never deleted."""


class ZooWarning(UserWarning):
    """Something the user should know although the result is correct."""


def _shown(value: Any) -> str:
    try:
        text = repr(value) if isinstance(value, str) else str(value)
    except (ValueError, RecursionError):  # an integer with more digits than Python prints, or a list that contains itself
        text = f"a huge {type(value).__name__}"
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]}..."
