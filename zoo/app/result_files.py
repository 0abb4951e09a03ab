"""The files of `-o/--output`: checked before the work begins, written by their ending."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.app.terminal import json_bytes, wrote
from zoo.errors import InputError, ZooError

if TYPE_CHECKING:
    import pandas as pd

TABLE, NUMBERS = ".csv", ".json"
CHARTS = (".html", ".svg", ".png", ".pdf", ".vl.json")  # the last is the chart's Vega-Lite specification


def check_output(path: Path, endings: Sequence[str]) -> None:
    """Raise an error unless a file has one of these endings and lies in a folder that exists."""
    if ending(path, endings) is None:
        raise InputError(argument="output", expected=f"a file that ends in {', '.join(endings)}", found=str(path))
    folder = path.absolute().parent
    if not folder.is_dir():
        raise InputError(f"no such folder: {folder}", argument="output")


def ending(path: Path, endings: Sequence[str]) -> str | None:
    """Return the longest of the endings that a file has, or None."""
    return max((one for one in endings if path.name.lower().endswith(one)), key=len, default=None)


def write_result(
    path: Path, value: Any, table: "pd.DataFrame | None" = None, chart: Callable[[], Any] | None = None
) -> None:
    """Write a result in the form that the file's ending names.

    Args:
        path: the file, which `check_output` has checked.
        value: contents of a .json file.
        table: contents of a .csv file.
        chart: returns the Altair chart.
    """
    from zoo.core import files
    from zoo.core.text import csv_bytes

    form = ending(path, (TABLE, NUMBERS, *CHARTS))
    if form in CHARTS:
        assert chart is not None  # the ending was checked
        save_chart(chart(), path)
        return
    if form == TABLE:
        assert table is not None
        files.write(path, csv_bytes(table))
    else:
        files.write(path, json_bytes(value))
    wrote(path)


def save_chart(chart: Any, path: Path) -> None:
    """Write an Altair chart in the form that the file's ending names."""
    try:
        chart.save(str(path), format=(ending(path, CHARTS) or path.suffix).rpartition(".")[2].lower())
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise ZooError(f"cannot be written: {reason}", where=path, argument="output") from error
    wrote(path)
