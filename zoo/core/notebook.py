"""HTML for notebooks: tables, and small charts as inline SVG. Every text is escaped; colours suit light and dark themes."""

import html
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from zoo.core.text import as_text

COLOURS = ("#0072b2", "#e69f00", "#56b4e9", "#999999")
MAX_ROWS = 20  # of a table
MAX_CELLS = 40**2  # of a heatmap


def escaped(value: Any) -> str:
    """Return a value as text that is safe inside HTML.

    >>> escaped("<b>")
    '&lt;b&gt;'
    """
    return html.escape(as_text(value))


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> str:
    """Return a table of the first `MAX_ROWS` rows, without a header if `columns` is empty.

    A cell is a value, or a list of one fraction, which is shown with a bar.

    >>> table(["model", "accuracy"], [["a", [0.5]]]).count("<td")
    2
    """
    every = list(rows)
    titles = "".join(f"<th style='text-align:left'>{escaped(column)}</th>" for column in columns)
    head = f"<thead><tr>{titles}</tr></thead>" if titles else ""
    body = "".join(f"<tr>{''.join(map(_cell, row))}</tr>" for row in every[:MAX_ROWS])
    more = f"<p>and {len(every) - MAX_ROWS:,} more</p>" if len(every) > MAX_ROWS else ""
    return f"<table>{head}<tbody>{body}</tbody></table>{more}"


def facts(values: Mapping[str, Any]) -> str:
    """Return a table of names and values; values of None are left out."""
    return table([], [[name, value] for name, value in values.items() if value is not None])


def _cell(value: Any) -> str:
    if isinstance(value, list):
        (fraction,) = value
        bar = f"<rect width='{80 * min(max(fraction, 0), 1):.1f}' height='10' fill='{COLOURS[0]}'/>"
        text = f"{_svg(80, 10, bar, f'{fraction:.1%}')} {fraction:.1%}"
    else:
        text = "" if value is None else escaped(value)
    return f"<td style='text-align:left;white-space:nowrap'>{text}</td>"


def lines(series: Mapping[str, Sequence[float]]) -> str:
    """Return a line chart of one value per step, in percent; later series are dashed.

    >>> lines({"test": [0.5, 0.75]}).count("<polyline")
    1
    """
    values = [value for one in series.values() for value in one]
    low, high = min(values), max(values)
    width, height, left = 300, 120, 48
    steps = max(max(map(len, series.values())) - 1, 1)
    parts = []
    for number, (name, one) in enumerate(series.items()):
        points = [
            f"{left + width * i / steps:.1f},{8 + height * (high - value) / (high - low or 1):.1f}"
            for i, value in enumerate(one)
        ]
        dash = " stroke-dasharray='4 4'" if number else ""
        parts.append(f"<polyline points='{' '.join(points)}' fill='none' stroke='{COLOURS[number]}'{dash}/>")
        parts.append(_text(left + width + 8, 14 + 16 * number, name, COLOURS[number]))
    parts += [_text(0, 14, f"{high:.1%}"), _text(0, height + 10, f"{low:.1%}")]
    parts += [_text(left, height + 26, "1"), _text(left + width - 10, height + 26, str(steps + 1))]
    return _svg(left + width + 90, height + 32, "".join(parts), ", ".join(series))


def parts(counts: Mapping[str, int]) -> str:
    """Return a stacked bar of the counts, with a legend."""
    total, at, bars, legend = max(sum(counts.values()), 1), 0.0, [], []
    for (name, count), colour in zip(counts.items(), COLOURS, strict=False):
        width = 400 * count / total
        bars.append(f"<rect x='{at:.1f}' width='{width:.1f}' height='16' fill='{colour}'/>")
        mark = f"<span style='color:{colour}'>■</span>"
        legend.append(f"<span style='white-space:nowrap'>{mark} {escaped(name)} {count:,} ({count / total:.1%})</span>")
        at += width
    return f"<p>{_svg(400, 16, ''.join(bars), ', '.join(counts))}<br>{' '.join(legend)}</p>"


def heatmap(names: Sequence[str], values: Sequence[Sequence[float]], title: str) -> str:
    """Return a matrix of fractions [M, M] as coloured cells with tooltips, for the first `MAX_CELLS` ** 0.5 models."""
    kept = range(min(len(names), int(MAX_CELLS**0.5)))
    largest = max((values[i][j] for i in kept for j in kept if i != j), default=0) or 1
    side = 16
    left = 8 + 7 * max((len(names[i]) for i in kept), default=0)
    cells = [
        f"<rect x='{left + side * j}' y='{side * i}' width='{side}' height='{side}' fill='{COLOURS[0]}' "
        f"fill-opacity='{min(values[i][j] / largest, 1):.3f}'><title>{escaped(names[i])}, {escaped(names[j])}: "
        f"{values[i][j]:.1%}</title></rect>"
        for i in kept
        for j in kept
    ]
    labels = [_text(0, side * i + 12, names[i]) for i in kept]
    rest = f"; the first {len(kept)} of {len(names)} models" if len(kept) < len(names) else ""
    caption = f"<p>{escaped(title)}: from 0% (no colour) to {largest:.1%}{rest}</p>"
    return caption + _svg(left + side * len(kept), side * len(kept), "".join(labels + cells), title)


def _text(x: float, y: float, text: str, colour: str = "currentColor") -> str:
    return f"<text x='{x}' y='{y}' fill='{colour}' font-size='12'>{escaped(text)}</text>"


def _svg(width: float, height: float, inside: str, title: str) -> str:
    return f"<svg width='{width}' height='{height}' role='img' aria-label='{escaped(title)}'>{inside}</svg>"
