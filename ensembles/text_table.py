"""Tables of models as text, at most 80 characters wide where names allow it."""

from collections.abc import Mapping, Sequence

from zoo.cards.names import shared_ending

WIDTH = 80


def text_table(columns: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the lines of a table with a column `model`.

    The dataset in which all names end is printed once, in the title. Names that are still too long lose their middle; two
    different names are never cut to the same text, even if the table becomes wider than 80 characters.

    >>> print(*text_table({"model": ["a.cifar10", "b.cifar10"], "accuracy": ["0.91", "0.9"]}), sep="\\n")
    model (.cifar10)  accuracy
    a                     0.91
    b                      0.9
    """
    ending = shared_ending(columns["model"])
    names = shorten(
        [name.removesuffix(ending) for name in columns["model"]],
        WIDTH - sum(max(len(title), *map(len, cells)) + 2 for title, cells in columns.items() if title != "model"),
    )
    title = f"model ({ending})" if ending else "model"
    shown = {title if name == "model" else name: names if name == "model" else cells for name, cells in columns.items()}
    widths = {name: max(len(name), *map(len, cells)) for name, cells in shown.items()}
    rows = zip(*([name, *cells] for name, cells in shown.items()), strict=True)
    lines = []
    for row in rows:
        cells = [
            cell.ljust(width) if name in (title, "category") else cell.rjust(width)
            for cell, (name, width) in zip(row, widths.items(), strict=True)
        ]
        lines.append("  ".join(cells).rstrip())
    return lines


def shorten(names: Sequence[str], width: int) -> list[str]:
    """Return names without their middle if they are longer than `width`, or than the width that keeps them distinct.

    >>> shorten(["resnet50-cosine", "resnet50-softmax"], 9), shorten(["ab-x-cd", "ab-y-cd"], 5)
    (['resn…sine', 'resn…tmax'], ['ab-x-cd', 'ab-y-cd'])
    """
    for limit in range(max(3, width), max(map(len, names), default=0)):
        cut = [_without_middle(name, limit) for name in names]
        if len(set(cut)) == len(set(names)):
            return cut
    return list(names)


def _without_middle(name: str, width: int) -> str:
    """Return a name without its middle: the end often distinguishes two models."""
    return name if len(name) <= width else f"{name[: width - 1 - width // 2]}…{name[-(width // 2) :]}"
