"""Calibrating runs: every model's temperature from examples that results are not reported on."""

import dataclasses
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from zoo.calibration import policy
from zoo.calibration.metrics import brier_score, expected_calibration_error, negative_log_likelihood, surprise
from zoo.calibration.temperature import TemperatureFit, fit_temperature
from zoo.core import arrays, files
from zoo.core.columns import Column
from zoo.core.links import distributed, log_sigmoid
from zoo.core.splits import stratified_rows
from zoo.core.types import TemperatureSpace
from zoo.errors import InputError
from zoo.outputs.outputs import Outputs, Runs

if TYPE_CHECKING:
    import pandas

_SAME_MODEL = ("weights", "transform", "precision")  # what stored outputs say of the model that made them


class CalibratedRuns(Runs):
    """Runs that carry a temperature each, with the fits, the ids of the examples they were fitted on, and a sentence on
    which rows are reported and which were fitted on."""

    def __init__(
        self,
        outputs: Iterable[Outputs],
        fits: Mapping[str, TemperatureFit],
        calibration_ids: np.ndarray,
        population: str = "",
    ) -> None:
        super().__init__(outputs)
        self.fits = dict(fits)
        self.calibration_ids = calibration_ids
        self.population = population

    def to_frame(self) -> "pandas.DataFrame":
        """One row per model: its temperature, and the metrics before and after on the rows reported, none of which it was
        fitted on; `fitted_on` says what it was. `fits` has the metrics on those.

        Where the reported rows have no labels, the metrics are missing.
        """
        import pandas

        return pandas.DataFrame([_reported(outputs) for outputs in self.values()])


def calibrate(
    runs: Outputs | Iterable[Outputs] | Mapping[str, Outputs],
    temperatures_from: "float | str | Outputs | Iterable[Outputs] | Mapping[str, Outputs] | None" = None,
    seed: int = 0,
    temperature_space: TemperatureSpace = "logits",
) -> CalibratedRuns:
    """The runs with a temperature each, fitted on examples that are not among those returned.

    `temperatures_from` says where the calibration examples come from; `zoo.calibration.policy` has the rule:

    - a share, such as 0.5: that part of these runs' own rows, drawn with `seed` and stratified by class; the runs that come
      back hold the **other** rows only, and nothing is stored, since stored outputs hold the calibration rows too;
    - a dataset, such as `"digits:calibration"`: the same models are run on it (or read from the store);
    - other runs of the same models on other examples;
    - `"stored"`: nothing is fitted, the temperatures recorded beside stored outputs are taken;
    - nothing: the calibration split of the dataset where there is one, else half of the rows.

    Of other examples all rows come back, and the temperature is recorded beside outputs that are on disk. Examples that are
    in both are an error, and so are calibration runs made with other weights, another transform or another precision.

    `temperature_space` is what the temperature of a model with sigmoids divides: its `logits`, or the logarithm of the `distribution`
    they make (`zoo.cards.TemperatureSpace`); such a model's outputs come back as that logarithm, with a softmax.

    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 3, 600)
    >>> z = rng.normal(size=(600, 3)) + 2 * np.eye(3)[y]
    >>> calibrated = calibrate(Outputs.from_arrays("a", logits=5 * z, labels=y))
    >>> len(calibrated["a"]), calibrated["a"].temperature == calibrated.fits["a"].temperature
    (300, True)
    >>> calibrated.population
    '300 of 600 examples; the other 300 fitted the temperatures'
    """
    runs = _runs(runs)
    distributed("softmax", temperature_space)  # an error for a temperature_space that is not known
    reason = ""
    if temperatures_from is None:
        temperatures_from, reason = policy.default_split(runs)
    if temperatures_from == policy.STORED:
        return _from_records(runs)
    if isinstance(temperatures_from, (int, float)):
        return _on_share(runs.aligned(), temperatures_from, seed, reason, temperature_space)
    if isinstance(temperatures_from, str):
        others = policy.same_models_on(runs, temperatures_from).aligned()
    else:
        others = _runs(temperatures_from).aligned()
    for name in runs:
        check_apart(runs[name], others[name])
    fits = {name: _fit(others[name], temperature_space) for name in runs}
    calibrated = [_with(o, fits[o.name], _origin(others[o.name])) for o in runs.values()]
    for outputs in calibrated:
        if outputs.path is not None:
            from zoo.outputs.store import save_fit

            save_fit(outputs, outputs.details["calibration"])
    first = others[runs.names[0]]
    where = "other examples" if first.dataset is None else first.dataset
    population = f"all {len(calibrated[0]):,} examples; temperatures fitted on {len(first):,} rows of {where}"
    return CalibratedRuns(calibrated, fits, first.ids, population)


def _on_share(runs: Runs, share: float, seed: int, reason: str, temperature_space: TemperatureSpace) -> CalibratedRuns:
    chosen = stratified_rows(runs.labels, share, seed)
    fits = {name: _fit(outputs.select(chosen), temperature_space) for name, outputs in runs.items()}
    first = next(iter(runs.values()))
    held = first.select(chosen)
    origin = _origin(held) | {"share": share, "seed": seed}
    kept = [_with(o.select(~chosen), fits[o.name], origin) for o in runs.values()]
    population = f"{len(kept[0]):,} of {len(first):,} examples; the other {len(held):,} fitted the temperatures"
    return CalibratedRuns(kept, fits, held.ids, f"{population}: {reason}" if reason else population)


def _from_records(runs: Runs) -> CalibratedRuns:
    """The runs with the temperatures that were recorded beside them, one of them for each."""
    from zoo.outputs.store import read_fits

    found = []
    for name, outputs in runs.items():
        records = {} if outputs.path is None else read_fits(outputs.path)
        if len(records) != 1:
            splits = f"several ({', '.join(records)})" if records else "none"
            raise InputError(f"{name}: expected one stored temperature, found {splits}; calibrate on a split by its name")
        (record,) = records.values()
        found.append(_at(outputs, record))
    first = found[0]
    population = f"all {len(first):,} examples; temperatures stored earlier, fitted on {first.calibration}"
    return CalibratedRuns(found, {}, np.array([], str), population)


def check_apart(reported: Outputs, held_out: Outputs) -> None:
    """An error where an example is in both, or where the two were not made by one and the same model.

    On one dataset the ids tell. Across datasets ids are often mere row numbers, so that an id in both counts only when the
    model also said the same there, number by number.
    """
    from zoo.outputs.store.layout import IMPORTED  # here, since the store opens what this module calibrates

    for field in _SAME_MODEL:
        first, second = reported.details.get(field), held_out.details.get(field)
        known = all(value is not None and not str(value).startswith(IMPORTED) for value in (first, second))
        if known and first != second:
            raise InputError(
                f"{reported.name}: the outputs and their calibration split differ in {field} ({first!r} and {second!r})"
            )
    shared, rows, other_rows = np.intersect1d(reported.ids, held_out.ids, return_indices=True)
    if not len(shared):
        return
    known = reported.dataset is not None and reported.dataset == held_out.dataset
    same = np.ones(len(shared), bool) if known else _equal_rows(reported, held_out, rows, other_rows)
    if same.any():
        raise InputError(
            f"{reported.name}: {int(same.sum())} examples are both in the calibration split and among those reported, "
            f"first id {str(shared[same][0])!r}; calibrate on other examples"
        )


def _equal_rows(a: Outputs, b: Outputs, rows: np.ndarray, other_rows: np.ndarray) -> np.ndarray:
    if a.values.shape[1:] != b.values.shape[1:]:
        return np.zeros(len(rows), bool)
    same = []
    for start in range(0, len(rows), 4096):
        left, right = (
            arrays.to_numpy(arrays.tensor(o.values[index[start : start + 4096]], o.name).float())
            for o, index in ((a, rows), (b, other_rows))
        )
        same.append((left == right).reshape(len(left), -1).all(1))
    return np.concatenate(same)


def _runs(value: Any) -> Runs:
    runs = value if isinstance(value, Runs) else Runs([value] if isinstance(value, Outputs) else value)
    if not len(runs):
        raise InputError("expected at least one model's outputs, found none")
    return runs


def _fit(outputs: Outputs, temperature_space: TemperatureSpace) -> TemperatureFit:
    name, labels = f"{outputs.name} {outputs.kind}", outputs.require_labels()
    if outputs.kind != "probabilities":
        column = outputs.values if outputs.kind == "logits" else Column([outputs.logits])
        return fit_temperature(column, labels, outputs.link, name, temperature_space)
    # The logarithm of probabilities is a logit. A 0 stands for less than the type can hold, not for a masked class.
    p = arrays.tensor(outputs.values.array(), name)
    return fit_temperature(-surprise(p if p.dtype == torch.float64 else p.float()), labels, "softmax", name)


def _origin(held_out: Outputs) -> dict[str, Any]:
    """What a temperature was fitted on: the split, its rows, and a digest of their ids and labels."""
    labels = held_out.require_labels()
    digest = files.digest([*held_out.ids.tolist(), np.ascontiguousarray(labels).tobytes()])
    return {"split": held_out.dataset or "other examples", "rows": len(held_out), "digest": digest}


def _with(outputs: Outputs, fit: TemperatureFit, origin: dict[str, Any]) -> Outputs:
    return _at(outputs, fit.to_dict() | origin)


def _at(outputs: Outputs, record: dict[str, Any]) -> Outputs:
    """The outputs at a temperature that was fitted, by what it divides."""
    details = outputs.details | {"calibration": record}
    if outputs.kind == "logits" and distributed(outputs.link, record.get("temperature_space", "logits")):
        values = Column([arrays.like_input(log_sigmoid(arrays.tensor(z, outputs.name)), z) for z in outputs.values.blocks])
        outputs = dataclasses.replace(outputs, values=values, link="softmax")
    return dataclasses.replace(outputs, temperature=record["temperature"], details=details)


def _reported(outputs: Outputs) -> dict[str, Any]:
    """A model's temperature and what it does on the rows that are reported."""
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
    for when, shown in (("before", dataclasses.replace(outputs, temperature=None)), ("after", outputs)):
        p = None if labels is None else shown.probabilities
        for name, metric in _METRICS.items():
            row[f"{name}_{when}"] = None if p is None else metric(p, labels)
    return row


_METRICS: dict[str, Callable[[Any, Any], float]] = {
    "nll": negative_log_likelihood,
    "ece": expected_calibration_error,
    "brier": brier_score,
}
