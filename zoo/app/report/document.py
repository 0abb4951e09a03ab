"""The parts of a report, whatever file it is written to: findings, sections, figures, tables and images."""

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from zoo.core.units import interval, short_number

if TYPE_CHECKING:
    from zoo.app.report.analysis import Analysis


@dataclass(frozen=True)
class Finding:
    """A result in one or two plain sentences, and the number they are about."""

    title: str
    number: str
    sentence: str
    warning: bool = False
    headline: bool = False  # a card at the top of the page; other findings are listed below the cards
    section: str = ""  # id of the section it comes from


@dataclass(frozen=True)
class Figure:
    """A chart (an Altair chart, or a Vega-Lite specification) with its data inside, a title, and how to read it."""

    id: str
    title: str
    caption: str
    chart: Any
    wide: bool = False


@dataclass(frozen=True)
class Table:
    """Rows as mappings from column to value. A value that is a pair of numbers is an interval.

    Args:
        percent: columns of fractions, shown as percentages.
        points: columns of differences of fractions, shown as percentage points with their sign.
        large: columns of large counts, shown with a unit such as M.
        filterable: whether the page offers a filter, a choice of columns, and shows the first rows only.
        hidden: columns that the page shows on request only.
    """

    id: str
    title: str
    rows: list[dict[str, Any]]
    percent: frozenset[str] = frozenset()
    points: frozenset[str] = frozenset()
    large: frozenset[str] = frozenset()
    filterable: bool = False
    hidden: frozenset[str] = frozenset()

    @property
    def columns(self) -> list[str]:
        """The columns in which some row has a value."""
        return [name for name in (self.rows[0] if self.rows else []) if any(row[name] is not None for row in self.rows)]

    def is_number(self, column: str) -> bool:
        values = [row[column] for row in self.rows if row[column] is not None]
        return bool(values) and all(isinstance(value, (int, float, tuple)) for value in values)

    def text(self, row: dict[str, Any], column: str) -> str:
        """Return a cell as the page prints it."""
        value = row[column]
        if column in self.large and value is not None:
            return short_number(value)
        return shown(value, column in self.percent, column in self.points)

    def sort_key(self, row: dict[str, Any], column: str) -> str:
        """Return the exact number that a numeric column is sorted by, empty for a missing value."""
        value = row[column][0] if isinstance(row[column], tuple) else row[column]
        return "" if value is None or value != value else repr(value)


@dataclass(frozen=True)
class Thumbnail:
    """An image as a data URI, the id of its example, and lines about it."""

    uri: str
    lines: list[str]
    name: str


@dataclass(frozen=True)
class Section:
    """A chapter. `population` says which examples its figures and tables are about."""

    id: str
    title: str
    lead: str
    population: str = ""
    figures: list[Figure] = field(default_factory=list)
    tables: list[Table] = field(default_factory=list)
    images: list[Thumbnail] = field(default_factory=list)


@dataclass(frozen=True)
class Part:
    """A section with its findings, and its numbers as plain data."""

    section: Section
    findings: list[Finding] = field(default_factory=list)
    numbers: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Document:
    """A complete report. `numbers` holds everything in it as plain data, `analysis` the outputs it was computed from."""

    title: str
    subtitle: str
    findings: list[Finding]
    sections: list[Section]
    provenance: dict[str, str]
    numbers: dict[str, Any]
    analysis: "Analysis"


def shown(value: Any, percent: bool = False, points: bool = False) -> str:
    """Return a value as the page prints it: fractions as percent with one decimal, other numbers with three digits.

    >>> shown(0.125, percent=True), shown(0.9), shown(602), shown(0.023, points=True), shown((0.1, 0.2), percent=True)
    ('12.5%', '0.900', '602', '+2.3', '10.0 to 20.0')
    """
    if isinstance(value, tuple):
        return interval(value, None) if percent or points else " to ".join(map(shown, value))
    if value is None or value != value:
        return ""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return str(value)
    if points:
        return f"{100 * value:+z.1f}"
    if percent:
        return f"{100 * value:.1f}%"
    return f"{value:,}" if isinstance(value, int) else f"{value:#.3g}"
