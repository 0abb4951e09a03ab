"""`calibrate`: give every model a temperature that was fitted on examples other than those it is applied to."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from zoo.calibration import policy
from zoo.calibration.metrics import brier_score, expected_calibration_error, negative_log_likelihood, nll
from zoo.calibration.temperature import TemperatureFit, fit_temperatures, refit_temperature
from zoo.core import arrays, checks, devices, files
from zoo.core.arrays import Array
from zoo.core.backend import MAX_NUMPY, cast, dtype_name, single_or_double
from zoo.core.columns import Column
from zoo.core.links import distributed, log_sigmoid
from zoo.core.splits import fold_numbers, stratified_split
from zoo.core.types import Link, TemperatureSpace
from zoo.errors import InputError
from zoo.outputs.outputs import Outputs, Runs

if TYPE_CHECKING:
    import pandas as pd
    import torch

_SAME_MODEL = ("weights", "transform", "precision")  # fields of stored outputs that describe the model
_EMPTY_IDS = np.array([], str)


class CalibratedRuns(Runs):
    """Runs with a temperature for each model.

    Args:
        outputs: outputs of each model, with its temperature.
        fits: the fit of each model's temperature.
        calibration_ids: ids of the examples that the temperatures were fitted on.
        population: a phrase that says which examples are reported and which ones fitted the temperatures.
    """

    def __init__(
        self,
        outputs: Iterable[Outputs],
        fits: Mapping[str, TemperatureFit],
        calibration_ids: np.ndarray = _EMPTY_IDS,
        population: str = "",
    ) -> None:
        super().__init__(outputs)
        self.fits = dict(fits)
        self.calibration_ids = calibration_ids
        self.population = population

    def to_frame(self) -> "pd.DataFrame":
        """Return one row per model: its temperature, and the metrics before and after on the reported examples.

        No example is scored at a temperature that it helped to fit. `fitted_on` names the examples of the fit, and `fits`
        has the metrics on these examples. Without labels the metrics are missing.
        """
        import pandas as pd

        return pd.DataFrame([_report_row(outputs) for outputs in self.values()])


def calibrate(
    runs: Outputs | Iterable[Outputs] | Mapping[str, Outputs],
    temperatures_from: "float | str | Outputs | Iterable[Outputs] | Mapping[str, Outputs] | None" = None,
    seed: int = 0,
    temperature_space: TemperatureSpace = "logits",
    device: "torch.device | str | None" = None,
) -> CalibratedRuns:
    """Return the runs with a temperature for each model, fitted on examples other than those it is applied to.

    Examples that are both reported and in a calibration set are an error, and so are calibration runs that were made with
    other weights, another transform or another precision.

    Args:
        runs: outputs of one or more models on the same examples.
        temperatures_from: where the temperatures come from (`zoo.calibration.policy` has the rule):

            - None: the calibration split of the dataset if there is one, else `"cross-fit"`;
            - `"cross-fit"`: the examples are divided into five folds, and each fold gets the temperature of the other four,
              so that all examples are reported;
            - a fraction such as 0.5: fit on that fraction of the examples, and return the **other** examples only;
            - a dataset such as `"digits:calibration"`: the same models are run on it, or their stored outputs are read;
            - other runs of the same models on other examples;
            - `"stored"`: the temperatures recorded with stored outputs; nothing is fitted.
        seed: random seed of the folds or the fraction, which are stratified by class and depend on the ids of the examples
            only.
        temperature_space: what the temperature of a model with sigmoids divides: its `logits`, or the logarithm of the
            `distribution` that they make. In the latter case the returned outputs are that logarithm, with the link softmax.
        device: where to fit; default: with NumPy up to 2^20 logits per model, above that on the accelerator, if there is
            one.

    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, 600)
    >>> z = rng.normal(size=(600, 3)) + 2 * np.eye(3)[y]
    >>> calibrated = calibrate(Outputs.from_arrays("a", logits=5 * z, labels=y))
    >>> len(calibrated["a"]), calibrated["a"].temperature == calibrated.fits["a"].temperature
    (600, True)
    >>> calibrated.population
    'all 600 examples; temperatures cross-fitted in 5 folds'
    """
    runs = _as_runs(runs)
    distributed("softmax", temperature_space)  # raises an error for an unknown temperature space
    fit = _Fit(temperature_space, None if device is None else devices.choose(device))
    reason = ""
    if temperatures_from is None:
        temperatures_from, reason = policy.default_source(runs)
    if isinstance(temperatures_from, str) and temperatures_from == policy.STORED:
        return _from_records(runs)
    if isinstance(temperatures_from, str) and temperatures_from == policy.CROSS_FIT:
        return _cross_fitted(runs.aligned(), seed, reason, fit)
    if isinstance(temperatures_from, (int, float)):
        return _from_fraction(runs.aligned(), temperatures_from, seed, reason, fit)
    if isinstance(temperatures_from, str):
        others = policy.same_models_on(runs, temperatures_from).aligned()
    else:
        others = _as_runs(temperatures_from).aligned()
    for name in runs:
        check_apart(runs[name], others[name])
    fits = fit(Runs(others[name] for name in runs))
    calibrated = [_with_temperature(o, fits[o.name].to_dict() | _source(others[o.name])) for o in runs.values()]
    for outputs in calibrated:
        if outputs.path is not None:
            from zoo.outputs.store import save_fit

            save_fit(outputs, outputs.details["calibration"])
    first = others[runs.names[0]]
    where = "other examples" if first.dataset is None else first.dataset
    population = f"all {len(calibrated[0]):,} examples; temperatures fitted on {len(first):,} rows of {where}"
    return CalibratedRuns(calibrated, fits, first.ids, population)


def refit_for_selection(runs: Runs, selection: np.ndarray, seed: int = 0) -> Runs:
    """Return cross-fitted runs refitted so that no label outside `selection` affects any temperature.

    Rows of the selection get temperatures cross-fitted among themselves, all other rows the temperature of the whole
    selection. A search that chooses on the selection and tests on the other rows is then free of leaks. Runs whose
    temperatures do not come from cross-fitting are returned as they are.

    Args:
        runs: aligned runs.
        selection: [N] mask of the rows that choose.
        seed: random seed of the folds.
    """
    cross_fitted = Runs(_unscaled(outputs) for outputs in runs.values() if outputs.row_scale is not None)
    if not len(cross_fitted):
        return runs
    first = next(iter(cross_fitted.values()))
    space = first.details.get("calibration", {}).get("temperature_space", "logits")
    rows = np.flatnonzero(selection)
    fits, by_row = _fold_temperatures(cross_fitted.select(rows), seed, _Fit(space, "cpu"))
    refitted = {}
    for name, outputs in cross_fitted.items():
        scale = np.ones(len(outputs))
        scale[rows] = fits[name].temperature / by_row[name]
        record = fits[name].to_dict() | {"split": f"cross-fitting on {len(rows):,} selection rows"}
        refitted[name] = _scaled(_with_temperature(outputs, record), scale)
    return Runs(refitted.get(name, outputs) for name, outputs in runs.items())


@dataclasses.dataclass(frozen=True)
class _Fit:
    """Fits the temperatures of runs, with the options of one call of `calibrate`."""

    temperature_space: TemperatureSpace
    device: "torch.device | str | None"

    def __call__(self, runs: Runs) -> dict[str, TemperatureFit]:
        logits: dict[str, Array | Column] = {}
        links: dict[str, Link] = {}
        for name, outputs in runs.items():
            outputs.require_labels()
            links[name] = outputs.link if outputs.kind != "probabilities" else "softmax"
            logits[name] = _logits(outputs)
        return fit_temperatures(logits, runs.labels, links, self.temperature_space, self.place(runs))

    def place(self, runs: Runs) -> "torch.device | str | None":
        """Return the device that fits the temperatures of these runs; None leaves it to NumPy."""
        large = any(len(outputs) * len(outputs.classes) > MAX_NUMPY for outputs in runs.values())
        return devices.choose() if self.device is None and large else self.device


def _logits(outputs: Outputs) -> Column:
    if outputs.kind != "probabilities":
        return outputs.values if outputs.kind == "logits" else Column([outputs.logits])
    # The logarithm of probabilities is a logit. 0 means less than the dtype can hold, not a masked class.
    return Column([-nll(single_or_double(checks.array(outputs.values.array(), outputs.name)))])


def _cross_fitted(runs: Runs, seed: int, reason: str, fit: _Fit) -> CalibratedRuns:
    fits, by_row = _fold_temperatures(runs, seed, fit)
    first = next(iter(runs.values()))
    folds = min(policy.FOLDS, len(first))
    source = {"split": f"{folds} folds of {len(first):,} examples, cross-fitted", "seed": seed}
    calibrated = [
        _scaled(_with_temperature(o, fits[o.name].to_dict() | source), fits[o.name].temperature / by_row[o.name])
        for o in runs.values()
    ]
    population = f"all {len(first):,} examples; temperatures cross-fitted in {folds} folds"
    return CalibratedRuns(calibrated, fits, first.ids, f"{population}, because {reason}" if reason else population)


def _fold_temperatures(runs: Runs, seed: int, fit: _Fit) -> tuple[dict[str, TemperatureFit], dict[str, np.ndarray]]:
    """Return the fits on all rows, and for each model [N] the temperature fitted on the other folds than the row's own."""
    fits = fit(runs)
    labels, ids = runs.labels, next(iter(runs.values())).ids
    if len(labels) < 2:
        raise InputError(argument="runs", expected="at least two examples to cross-fit temperatures", found=len(labels))
    fold = fold_numbers(labels, min(policy.FOLDS, len(labels)), seed, ids)
    by_row = {name: np.ones(len(labels)) for name in runs}
    device = fit.place(runs)
    for name, outputs in runs.items():
        logits = Column([_logits(outputs).array()])
        for number in range(int(fold.max()) + 1):
            others = np.flatnonzero(fold != number)
            temperature = refit_temperature(logits[others], labels[others], fits[name], device)
            by_row[name][fold == number] = temperature
    return fits, by_row


def _scaled(outputs: Outputs, scale: np.ndarray) -> Outputs:
    """Return outputs whose rows are scaled, so that one temperature stands for a temperature per row.

    (scale z) / T is z / T_row for scale = T / T_row, and likewise (p^scale)^(1/T) is p^(1/T_row) up to a factor per row.
    """
    z = single_or_double(checks.array(outputs.values.array(), outputs.name))
    factor = cast(arrays.like(scale, z), dtype_name(z))[:, None]
    if outputs.kind == "probabilities":
        powers = z**factor
        scaled = powers / powers.sum(1)[:, None]
    else:
        scaled = z * factor
    values = Column([arrays.like_input(scaled, outputs.values.blocks[0])])
    return dataclasses.replace(outputs, values=values, row_scale=scale, path=None)


def _unscaled(outputs: Outputs) -> Outputs:
    assert outputs.row_scale is not None
    return dataclasses.replace(_scaled(outputs, 1 / outputs.row_scale), row_scale=None, temperature=None)


def _from_fraction(runs: Runs, fraction: float, seed: int, reason: str, fit: _Fit) -> CalibratedRuns:
    first = next(iter(runs.values()))
    try:
        chosen = stratified_split(runs.labels, fraction, seed, first.ids)
    except InputError as error:
        if error.argument == "fraction":
            error.argument = "temperatures_from"
        raise
    held_out = runs.select(chosen)
    fits = fit(held_out)
    calibration = next(iter(held_out.values()))
    source = _source(calibration) | {"share": fraction, "seed": seed}
    reported = [_with_temperature(o.select(~chosen), fits[o.name].to_dict() | source) for o in runs.values()]
    population = f"{len(reported[0]):,} of {len(first):,} examples; the other {len(calibration):,} fitted the temperatures"
    return CalibratedRuns(reported, fits, calibration.ids, f"{population}, because {reason}" if reason else population)


def _from_records(runs: Runs) -> CalibratedRuns:
    """Return the runs with the temperatures recorded with them."""
    from zoo.outputs.store import read_fits

    calibrated = []
    for name, outputs in runs.items():
        records = {} if outputs.path is None else read_fits(outputs.path)
        if len(records) != 1:
            found = ", ".join(records) or "none"
            hint = "Pass a dataset as {temperatures_from=...} instead"
            raise InputError(
                where=name, argument="temperatures_from", expected="one stored temperature", found=found, hint=hint
            )
        (record,) = records.values()
        calibrated.append(_with_temperature(outputs, record))
    first = calibrated[0]
    population = f"all {len(first):,} examples; temperatures stored earlier, fitted on {first.calibration}"
    return CalibratedRuns(calibrated, {}, population=population)


def check_apart(reported: Outputs, calibration: Outputs) -> None:
    """Raise an error if both outputs contain the same example, or if they come from different models.

    On one dataset, ids identify examples. Ids of different datasets are often just row numbers, so that a common id counts
    only if the model's outputs for it are equal, number by number.
    """
    from zoo.outputs.store.layout import IMPORTED

    for field in _SAME_MODEL:
        values = reported.details.get(field), calibration.details.get(field)
        recorded = all(value is not None and not str(value).startswith(IMPORTED) for value in values)
        if recorded and values[0] != values[1]:
            found = f"{values[0]!r} and {values[1]!r}"
            raise InputError(f"the outputs and their calibration runs differ in {field}", where=reported.name, found=found)
    shared, rows, other_rows = np.intersect1d(reported.ids, calibration.ids, return_indices=True)
    if not len(shared):
        return
    same_dataset = reported.dataset is not None and reported.dataset == calibration.dataset
    same = np.ones(len(shared), bool) if same_dataset else _equal_rows(reported, calibration, rows, other_rows)
    if same.any():
        raise InputError(
            f"{int(same.sum())} examples are in both the calibration runs and the reported ones, "
            f"first id {str(shared[same][0])!r}",
            where=reported.name,
            argument="temperatures_from",
            hint="Calibrate on other examples",
        )


def _equal_rows(a: Outputs, b: Outputs, rows: np.ndarray, other_rows: np.ndarray) -> np.ndarray:
    if a.values.shape[1:] != b.values.shape[1:]:
        return np.zeros(len(rows), bool)
    same = []
    for start in range(0, len(rows), 4096):
        left, right = (
            arrays.to_numpy(cast(checks.array(o.values[index[start : start + 4096]], o.name), "float32"))
            for o, index in ((a, rows), (b, other_rows))
        )
        same.append((left == right).reshape(len(left), -1).all(1))
    return np.concatenate(same)


def _as_runs(value: Outputs | Iterable[Outputs] | Mapping[str, Outputs]) -> Runs:
    runs = value if isinstance(value, Runs) else Runs([value] if isinstance(value, Outputs) else value)
    if not len(runs):
        raise InputError(argument="runs", expected="outputs of at least one model", found=0)
    return runs


def _source(calibration: Outputs) -> dict[str, Any]:
    """Return what a temperature was fitted on: the split, its number of rows, and a digest of their ids and labels."""
    labels = calibration.require_labels()
    digest = files.digest([*calibration.ids.tolist(), np.ascontiguousarray(labels).tobytes()])
    return {"split": calibration.dataset or "other examples", "rows": len(calibration), "digest": digest}


def _with_temperature(outputs: Outputs, record: dict[str, Any]) -> Outputs:
    """Return the outputs at the temperature of a record."""
    details = outputs.details | {"calibration": record}
    if outputs.kind == "logits" and distributed(outputs.link, record.get("temperature_space", "logits")):
        values = Column([log_sigmoid(checks.array(z, outputs.name)) for z in outputs.values.blocks])
        outputs = dataclasses.replace(outputs, values=values, link="softmax")
    return dataclasses.replace(outputs, temperature=record["temperature"], details=details)


def _report_row(outputs: Outputs) -> dict[str, Any]:
    record = outputs.details["calibration"]
    row = {
        "model": outputs.name,
        "temperature": outputs.temperature,
        "link": record.get("link", outputs.link),
        "temperature_space": record.get("temperature_space", "logits"),
        "at_bound": record.get("at_bound", False),
        "fitted_on": outputs.calibration,
        "rows": len(outputs),
    }
    labels = None if outputs.labels is None else outputs.require_labels()
    before = outputs if outputs.row_scale is None else _unscaled(outputs)
    for when, shown in (("before", dataclasses.replace(before, temperature=None)), ("after", outputs)):
        p = None if labels is None else shown.probabilities
        for name, metric in _METRICS.items():
            row[f"{name}_{when}"] = None if p is None else metric(p, labels)
    return row


_METRICS: dict[str, Callable[[Any, Any], float]] = {
    "nll": negative_log_likelihood,
    "ece": expected_calibration_error,
    "brier": brier_score,
}
