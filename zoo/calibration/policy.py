"""Where temperatures come from: the one rule of the API, the commands, the report and the demonstration.

1. Outputs have no temperature, whether they were just computed, imported or read from disk, and whoever calibrated them
   before: the same call gives the same numbers whatever was done earlier. Their probabilities are those at T = 1.
2. `calibrate(runs, split)` with a split fits there and nowhere else. A share of the runs' own rows is fitted on and not
   reported; a dataset is run by the very same models: same weights, transform, precision and home; other runs are taken as
   they are; `"stored"` takes the temperatures that an earlier `calibrate` has left beside stored outputs.
3. Without a split: the calibration split of the runs' dataset, where it has one and every model has outputs there or can be
   run; else half of the rows.
4. A temperature fitted on other examples is recorded beside stored outputs, with the split, its number of rows, the digest
   of their ids and labels, the link and whether a bound stopped the fit. The record is never applied unasked.
5. The result says what was done: `CalibratedRuns.population`, and `Outputs.calibration` for each model.
"""

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from zoo.errors import InputError, MissingWeights, UnknownName

if TYPE_CHECKING:
    from zoo.outputs.outputs import Outputs, Runs

SHARE = 0.5
STORED = "stored"


def default_split(runs: "Runs") -> "tuple[float | Runs, str]":
    """What the rule chooses where no split was named, and why, where that calls for a word."""
    beside = _beside(next(iter(runs.values())).dataset)
    if beside is None:
        return SHARE, ""
    try:
        return same_models_on(runs, beside), ""
    except (UnknownName, MissingWeights):  # imported outputs, or of a model that cannot be run here
        return SHARE, f"there are no outputs of all models on {beside}"


def same_models_on(runs: "Runs", data: str) -> "Runs":
    """Outputs of the same models on other data: same weights, precision and home; `check_apart` compares the rest."""
    from zoo.outputs.outputs import Runs

    return Runs(_same_model_on(outputs, data) for outputs in runs.values())


def _same_model_on(outputs: "Outputs", data: str) -> "Outputs":
    from zoo.outputs.store import open_runs
    from zoo.outputs.store.layout import IMPORTED, resize_mode
    from zoo.runs.runner import run

    made = str(outputs.details.get("weights", IMPORTED))
    home = None if outputs.path is None else _home(outputs.path)
    if made.startswith(IMPORTED):  # no model of that name need have made them
        found = open_runs(f"{outputs.name}@import", data, home)
    else:
        found = run(
            f"{outputs.name}@run",
            data=data,
            pretrained=not made.startswith("random:"),
            precision=outputs.details.get("precision", "float32"),
            embeddings=False,
            resize_mode=resize_mode(str(outputs.details.get("transform", ""))),
            home=home,
            progress=sys.stderr.isatty(),  # nobody asked for this run by name: a log is not told of it, a person is
        )
    (one,) = found.values()
    return one


def _home(path: Path) -> Path:
    return path.parents[2]  # <home>/outputs/<dataset>/<model>


def _beside(spec: str | None) -> str | None:
    from zoo.datasets import calibration_split

    try:
        return None if spec is None else calibration_split(spec)
    except (InputError, UnknownName):  # imported outputs may be on a dataset that is not known here
        return None
