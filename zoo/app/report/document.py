"""What a report is made of, whatever it is written as: findings, sections, figures, tables, images."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Finding:
    """A sentence worth knowing and the number it turns on."""

    number: str
    sentence: str
    warning: bool = False
    section: str = ""  # the id of the one it comes from


@dataclass(frozen=True)
class Figure:
    """A chart (an Altair chart, whose data travel inside it) with its title and what to look for in it."""

    id: str
    title: str
    caption: str
    chart: Any
    wide: bool = False


@dataclass(frozen=True)
class Table:
    """Rows as mappings from column to value; `percent` names the columns that hold shares."""

    id: str
    title: str
    rows: list[dict[str, Any]]
    percent: frozenset[str] = frozenset()
    filterable: bool = False

    @property
    def columns(self) -> list[str]:
        """The columns in which some row has a value."""
        return [name for name in (self.rows[0] if self.rows else []) if any(row[name] is not None for row in self.rows)]

    def is_number(self, column: str) -> bool:
        values = [row[column] for row in self.rows if row[column] is not None]
        return bool(values) and all(isinstance(value, (int, float)) for value in values)


@dataclass(frozen=True)
class Thumbnail:
    """A thumbnail as a data URI and what the models said about it."""

    uri: str
    lines: list[str]
    name: str


@dataclass(frozen=True)
class Section:
    """A chapter; `population` says on which examples its figures and tables are."""

    id: str
    title: str
    lead: str
    population: str = ""
    figures: list[Figure] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    images: list[Thumbnail] = field(default_factory=list)


@dataclass(frozen=True)
class Part:
    """A section with what is worth saying first of it, and its numbers as plain data."""

    section: Section
    findings: list[Finding] = field(default_factory=list)
    numbers: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Document:
    """A whole report; `numbers` holds every figure in it as plain data."""

    title: str
    subtitle: str
    findings: list[Finding]
    sections: list[Section]
    provenance: dict[str, str]
    numbers: dict[str, Any]
    evidence: Any = None  # what it was made from, for a page that goes on computing


def shown(value: Any, percent: bool = False) -> str:
    """A value as the page prints it: shares as percent with one decimal, other numbers with three digits.

    >>> shown(0.125, percent=True), shown(0.9), shown(602)
    ('12.5%', '0.900', '602')
    """
    if value is None or value != value:
        return ""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if percent:
        return f"{100 * value:.1f}%"
    return f"{value:,}" if isinstance(value, int) else f"{value:#.3g}"
