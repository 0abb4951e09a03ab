"""What commands print: tables, numbers, text, notes and JSON. Every text is escaped here before a terminal sees it."""

import dataclasses
import itertools
import json
import math
import shutil
import sys
import textwrap
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from numbers import Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.cards.names import shared_ending
from zoo.core.text import as_text, wrap
from zoo.core.units import MISSING, is_missing

if TYPE_CHECKING:
    import pandas as pd

_GAP = 2  # spaces between the columns of a table
_NUMBER_WIDTH = 6  # of a number with four significant digits
_MIN_WRAPPED = 8  # a column whose texts are wrapped is not made narrower than this
_MAX_PROSE_WIDTH = 100
_NAME_COLUMNS = ("model", "first", "second", "base", "partner", "with", "highest with", "lowest with")

Format = Callable[[Any], str]


def width() -> int:
    """Return the number of columns of the terminal, 80 if there is none."""
    return shutil.get_terminal_size((80, 24)).columns


def print_text(text: object) -> None:
    """Print text that may contain names, classes or ids from files."""
    print(_escape_lines(text))


def note(text: object) -> None:
    """Print a remark on standard error, word-wrapped, so that standard output holds only the result."""
    lines = [fill(line) for line in _escape_lines(text).split("\n")]
    print("\n".join(lines), file=sys.stderr, flush=True)


def wrote(path: Path, about: str = "") -> None:
    """Say on one line which file was written."""
    print(f"wrote {as_text(path)}{about and f' ({as_text(about)})'}", file=sys.stderr, flush=True)


def fill(text: str, indent: str = "") -> str:
    """Return text word-wrapped to the terminal. `indent` starts the first line, spaces of its width the others."""
    return "\n".join(wrap(as_text(" ".join(text.split())), min(width(), _MAX_PROSE_WIDTH), indent))


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Print the package's own warnings as notes, each once, while the context is open."""
    from zoo.errors import ZooWarning

    printed: set[str] = set()
    with warnings.catch_warnings():
        show = warnings.showwarning

        def show_note(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
            if not issubclass(category, ZooWarning):
                show(message, category, *rest, **more)
            elif str(message) not in printed:
                printed.add(str(message))
                note(f"zoo: {message}")

        warnings.simplefilter("always", ZooWarning)
        warnings.showwarning = show_note
        yield


def print_json(value: Any) -> None:
    """Print strict JSON: NaN and infinities become null, arrays lists, paths texts.

    Characters that the terminal cannot encode, and bytes that are not UTF-8, are written as JSON escapes.
    """
    value = plain(value)
    text = json.dumps(value, indent=2, ensure_ascii=False, allow_nan=False)
    try:
        text.encode(sys.stdout.encoding or "ascii")
    except UnicodeEncodeError:
        text = json.dumps(value, indent=2, allow_nan=False)
    print(text)


def json_bytes(value: Any) -> bytes:
    """Return the contents of a .json file, written as `print_json` prints."""
    text = json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "backslashreplace") + b"\n"  # of a lone surrogate this is its JSON escape


def plain(value: Any) -> Any:
    """Return a value made of JSON's types: tables become lists of rows, dataclasses objects, arrays lists."""
    if hasattr(value, "to_dict") and not isinstance(value, type):
        return plain(value.to_dict(orient="records") if hasattr(value, "columns") else value.to_dict())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return plain({f.name: getattr(value, f.name) for f in dataclasses.fields(value)})
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, (list, tuple, set, frozenset)):
        return [plain(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Path):
        return str(value)
    return value


def cell(value: Any) -> str:
    """Return a value as a table shows it: floats with four significant digits, a dash for a missing value.

    >>> cell(0.123456), cell(12), cell(None), cell(True)
    ('0.1235', '12', '–', 'yes')
    """
    if is_missing(value):
        return MISSING
    if type(value).__name__ in ("bool", "bool_"):  # Python's or NumPy's
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else as_text(value)


def size(count: float) -> str:
    """Return a number of bytes with its unit.

    >>> size(532), size(2_500_000)
    ('532 B', '2.5 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def matrix_fits(frame: "pd.DataFrame") -> bool:
    """Return whether a matrix of numbers, with the names of its rows and columns, fits the terminal."""
    rows, columns = ([len(as_text(name)) for name in axis] for axis in (frame.index, frame.columns))
    return max(rows) + sum(max(length, _NUMBER_WIDTH) + _GAP for length in columns) <= width()


def records(frame: "pd.DataFrame") -> list[dict[str, Any]]:
    """Return the rows of a frame, by column."""
    return [{str(key): value for key, value in row.items()} for row in frame.to_dict("records")]


def print_table(
    rows: "Iterable[Mapping[str, Any]] | pd.DataFrame",
    columns: Sequence[str] | None = None,
    *,
    title: str | None = None,
    formats: Mapping[str, Format] | None = None,
    cut: Sequence[str] = (),
    rest: str = "--json prints everything",
) -> None:
    """Print rows as a table that fits the terminal.

    The ending that all model names share, such as .cifar10, is said once, in the header. A table that is too wide gets
    narrower: text columns are wrapped, then the last columns are left out, which a note says.

    Args:
        rows: the rows, by column, or a frame.
        columns: the columns to show, in order; default: those of the first row.
        title: line above the table.
        formats: how to write the values of a column; default `cell`.
        cut: columns whose texts are cut off if the table is too wide; then no column is wrapped.
        rest: what the note about left-out columns recommends.
    """
    records: list[Any] = rows.to_dict("records") if hasattr(rows, "to_dict") else list(rows)
    keys = list(columns or (records[0] if records else ()))
    formats = formats or {}
    texts = {key: [as_text(formats.get(key, cell)(row.get(key))) for row in records] for key in keys}
    is_text = {key: not (key in formats or any(_is_number(row.get(key)) for row in records)) for key in keys}
    headers = {key: as_text(key) for key in keys}
    _remove_shared_ending(texts, headers)
    natural = {key: max(map(len, [headers[key], *texts[key]])) for key in keys}
    gap = _GAP if not cut or sum(natural.values()) + _GAP * (len(keys) - 1) <= width() else 1
    widths = _fit(natural, headers, [key for key in keys if is_text[key]], cut, gap)
    if title is not None:
        print(fill(title) + "\n")
    for row in zip(*([headers[key], *texts[key]] for key in widths), strict=True):
        cells = [_wrap(text, room, key in cut) for text, (key, room) in zip(row, widths.items(), strict=True)]
        for parts in itertools.zip_longest(*cells, fillvalue=""):
            aligned = [
                f"{part:<{room}}" if is_text[key] else f"{part:>{room}}"
                for part, (key, room) in zip(parts, widths.items(), strict=True)
            ]
            print((" " * gap).join(aligned).rstrip())
    hidden = [headers[key] for key in keys if key not in widths]
    if hidden:
        note(f"not shown: {', '.join(hidden)}; {rest}")


def _fit(
    natural: Mapping[str, int], headers: Mapping[str, str], text_columns: list[str], cut: Sequence[str], gap: int
) -> dict[str, int]:
    """Return the width of each column that is shown: text columns are narrowed, then the last columns are left out."""
    keys = list(natural)
    while True:
        widths = {key: natural[key] for key in keys}
        excess = sum(widths.values()) + gap * (len(keys) - 1) - width()
        names = {*keys[:1], *(key for key in keys if key in _NAME_COLUMNS)}  # are wrapped last
        for group in [list(cut)] if cut else [[key for key in text_columns if key not in names], [*names]]:
            narrowest = {key: len(headers[key]) if cut else _MIN_WRAPPED for key in group if key in text_columns}
            while excess > 0 and (wide := [key for key in narrowest if key in widths and widths[key] > narrowest[key]]):
                widths[max(wide, key=widths.__getitem__)] -= 1
                excess -= 1
        if excess <= 0 or len(keys) <= 2:
            return widths
        keys.pop()


def _remove_shared_ending(texts: dict[str, list[str]], headers: dict[str, str]) -> None:
    """Remove the ending that all model names share, and add it to the header of the first column that has names.

    Names in parentheses, such as (ensemble), are not names of models.
    """
    named = [key for key in texts if key in _NAME_COLUMNS]
    names = [name for key in named for name in texts[key] if name != MISSING and not name.startswith("(")]
    ending = shared_ending(names) if len(set(names)) > 1 else ""
    if not ending:
        return
    for key in named:
        texts[key] = [name.removesuffix(ending) for name in texts[key]]
    headers[named[0]] = f"{headers[named[0]]} ({ending})"


def _wrap(text: str, room: int, cut: bool) -> list[str]:
    if len(text) <= room:
        return [text]
    return [f"{text[: room - 1]}…"] if cut else textwrap.wrap(text, room)


def _escape_lines(text: object) -> str:
    return "\n".join(map(as_text, str(text).split("\n")))


def _is_number(value: Any) -> bool:
    return isinstance(value, Real) and not isinstance(value, bool) and not is_missing(value)
