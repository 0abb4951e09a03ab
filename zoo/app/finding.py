"""Where commands that compare models find the outputs, and the temperatures that go with them."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from zoo.app.printing import note

if TYPE_CHECKING:
    from zoo.calibration import CalibratedRuns
    from zoo.outputs import Runs

DataOption = Annotated[str | None, typer.Option(help="Dataset to report on: digits:test, folder:PATH, ...")]
SplitOption = Annotated[
    str | None,
    typer.Option(
        help="Where temperatures come from: a dataset, or a share such as 0.5 of the rows, which are then not reported. "
        "Default: the dataset's calibration split where it has one, else 0.5."
    ),
]


def find_runs(names: Sequence[str], data: str | None) -> "Runs":
    """Outputs of the models named: run here where they are not stored, or imported under a name no model has."""
    from zoo import registry
    from zoo.datasets import canonical
    from zoo.errors import MissingWeights, UnknownName
    from zoo.outputs import Outputs, Runs
    from zoo.runner import resolve, run
    from zoo.store import open_runs

    data = None if data is None else canonical(data)
    found: dict[str, Outputs] = {}
    for name in names:
        try:
            for model in resolve(name):
                registry.card(str(model))  # before the dataset, which imported outputs can do without
            found |= run(name, data=data)
        except (UnknownName, MissingWeights) as error:
            try:
                found |= open_runs(name, data)
            except UnknownName:
                raise error from None
    return Runs(found)


def calibrated(runs: "Runs", split: str | None) -> "CalibratedRuns":
    """The runs with temperatures from `split`, or from where the dataset suggests."""
    from zoo.calibration import calibrate as calibrate_runs
    from zoo.datasets import calibration_split
    from zoo.errors import UnknownName

    spec = next(iter(runs.values())).dataset or ""
    if split is not None:
        share = _number(split)
        return calibrate_runs(runs, find_runs(runs.names, split) if share is None else share)
    beside = calibration_split(spec) if spec else None
    if beside is not None:
        try:
            return calibrate_runs(runs, find_runs(runs.names, beside))
        except UnknownName:  # imported outputs of a model that cannot be run here
            note(f"no outputs on {beside}; half of the rows are used for the temperatures instead")
    return calibrate_runs(runs, 0.5)


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None
