"""How commands print: tables that fit the terminal, JSON on request, notes on standard error."""

import dataclasses
import json
import math
import sys
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from zoo.core.text import as_text

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")]


def note(text: str) -> None:
    """A line about what is going on, on standard error so that standard output stays the result."""
    print("\n".join(map(as_text, text.split("\n"))), file=sys.stderr, flush=True)


@contextmanager
def warnings_as_notes() -> Iterator[None]:
    """Inside, our own warnings are lines on standard error, each once, without the source line Python would show."""
    from zoo.errors import ZooWarning

    said: set[str] = set()
    with warnings.catch_warnings():
        show = warnings.showwarning

        def as_note(message: Warning | str, category: type[Warning], *rest: Any, **more: Any) -> None:
            if not issubclass(category, ZooWarning):
                show(message, category, *rest, **more)
            elif str(message) not in said:
                said.add(str(message))
                note(f"zoo: {message}")

        warnings.simplefilter("always", ZooWarning)
        warnings.showwarning = as_note
        yield


def print_json(value: Any) -> None:
    """Strict JSON: NaN and infinities become null, arrays lists, paths strings."""
    print(json.dumps(plain(value), indent=2, ensure_ascii=False, allow_nan=False))


def plain(value: Any) -> Any:
    """`value` in JSON's own types."""
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


def print_table(rows: Iterable[Mapping[str, Any]], columns: Sequence[str] | None = None, title: str | None = None) -> None:
    """A table of the rows; numbers right-aligned, missing values as a dash; plain text with no colour when piped."""
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = list(rows)
    columns = list(columns or (rows[0] if rows else []))
    table = Table(title=title, box=SIMPLE_HEAD, title_justify="left", pad_edge=False)
    for column in columns:
        numeric = any(isinstance(row.get(column), (int, float)) for row in rows)
        table.add_column(Text(as_text(column)), justify="right" if numeric else "left", overflow="fold")
    for row in rows:
        # as Text, since a name may hold what Rich would take for its markup
        table.add_row(*(Text(as_text(cell(row.get(column)))) for column in columns))
    Console(highlight=False).print(table)


def cell(value: Any) -> str:
    """A value as a table shows it: four significant digits, a dash for nothing."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, bool) or not isinstance(value, float):
        return str(value)
    return f"{value:.4g}"


def size(count: float) -> str:
    """Bytes as people read them.

    >>> size(532), size(2_500_000)
    ('532 B', '2.5 MB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"
