"""Robustness: ImageNet models on V2, A, R and Sketch, and on corrupted images by mCE (Kornblith et al. 2021, Table C.2).

A and R cover 200 classes; their datasets know which, and predictions are made among these alone.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from zoo import datasets
from zoo.datasets import Dataset
from zoo.errors import CorruptFile, InputError, ZooError, ZooWarning
from zoo.models.model import Model
from zoo.outputs.outputs import Runs
from zoo.runs import runner

# Top-1 errors of AlexNet, means over the five severities, as published with ImageNet-C (Hendrycks and Dietterich 2019).
ALEXNET_ERRORS = {
    "gaussian_noise": 0.886428,
    "shot_noise": 0.894468,
    "impulse_noise": 0.922640,
    "defocus_blur": 0.819880,
    "glass_blur": 0.826268,
    "motion_blur": 0.785948,
    "zoom_blur": 0.798360,
    "snow": 0.866816,
    "frost": 0.826572,
    "fog": 0.819324,
    "brightness": 0.564592,
    "contrast": 0.853204,
    "elastic_transform": 0.646056,
    "pixelate": 0.717840,
    "jpeg_compression": 0.606500,
}
SEVERITIES = (1, 2, 3, 4, 5)
SETS = ("in-v2", "in-a", "in-r", "in-sketch", "in-c")
MCE = "in-c-mce"  # the column of `in-c`, as cards call it


def mean_corruption_error(errors: Mapping[str, Any]) -> float:
    """mCE: the errors on each of the fifteen corruptions relative to AlexNet's, averaged over corruptions; AlexNet has 1.

    `errors` maps a corruption to its five top-1 errors (shares, one per severity). The papers give mCE in per cent.

    >>> round(mean_corruption_error({name: [error / 2] * 5 for name, error in ALEXNET_ERRORS.items()}), 6)
    0.5
    """
    missing = [name for name in ALEXNET_ERRORS if name not in errors]
    unknown = [name for name in errors if name not in ALEXNET_ERRORS]
    if missing or unknown:
        found = f"no {', '.join(missing)}" if missing else f"{unknown[0]!r}, which is not among them"
        raise InputError(f"errors: expected the fifteen corruptions that mCE is made of, found {found}")
    ratios = [_severities(errors[name], name).mean() / alexnet for name, alexnet in ALEXNET_ERRORS.items()]
    return float(np.mean(ratios))


def robustness(
    models: "str | Model | Sequence[str | Model]",
    sets: Sequence[str] = SETS,
    run: Callable[..., Runs] = runner.run,
    **options: Any,
) -> pd.DataFrame:
    """A table over models: top-1 accuracy on each set, and for `in-c` the mCE, in the column `in-c-mce`.

    `sets` are `in-c` and specs of any other labelled datasets. `run` makes the outputs; `options` go to it. A set whose
    data is not on this machine is a column of NaN, is named in a warning, and `frame.attrs["missing"]` maps it to what
    was looked for; of `in-c` all corruptions and severities are needed. Values are shares; Table C.2 has per cent.

    >>> from unittest.mock import patch
    >>> from zoo import Outputs
    >>> outputs = Outputs.from_arrays("m", predictions=[0, 1, 1, 1], labels=[0, 1, 1, 0])
    >>> with patch.object(datasets, "load"):  # in place of images on the disk
    ...     frame = robustness("m", ["in-v2", "in-c"], run=lambda models, data, **options: Runs([outputs]))
    >>> frame.round(4).to_dict("index")
    {'m': {'in-v2': 0.75, 'in-c-mce': 0.3234}}
    """
    if isinstance(sets, str) or not sets:
        raise InputError(f"sets: expected the names of datasets such as {', '.join(SETS)}, found {sets!r}")
    columns: dict[str, dict[str, float]] = {}
    missing: dict[str, str] = {}
    for name in sets:
        column = MCE if name == "in-c" else name
        try:
            columns[column] = _in_c(models, run, options) if name == "in-c" else _accuracies(models, name, run, options)
        except _Absent as absent:
            columns[column], missing[column] = {}, str(absent)
    if missing:
        reasons = "; ".join(missing.values())
        warnings.warn(f"no data for {', '.join(missing)}: {reasons}", ZooWarning, stacklevel=2)
    names = next((list(found) for found in columns.values() if found), None) or [
        entry.name if isinstance(entry, Model) else entry for entry in runner.resolve(models)
    ]
    frame = pd.DataFrame(columns, index=pd.Index(names, name="model"), dtype=float)
    frame.attrs["missing"] = missing
    return frame


def corruption_errors(
    models: "str | Model | Sequence[str | Model]", run: Callable[..., Runs] = runner.run, **options: Any
) -> pd.DataFrame:
    """The top-1 errors on ImageNet-C: a row for each model, corruption and severity, of the fifteen corruptions of mCE.

    Columns: model, corruption, severity from 1 to 5, error as a share. `run` and `options` as in `robustness`.

    >>> from unittest.mock import patch
    >>> from zoo import Outputs
    >>> outputs = Outputs.from_arrays("m", predictions=[0, 1, 1, 1], labels=[0, 1, 1, 0])
    >>> with patch.object(datasets, "load"):  # in place of images on the disk
    ...     frame = corruption_errors("m", run=lambda models, data, **options: Runs([outputs]))
    >>> len(frame), frame.error.unique().tolist()
    (75, [0.25])
    >>> round(mean_corruption_error(frame.groupby("corruption").error.apply(list).to_dict()), 4)
    0.3234
    """
    try:
        return _corruption_errors(models, run, options)
    except _Absent as absent:
        raise ZooError(str(absent)) from absent


class _Absent(Exception):
    """Data that is not on this machine."""


def _in_c(models: Any, run: Callable[..., Runs], options: Mapping[str, Any]) -> dict[str, float]:
    found = _corruption_errors(models, run, options)
    return {
        str(model): mean_corruption_error({str(c): g["error"].to_numpy() for c, g in errors.groupby("corruption")})
        for model, errors in found.groupby("model", sort=False)
    }


def _corruption_errors(models: Any, run: Callable[..., Runs], options: Mapping[str, Any]) -> pd.DataFrame:
    wanted = [(corruption, severity) for corruption in ALEXNET_ERRORS for severity in SEVERITIES]
    # All are looked for before any model runs: hours of work towards a mean that cannot be formed would be lost.
    data, absent = {}, []
    for corruption, severity in wanted:
        try:
            data[corruption, severity] = _dataset(f"in-c/{corruption}/{severity}")
        except _Absent as error:
            absent.append((f"{corruption}/{severity}", error))
    if absent:
        raise _Absent(f"{len(absent)} of {len(wanted)} parts of in-c are absent, the first {absent[0][0]} ({absent[0][1]})")
    rows = [
        (model, corruption, severity, 1 - accuracy)
        for (corruption, severity), dataset in data.items()
        for model, accuracy in _accuracies(models, dataset, run, options).items()
    ]
    return pd.DataFrame(rows, columns=["model", "corruption", "severity", "error"])


def _accuracies(
    models: Any, data: "str | Dataset", run: Callable[..., Runs], options: Mapping[str, Any]
) -> dict[str, float]:
    dataset = _dataset(data) if isinstance(data, str) else data
    runs = run(models, data=dataset, **({"embeddings": False} | dict(options)))
    return {name: outputs.accuracy for name, outputs in runs.items()}


def _dataset(spec: str) -> Dataset:
    """The dataset, or `_Absent`: a bad spec or a damaged file is an error of its own."""
    try:
        return datasets.load(spec)
    except (InputError, CorruptFile):
        raise
    except ZooError as error:
        raise _Absent(str(error)) from error


def _severities(values: Any, corruption: str) -> np.ndarray:
    x = np.asarray(values, dtype=float)
    if x.shape != (len(SEVERITIES),):
        raise InputError(f"{corruption}: expected five errors, one per severity, found shape {list(x.shape)}")
    if not ((x >= 0) & (x <= 1)).all():
        raise InputError(f"{corruption}: expected errors as shares from 0 to 1, found {x.tolist()}")
    return x
