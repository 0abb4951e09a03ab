"""Robustness of ImageNet models on V2, A, R, Sketch, and on corrupted images by mCE (Kornblith et al. 2021, Table C.2).

A and R have 200 of the 1,000 classes; predictions are made among these 200 only.
"""

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from zoo import datasets
from zoo.cards import names
from zoo.datasets import Dataset
from zoo.errors import CorruptFile, InputError, ZooError, ZooWarning
from zoo.models.model import Model
from zoo.outputs.outputs import Runs
from zoo.runs import runner

# Top-1 errors of AlexNet, averaged over the five severities, as published with ImageNet-C (Hendrycks and Dietterich 2019).
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
MCE = "in-c-mce"  # the column of `in-c`, by its name on model cards


def mean_corruption_error(errors: Mapping[str, Sequence[float] | np.ndarray]) -> float:
    """Return mCE: the error on each of the fifteen corruptions relative to AlexNet's, averaged; AlexNet has 1.

    Args:
        errors: five top-1 errors for each corruption, one per severity, between 0 and 1. The papers give mCE in percent.

    >>> round(mean_corruption_error({name: [error / 2] * 5 for name, error in ALEXNET_ERRORS.items()}), 6)
    0.5
    """
    missing = [name for name in ALEXNET_ERRORS if name not in errors]
    if missing:
        raise InputError(f"mCE needs all fifteen corruptions; missing: {', '.join(missing)}", argument="errors")
    for name in errors:
        if name not in ALEXNET_ERRORS:
            raise names.unknown("corruption", name, ALEXNET_ERRORS, argument="errors")
    ratios = [_severities(errors[name], name).mean() / alexnet for name, alexnet in ALEXNET_ERRORS.items()]
    return float(np.mean(ratios))


def robustness(
    models: str | Model | Sequence[str | Model],
    sets: Sequence[str] = SETS,
    run: Callable[..., Runs] = runner.run,
    **options: Any,
) -> pd.DataFrame:
    """Return the top-1 accuracy of models on each set, between 0 and 1, and the mCE for `in-c`.

    Args:
        models: names, patterns or loaded models.
        sets: `in-c`, which needs all corruptions and severities, and specs of any other labelled datasets.
        run: computes the outputs; default: `zoo.run`.
        options: passed to `run`.

    Returns:
        A frame indexed by model, one column per set; mCE is in the column `in-c-mce`. A set whose data are not on this
        machine is a column of NaN. A warning names it, and `frame.attrs["missing"]` has the reason.

    >>> from unittest.mock import patch
    >>> from zoo import Outputs
    >>> outputs = Outputs.from_arrays("m", predictions=[0, 1, 1, 1], labels=[0, 1, 1, 0])
    >>> with patch.object(datasets, "load"):  # instead of images on disk
    ...     frame = robustness("m", ["in-v2", "in-c"], run=lambda models, data, **options: Runs([outputs]))
    >>> frame.round(4).to_dict("index")
    {'m': {'in-v2': 0.75, 'in-c-mce': 0.3234}}
    """
    if isinstance(sets, str) or not sets:
        raise InputError(argument="sets", expected=f"a list of datasets such as {', '.join(SETS)}", found=sets)
    columns: dict[str, dict[str, float]] = {}
    missing: dict[str, str] = {}
    for name in sets:
        column = MCE if name == "in-c" else name
        try:
            columns[column] = (
                _mce_by_model(models, run, options) if name == "in-c" else _accuracies(models, name, run, options)
            )
        except _MissingData as error:
            columns[column], missing[column] = {}, str(error)
    if missing:
        reasons = "; ".join(missing.values())
        warnings.warn(f"no data for {', '.join(missing)}: {reasons}", ZooWarning, stacklevel=2)
    index = next((list(column) for column in columns.values() if column), None) or [
        entry.name if isinstance(entry, Model) else entry for entry in runner.resolve(models)
    ]
    frame = pd.DataFrame(columns, index=pd.Index(index, name="model"), dtype=float)
    frame.attrs["missing"] = missing
    return frame


def corruption_errors(
    models: str | Model | Sequence[str | Model], run: Callable[..., Runs] = runner.run, **options: Any
) -> pd.DataFrame:
    """Return the top-1 errors on the fifteen corruptions of ImageNet-C, one row per model, corruption and severity.

    The columns are `model`, `corruption`, `severity` from 1 to 5, and `error` between 0 and 1. Arguments as in
    `robustness`.

    >>> from unittest.mock import patch
    >>> from zoo import Outputs
    >>> outputs = Outputs.from_arrays("m", predictions=[0, 1, 1, 1], labels=[0, 1, 1, 0])
    >>> with patch.object(datasets, "load"):  # instead of images on disk
    ...     frame = corruption_errors("m", run=lambda models, data, **options: Runs([outputs]))
    >>> len(frame), frame.error.unique().tolist()
    (75, [0.25])
    >>> round(mean_corruption_error(frame.groupby("corruption").error.apply(list).to_dict()), 4)
    0.3234
    """
    parts = [(corruption, severity) for corruption in ALEXNET_ERRORS for severity in SEVERITIES]
    # All parts are located before any model runs: hours of work would be lost if one were missing.
    data, missing = {}, []
    for corruption, severity in parts:
        try:
            data[corruption, severity] = _dataset(f"in-c/{corruption}/{severity}")
        except _MissingData as error:
            missing.append((f"{corruption}/{severity}", error))
    if missing:
        name, reason = missing[0]
        raise _MissingData(f"{len(missing)} of {len(parts)} parts of in-c are missing, the first {name} ({reason})")
    rows = [
        (model, corruption, severity, 1 - accuracy)
        for (corruption, severity), dataset in data.items()
        for model, accuracy in _accuracies(models, dataset, run, options).items()
    ]
    return pd.DataFrame(rows, columns=["model", "corruption", "severity", "error"])


class _MissingData(ZooError):
    """Data that are not on this machine."""


def _mce_by_model(models: Any, run: Callable[..., Runs], options: Mapping[str, Any]) -> dict[str, float]:
    errors = corruption_errors(models, run, **options)
    return {
        str(model): mean_corruption_error({str(c): g["error"].to_numpy() for c, g in part.groupby("corruption")})
        for model, part in errors.groupby("model", sort=False)
    }


def _accuracies(models: Any, data: str | Dataset, run: Callable[..., Runs], options: Mapping[str, Any]) -> dict[str, float]:
    dataset = _dataset(data) if isinstance(data, str) else data
    runs = run(models, data=dataset, **({"embeddings": False} | dict(options)))
    return {name: outputs.accuracy for name, outputs in runs.items()}


def _dataset(spec: str) -> Dataset:
    """Return the dataset or raise `_MissingData`; a wrong spec or a damaged file is another error."""
    try:
        return datasets.load(spec)
    except (InputError, CorruptFile):
        raise
    except ZooError as error:
        raise _MissingData(str(error)) from error


def _severities(values: Sequence[float] | np.ndarray, corruption: str) -> np.ndarray:
    x = np.asarray(values, dtype=float)
    if x.shape != (len(SEVERITIES),):
        expected = "five errors per corruption, one per severity"
        raise InputError(where=corruption, argument="errors", expected=expected, found=list(x.shape))
    if not ((x >= 0) & (x <= 1)).all():
        raise InputError(where=corruption, argument="errors", expected="numbers from 0 to 1", found=x.tolist())
    return x
