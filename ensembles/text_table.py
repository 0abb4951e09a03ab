"""Tables of models as text, at most 80 characters wide where names allow it; scores as text."""

import textwrap
from collections.abc import Callable, Mapping, Sequence

from zoo.cards.names import shared_ending
from zoo.core.text import wrap
from zoo.core.units import MISSING, interval, percent, points

WIDTH = 80


def text_table(columns: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the lines of a table with a column `model`.

    A dataset that ends every name is printed once, in the title. Names that are still too long are wrapped.

    >>> print(*text_table({"model": ["a.cifar10", "b.cifar10"], "accuracy": ["0.91", "0.9"]}), sep="\\n")
    model (.cifar10)  accuracy
    a                     0.91
    b                      0.9
    """
    ending = shared_ending(columns["model"])
    title = f"model ({ending})" if ending else "model"
    others = sum(max(len(name), *map(len, cells)) + 2 for name, cells in columns.items() if name != "model")
    room = max(WIDTH - others, len(title))
    rows = [[title if name == "model" else name for name in columns]]
    for row in zip(*columns.values(), strict=True):
        cells = dict(zip(columns, row, strict=True))
        first, *more = textwrap.wrap(cells["model"].removesuffix(ending), room) or [""]
        rows.append([*(cells | {"model": first}).values()])
        rows += [[line if name == "model" else "" for name in columns] for line in more]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    left = [name in ("#", "model", "differs in") for name in columns]
    return [
        "  ".join(f"{cell:{'<' if at else '>'}{width}}" for cell, width, at in zip(row, widths, left, strict=True)).rstrip()
        for row in rows
    ]


def score_text(objective: str) -> Callable[[float], str]:
    """Return the format of scores: accuracies in percent, losses and custom objectives as numbers.

    >>> score_text("accuracy")(0.9123), score_text("nll")(0.9123)
    ('91.2%', '0.9123')
    """
    return percent if objective.endswith("accuracy") else "{:.4f}".format


def gain_text(objective: str) -> Callable[[float], str]:
    """Return the format of gains: in percentage points if scores are in percent.

    >>> gain_text("accuracy")(0.023), gain_text("nll")(0.023)
    ('+2.3', '+0.0230')
    """
    return points if objective.endswith("accuracy") else "{:+.4f}".format


def ends_text(ends: Sequence[float] | None, objective: str) -> str:
    """Return the ends of the confidence interval of a gain.

    >>> ends_text((0.01, 0.03), "accuracy"), ends_text((0.01, 0.03), "nll")
    ('1.0 to 3.0', '0.0100 to 0.0300')
    """
    if ends is None or objective.endswith("accuracy"):
        return interval(ends, None)
    return MISSING if ends[0] != ends[0] else "{:.4f} to {:.4f}".format(*ends)


def wrapped(text: str, indent: str = "") -> list[str]:
    """Return a sentence as lines."""
    return wrap(text, WIDTH, indent)
