"""The temperature of an ensemble. The mean of calibrated members is underconfident where they disagree.

The ensemble's probabilities p become p^(1/T), normalised; T below 1 sharpens them. T is fitted on the test split, whose
examples did not choose the members. Its effect is cross-fitted: each half of the test split is evaluated at the temperature
fitted on the other half, so that no example is evaluated at a temperature it helped to fit. The temperature that is kept is
fitted on both halves. Predictions, and so accuracies, do not depend on T.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

from ensembles.inputs import Labels
from ensembles.model_library import ModelLibrary
from zoo.calibration.metrics import bin_counts, binned_error
from zoo.calibration.temperature import fit_temperature
from zoo.core import arrays
from zoo.core.arrays import Array
from zoo.core.links import to_probabilities
from zoo.core.splits import stratified_split
from zoo.errors import ZooWarning

MIN_EXAMPLES = 50  # with fewer, the temperature of each half would be mostly noise
MAX_ELEMENTS = 2**26  # examples x classes to fit on: 256 MB in float32


@dataclass(frozen=True)
class EnsembleTemperature:
    """The fitted temperature, and the expected calibration error (ECE) on the test split before and after it."""

    temperature: float
    ece_before: float
    ece_after: float  # cross-fitted
    examples: int


@dataclass(frozen=True, eq=False)
class HeldOutEnsemble:
    """An ensemble on the test split, whose temperature is fitted only if it is needed."""

    library: ModelLibrary
    members: Sequence[int]
    weights: Sequence[float]
    seed: int

    def calibrate(self) -> EnsembleTemperature | None:
        """Return the temperature, fitted on a random part of a large split; None for votes or too few examples."""
        library = self.library
        if library.kind == "predictions" or len(library.labels) < MIN_EXAMPLES:
            return None
        fraction = MAX_ELEMENTS / (len(library.labels) * library.num_classes)
        if fraction < 1:
            part = stratified_split(arrays.to_numpy(library.labels), fraction, self.seed, library.ids)
            library = library.select(torch.from_numpy(np.flatnonzero(part)))
        dtype = arrays.accumulation_dtype(library.device)
        mean = torch.empty((len(library.labels), library.num_classes), device=library.device)
        for span in library.chunks():
            total = torch.zeros(mean[span].shape, dtype=dtype, device=library.device)
            for model, weight in zip(self.members, self.weights, strict=True):
                total += library.rows(model, span) * weight
            mean[span] = total / math.fsum(self.weights)
        return fit_ensemble_temperature(mean, library.labels, library.ids, self.seed)


def apply_temperature(probabilities: Array, temperature: float) -> Array:
    """Return p^(1/T), normalised, of probabilities [N, K].

    >>> apply_temperature(np.array([[0.6, 0.3, 0.1]]), 0.5).round(3)
    array([[0.783, 0.196, 0.022]])
    """
    return arrays.like_input(
        torch.as_tensor(to_probabilities(_logarithm(arrays.probabilities(probabilities)), temperature)), probabilities
    )


def fit_ensemble_temperature(
    probabilities: Array, labels: Labels, ids: np.ndarray | None = None, seed: int = 0
) -> EnsembleTemperature:
    """Return the temperature of an ensemble, and its cross-fitted effect.

    Args:
        probabilities: [N, K] of the ensemble, on examples that did not choose its members.
        labels: [N] true classes.
        ids: [N] ids of the examples, by which they are divided into halves; default: row numbers.
        seed: seed of the division.
    """
    logits = _logarithm(arrays.probabilities(probabilities))
    y = arrays.labels(labels, logits.shape[1], len(logits)).to(logits.device)
    half = torch.from_numpy(stratified_split(arrays.to_numpy(y), 0.5, seed, ids)).to(logits.device)
    confidence = torch.empty(len(y), device=logits.device)
    for fitted, evaluated in ((half, ~half), (~half, half)):
        temperature = _fit(logits[fitted], y[fitted])
        confidence[evaluated] = torch.as_tensor(to_probabilities(logits[evaluated], temperature)).amax(1).float()
    correct = logits.argmax(1) == y
    return EnsembleTemperature(
        temperature=_fit(logits, y),
        ece_before=binned_error(bin_counts(logits.amax(1).exp(), correct)),
        ece_after=binned_error(bin_counts(confidence, correct)),
        examples=len(y),
    )


def _logarithm(p: torch.Tensor) -> torch.Tensor:
    p = p if p.dtype == torch.float64 else p.float()
    return p.clamp_min(torch.finfo(torch.float32).tiny).log()


def _fit(logits: torch.Tensor, labels: torch.Tensor) -> float:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZooWarning)  # a temperature at its bound is still the best one for these examples
        return fit_temperature(logits, labels, name="ensemble").temperature
