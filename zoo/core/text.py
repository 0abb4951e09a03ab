"""Texts from files (names, ids, messages), made safe for terminals, spreadsheets and storage."""

import re
import textwrap
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from zoo.core import settings
from zoo.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

# Control characters (escape sequences begin with one), marks that change the reading direction, and non-UTF-8 bytes.
_INVISIBLE = re.compile("[\x00-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_FORMULA = re.compile(r"[=+\-@\t\r]")
# Parts of a sentence that stay on one line: intervals, and numbers with their units. The report's script uses it too.
UNBROKEN = re.compile(
    r"((?:\d+% CI )?[-+]?[\d.,]+%? to [-+]?[\d.,]*\d%?|\b[prTρ] = [-\w.]*\w|[-+]?\d[\d.,]*(?: [kMG]B| points?| models?)\b)"
)


def as_text(value: Any) -> str:
    r"""Return a value as text that is safe to print, with control characters and invalid UTF-8 escaped.

    >>> print(as_text("red \x1b[31m \udce9"))
    red \x1b[31m \udce9
    """
    return _INVISIBLE.sub(lambda mark: mark[0].encode("unicode_escape").decode(), str(value))


def is_one_line(value: str) -> bool:
    """Return whether a text has no ASCII control characters, such as line breaks and terminal escapes."""
    return min(value, default=" ") >= " "


def wrap(text: str, width: int, indent: str = "", break_words: bool = False) -> list[str]:
    """Return text as lines, without breaking names, intervals, or numbers with their units.

    Args:
        text: the text.
        width: of the lines.
        indent: start of the first line; the others start with spaces of its width.
        break_words: whether to break words that are longer than a line.

    >>> wrap("The gain is 2.3 points (95% CI 1.6 to 2.9).", 30)
    ['The gain is 2.3 points', '(95% CI 1.6 to 2.9).']
    """
    glued = UNBROKEN.sub(lambda part: part[0].replace(" ", "\xa0"), " ".join(text.split()))
    lines = textwrap.wrap(
        glued, width, initial_indent=indent, subsequent_indent=" " * len(indent), break_long_words=break_words,
        break_on_hyphens=False,
    )  # fmt: skip
    return [line.replace("\xa0", " ") for line in lines]


def csv_cell(value: Any) -> Any:
    """Return a value that is safe in a spreadsheet: a text that would run as a formula gets an apostrophe in front.

    >>> csv_cell("=1+1"), csv_cell("cat"), csv_cell(-1.5)
    ("'=1+1", 'cat', -1.5)
    """
    return f"'{value}" if isinstance(value, str) and _FORMULA.match(value) else value


def csv_bytes(frame: "pd.DataFrame") -> bytes:
    """Return a table as the bytes of a .csv file, in which no text runs as a formula."""
    return frame.rename(columns=csv_cell).map(csv_cell).to_csv(index=False).encode("utf-8", "backslashreplace")


def check_storable(texts: Iterable[str], where: str) -> None:
    """Raise an error for a text that cannot be stored: not UTF-8, or longer than `ZOO_MAX_ID_BYTES`.

    Called before a long computation, whose result could otherwise not be saved.
    """
    texts = list(texts)
    limit = settings.max_id_bytes()
    try:
        if max(map(len, texts), default=0) * 4 > limit and any(len(text.encode()) > limit for text in texts):
            longest = max(texts, key=len)
            raise InputError(
                f"{as_text(longest[:40])!r}... is {len(longest.encode())} bytes long",
                where=where,
                expected=f"at most {limit}",
                hint="Shorten it, or raise ZOO_MAX_ID_BYTES",
            )
        "".join(texts).encode()
    except UnicodeEncodeError:
        bad = next(text for text in texts if any("\ud800" <= letter <= "\udfff" for letter in text))
        raise InputError(f"{as_text(bad)} is not UTF-8", where=where, hint="Rename it") from None


def check_unique(names: Iterable[str], where: str) -> None:
    """Raise an error that names the first duplicate."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise InputError(f"duplicate {name!r}", where=where)
        seen.add(name)
