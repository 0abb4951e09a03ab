"""The option `--chart` of several commands."""

from pathlib import Path
from typing import Annotated, Any

import typer

from zoo.app.printing import note
from zoo.errors import InputError, ZooError

TYPES = (".html", ".svg", ".png", ".pdf", ".json")
ChartOption = Annotated[Path | None, typer.Option(help="Draw it too: FILE.html, .svg, .png, .pdf or .json.")]


def check_chart(path: Path | None) -> None:
    """Before the work rather than after it."""
    if path is None:
        return
    if path.suffix.lower() not in TYPES:
        raise InputError(f"--chart {path}: expected a name that ends in {', '.join(TYPES)}")
    if not path.absolute().parent.is_dir():
        raise InputError(f"--chart {path}: there is no folder {path.absolute().parent}")


def save_chart(chart: Any, path: Path) -> None:
    """Write an Altair chart in the form the file's name asks for."""
    try:
        chart.save(str(path))
    except (OSError, ValueError) as error:
        raise ZooError(f"--chart {path}: cannot be written: {getattr(error, 'strerror', None) or error}") from error
    note(f"wrote {path}")
