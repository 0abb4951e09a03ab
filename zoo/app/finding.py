"""Where commands that compare models find the outputs, and the temperatures that go with them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from zoo.app.printing import note

if TYPE_CHECKING:
    from zoo.calibration import CalibratedRuns
    from zoo.outputs.outputs import Runs

DataOption = Annotated[str | None, typer.Option(help="Dataset to report on: digits:test, folder:PATH, ...")]
SplitOption = Annotated[
    str | None,
    typer.Option(
        help="Where temperatures come from: a dataset, a share such as 0.5 of the rows, which are then not reported, or "
        "'stored'. Default: the dataset's calibration split where it has one, else 0.5."
    ),
]


def find_runs(names: Sequence[str], data: str | None) -> "Runs":
    """Outputs of the models named: stored, imported, or run here."""
    from zoo.runs.runner import run

    return run(names, data=data)


def calibrated(runs: "Runs", split: str | None, temperature_space: str = "logits") -> "CalibratedRuns":
    """The runs with temperatures from `split`, or from where the rule says; which rows that leaves is printed."""
    from zoo.calibration import calibrate

    share = None if split is None else _number(split)
    found = calibrate(runs, split if share is None else share, temperature_space=temperature_space)  # type: ignore[arg-type]  # checked there
    note(found.population)
    return found


def population(runs: "Runs") -> str:
    """Which examples a result is on, in words."""
    return getattr(runs, "population", "") or f"all {len(next(iter(runs.values()))):,} examples"


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
