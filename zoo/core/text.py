"""Names, ids and messages that come from files: shown, stored and exported as text, whatever they hold."""

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from zoo.core import limits
from zoo.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

# Controls (escape sequences begin with one), marks that reverse the reading direction, and bytes that are not UTF-8.
_UNSEEN = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_FORMULA = re.compile(r"[=+\-@\t\r]")


def as_text(value: Any) -> str:
    r"""`value` as a terminal may be given it: nothing that moves the cursor, changes colours or cannot be encoded.

    >>> print(as_text("red \x1b[31m \udce9"))
    red \x1b[31m \udce9
    """
    return _UNSEEN.sub(lambda mark: mark[0].encode("unicode_escape").decode(), str(value))


def csv_cell(value: Any) -> Any:
    """`value` as a spreadsheet may be given it: a text that it would run as a formula gets an apostrophe before it.

    >>> csv_cell("=1+1"), csv_cell("cat"), csv_cell(-1.5)
    ("'=1+1", 'cat', -1.5)
    """
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


def csv_bytes(frame: "pd.DataFrame") -> bytes:
    """A frame as a .csv file whose texts no spreadsheet runs."""
    return frame.rename(columns=csv_cell).map(csv_cell).to_csv(index=False).encode("utf-8", "backslashreplace")


def check_storable(texts: Iterable[str], where: str) -> None:
    """An error, before any work, for a text that could not be stored after it: not UTF-8, or longer than any name is."""
    texts = list(texts)
    most = limits.bound("ZOO_MAX_ID_BYTES")
    try:
        if max(map(len, texts), default=0) * 4 > most and any(len(text.encode()) > most for text in texts):
            long = max(texts, key=len)
            raise InputError(
                f"{where}: {as_text(long[:40])!r}... is {len(long.encode())} bytes long, expected at most {most}; shorten "
                "it, or raise ZOO_MAX_ID_BYTES"
            )
        "".join(texts).encode()
    except UnicodeEncodeError:
        bad = next(text for text in texts if any("\ud800" <= letter <= "\udfff" for letter in text))
        raise InputError(f"{where}: {as_text(bad)} is not UTF-8; rename it") from None


def check_unique(names: Iterable[str], where: str) -> None:
    """An error that names the first entry given twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(f"{where}: {name!r} is given twice")
        seen.add(name)
