"""Numbers as sentences and tables print them: percentages, percentage points, confidence intervals, counts."""

import math
from collections.abc import Sequence
from typing import Any

MISSING = "–"
UNITS = {"T": 1e12, "G": 1e9, "M": 1e6, "k": 1e3}


def is_missing(value: Any) -> bool:
    return value is None or (isinstance(value, float) and math.isnan(value))


def percent(value: float | None, digits: int = 1) -> str:
    """Return a fraction in percent.

    >>> percent(0.9123), percent(None)
    ('91.2%', '–')
    """
    return MISSING if is_missing(value) else f"{100 * float(value):z.{digits}f}%"  # type: ignore[arg-type]


def points(value: float | None) -> str:
    """Return a difference of two fractions in percentage points, with its sign.

    >>> points(0.023), points(-0.004)
    ('+2.3', '-0.4')
    """
    return MISSING if is_missing(value) else f"{100 * float(value):+z.1f}"  # type: ignore[arg-type]


def compared(value: float) -> str:
    """Return a difference of two fractions in words, to be followed by a name.

    >>> compared(0.023), compared(-0.004)
    ('2.3 points above', '0.4 points below')
    """
    return f"{100 * abs(value):.1f} points {'below' if value < 0 else 'above'}"


def interval(ends: Sequence[Any] | None, level: float | None = 0.95, digits: int = 1) -> str:
    """Return a confidence interval of a fraction, in percent or percentage points; if `level` is None, only its ends.

    >>> interval((0.9, 0.922)), interval((0.014, 0.032), level=None)
    ('95% CI 90.0 to 92.2', '1.4 to 3.2')
    """
    if ends is None or any(map(is_missing, ends)):
        return MISSING
    low, high = (f"{100 * float(end):z.{digits}f}" for end in ends if end is not None)
    return f"{low} to {high}" if level is None else f"{level * 100:g}% CI {low} to {high}"


def estimate(value: float | None, ends: Sequence[Any] | None, digits: int = 1) -> str:
    """Return a fraction in percent with its confidence interval; the title of the table states the level.

    >>> estimate(0.912, (0.9, 0.922)), estimate(0.01234, (0.01, 0.015), digits=2)
    ('91.2% (90.0 to 92.2)', '1.23% (1.00 to 1.50)')
    """
    limits = interval(ends, None, digits)
    text = percent(value, digits)
    return text if MISSING in (text, limits) else f"{text} ({limits})"


def count(number: int, noun: str) -> str:
    """Return a number with its noun in the right form.

    >>> count(1, "model"), count(1200, "example")
    ('1 model', '1,200 examples')
    """
    return f"{number:,} {noun}{'s' * (number != 1)}"


def short_number(value: float) -> str:
    """Return a large number, such as a count of parameters, with its unit.

    >>> short_number(2_345_678), short_number(11_173_962), short_number(12)
    ('2.35M', '11.2M', '12')
    """
    unit = next((unit for unit, size in UNITS.items() if abs(value) >= size), "")
    return f"{value / UNITS.get(unit, 1):.3g}{unit}"
