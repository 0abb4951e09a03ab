"""Prediction sets of an ensemble, fitted on examples used neither to choose its members nor to fit a temperature.

The selection split chooses the members and fits the temperatures. The test split is divided again: one part fits the
thresholds, the rest evaluates the sets.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
import torch

from ensembles.model_library import ModelLibrary
from zoo.calibration.conformal import ConformalPredictor, SetReport, fit_conformal
from zoo.core import arrays, typed
from zoo.core.prediction_sets import Conditioning, Method
from zoo.core.splits import stratified_split
from zoo.core.units import interval
from zoo.errors import InputError

# Computes the ensemble's probabilities [n, K] and the labels [n] from the models on some examples.
Probabilities: TypeAlias = Callable[[ModelLibrary], tuple[torch.Tensor, torch.Tensor]]


@dataclass(frozen=True, eq=False)
class EnsembleSets:
    """Fitted prediction sets, and their coverage and size on examples that played no part in any fit."""

    rule: ConformalPredictor
    report: SetReport

    def details(self) -> dict[str, Any]:
        """Return the entries of a card's `details`."""
        report = self.report
        measured = {"coverage": report.coverage, "mean_size": report.mean_size, "examples": report.examples}
        return {"sets": typed.plain(self.rule), "sets_measured": measured}

    def __str__(self) -> str:
        report = self.report
        # The interval is valid for a single threshold; with one per class, the coverage varies less.
        valid = f" (95% of valid sets: {interval(report.expected, None)})" if self.rule.conditioning == "marginal" else ""
        measured = f"on {report.examples:,} other examples coverage {report.coverage:.1%}{valid}"
        return f"prediction sets: {self.rule}; {measured}, mean size {report.mean_size:.2f}"


def fit_sets(
    probabilities: Probabilities,
    selection: ModelLibrary,
    test: ModelLibrary | None,
    alpha: float,
    method: Method,
    conditioning: Conditioning,
    calibration: float | Sequence[str],
    seed: int,
) -> EnsembleSets:
    """Return the prediction sets of an ensemble.

    Args:
        probabilities: computes the ensemble's probabilities, at its own temperature.
        selection: the models on the selection split, on which the ensemble was chosen.
        test: the models on the test split.
        alpha: accepted probability that a set misses the true class.
        method: score of a class, as in `fit_conformal`.
        conditioning: which classes share a threshold, as in `fit_conformal`.
        calibration: fraction of the test split that fits the thresholds, or the ids of the examples that do.
        seed: random seed of the split and of randomised sets.
    """
    if selection.kind == "predictions":
        raise InputError(
            argument="kind", expected="probabilities for prediction sets: votes have none", found=selection.kind
        )
    if test is None:
        raise InputError(
            "prediction sets need examples that were not used to choose the ensemble, and there is no test split",
            argument="test_fraction",
            found=0,
        )
    fitted = _calibration_mask(calibration, selection, test, seed)
    parts = [test.select(torch.from_numpy(np.flatnonzero(mask))) for mask in (fitted, ~fitted)]
    p, labels = probabilities(parts[0])
    rule = fit_conformal(p, labels, alpha, method, conditioning, seed=seed)
    dataset = None if test.runs is None else next(iter(test.runs.values())).dataset
    of_dataset = f" of {dataset}" if dataset else ""
    rule = replace(rule, fitted_on=f"{len(labels):,} of {len(test.labels):,} test examples{of_dataset}")
    return EnsembleSets(rule, rule.evaluate(*probabilities(parts[1]), seed=seed))


def _calibration_mask(
    calibration: float | Sequence[str], selection: ModelLibrary, test: ModelLibrary, seed: int
) -> np.ndarray:
    """Return which examples [N] of the test split fit the thresholds."""
    if isinstance(calibration, int | float):
        try:
            return stratified_split(arrays.to_numpy(test.labels), calibration, seed, test.ids)
        except InputError as error:
            error.argument = "calibration"
            raise
    ids = np.unique(np.asarray(calibration, str))
    used = np.intersect1d(ids, selection.ids)
    if len(used):
        raise InputError(
            f"{len(used)} examples were used to choose the ensemble, first id {str(used[0])!r}",
            argument="calibration",
            expected="examples of the test split",
        )
    unknown = np.setdiff1d(ids, test.ids)
    if len(unknown):
        raise InputError(f"{len(unknown)} ids are not in the test split, first {str(unknown[0])!r}", argument="calibration")
    fitted = np.isin(test.ids, ids)
    if fitted.all() or not fitted.any():
        raise InputError(argument="calibration", expected="some of the test examples, not all", found=len(ids))
    return fitted
