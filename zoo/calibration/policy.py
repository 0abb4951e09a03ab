"""Where temperatures come from: one rule for Python, the command line, the report and the demo.

1. Outputs have no temperature until `calibrate` gives them one, even if they were calibrated earlier: the same call gives
   the same numbers whatever was done before. Without a temperature, T is 1.
2. `calibrate(runs, temperatures_from=...)` uses the given source and nothing else: a fraction of the examples,
   which are then not reported; a dataset that the same models are run on (same weights, transform, precision and home);
   other runs; `"stored"`, the temperatures that an earlier call recorded with stored outputs; or `"cross-fit"`.
3. By default it uses the calibration split of the dataset, if there is one and every model has outputs there or can be run.
   Otherwise it cross-fits: the examples are divided into five folds, and the temperature of each fold is fitted on the other
   four. All examples are reported, and none is scored at a temperature that it helped to fit. Outputs of more than
   `MAX_CROSS_FITTED` numbers per model stay on disk and are divided into two halves instead.
4. A search for an ensemble chooses on one part of the examples and tests on the other. It refits cross-fitted temperatures
   on the first part alone (`refit_for_selection`), so that no test label affects a choice or a probability.
5. A temperature that was fitted on other examples is recorded with stored outputs, together with the split, its number of
   rows, a digest of their ids and labels, the link, and whether a bound stopped the fit. The record is used on request only.
6. The result says what was done: `CalibratedRuns.population`, and `Outputs.calibration` for each model.

Splits and folds depend on the ids of the examples, on which examples share a class, and on the seed; never on the order of
models, rows or classes.
"""

import sys
from typing import TYPE_CHECKING

from zoo.errors import InputError, MissingWeights, UnknownName

if TYPE_CHECKING:
    from zoo.outputs.outputs import Outputs, Runs

FOLDS = 5
HALF = 0.5
MAX_CROSS_FITTED = 2**24
STORED = "stored"
CROSS_FIT = "cross-fit"


def default_source(runs: "Runs") -> "tuple[float | str | Runs, str]":
    """Return the default source of temperatures, and the reason if the dataset's calibration split cannot be used."""
    first = next(iter(runs.values()))
    split = _calibration_split(first.dataset)
    reason = ""
    if split is not None:
        try:
            return same_models_on(runs, split), ""
        except (UnknownName, MissingWeights):  # imported outputs, or a model that cannot be run here
            reason = f"not all models have outputs on {split}"
    size = max((len(outputs) * len(outputs.classes) for outputs in runs.values()), default=0)
    return (HALF if size > MAX_CROSS_FITTED else CROSS_FIT), reason


def same_models_on(runs: "Runs", data: str) -> "Runs":
    """Return outputs of the same models on other data: same weights, precision and home."""
    from zoo.outputs.outputs import Runs

    return Runs(_same_model_on(outputs, data) for outputs in runs.values())


def _same_model_on(outputs: "Outputs", data: str) -> "Outputs":
    from zoo.outputs.store import open_runs
    from zoo.outputs.store.layout import IMPORTED, RANDOM, resize_mode
    from zoo.runs.runner import run

    weights = str(outputs.details.get("weights", IMPORTED))
    home = None if outputs.path is None else outputs.path.parents[2]  # <home>/outputs/<dataset>/<model>
    if weights.startswith(IMPORTED):  # there may be no model of that name
        runs = open_runs(f"{outputs.name}@import", data, home)
    else:
        runs = run(
            f"{outputs.name}@run",
            data=data,
            pretrained=not weights.startswith(RANDOM),
            precision=outputs.details.get("precision", "float32"),
            embeddings=False,
            resize_mode=resize_mode(str(outputs.details.get("transform", ""))),
            home=home,
            progress=sys.stderr.isatty(),  # not requested by name, so a log does not mention it
        )
    (one,) = runs.values()
    return one


def _calibration_split(spec: str | None) -> str | None:
    from zoo.datasets import calibration_split

    try:
        return None if spec is None else calibration_split(spec)
    except (InputError, UnknownName):  # imported outputs may be on an unknown dataset
        return None
