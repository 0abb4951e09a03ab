"""The temperature of an ensemble. The mean of calibrated members is underconfident where they disagree.

The ensemble's probabilities p become p^(1/T), normalised; T below 1 sharpens them. T is fitted on the selection split, and
its effect on the calibration error is measured on the test split, which played no part in choosing members or T.
Predictions, and so accuracies, do not depend on T.
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

MIN_EXAMPLES = 50  # with fewer, the temperature would be mostly noise
MAX_ELEMENTS = 2**26  # examples x classes of either split: 256 MB in float32


@dataclass(frozen=True)
class EnsembleTemperature:
    """The fitted temperature, and the expected calibration error (ECE) without and with it."""

    temperature: float
    examples: int  # of the selection split, on which the temperature was fitted
    ece_before: float | None = None  # on the test split; None without one
    ece_after: float | None = None


@dataclass(frozen=True, eq=False)
class WeightedEnsemble:
    """An ensemble on both splits, whose temperature is fitted only if it is needed."""

    selection: ModelLibrary
    test: ModelLibrary | None
    members: Sequence[int]
    weights: Sequence[float]
    seed: int

    def calibrate(self) -> EnsembleTemperature | None:
        """Return the temperature; None for votes or too few examples. Of a large split, a random part is used."""
        if self.selection.kind == "predictions" or len(self.selection.labels) < MIN_EXAMPLES:
            return None
        probabilities, labels = self.probabilities(self.selection)
        temperature = fit_ensemble_temperature(probabilities, labels)
        if self.test is None:
            return EnsembleTemperature(temperature, len(labels))
        held_out, held_out_labels = self.probabilities(self.test)
        before, after = (_ece(held_out, held_out_labels, t) for t in (1.0, temperature))
        return EnsembleTemperature(temperature, len(labels), before, after)

    def probabilities(self, library: ModelLibrary) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the mean of the members [n, K] on a split, or on a stratified part of a large one, and labels [n]."""
        library = bounded(library, self.seed)
        dtype = arrays.accumulation_dtype(library.device)
        mean = torch.empty((len(library.labels), library.num_classes), device=library.device)
        for span in library.chunks():
            total = torch.zeros(mean[span].shape, dtype=dtype, device=library.device)
            for model, weight in zip(self.members, self.weights, strict=True):
                total += library.rows(model, span) * weight
            mean[span] = total / math.fsum(self.weights)
        return mean, library.labels


def bounded(library: ModelLibrary, seed: int) -> ModelLibrary:
    """Return a library of at most `MAX_ELEMENTS` examples x classes: the same, or a stratified random part of it."""
    fraction = MAX_ELEMENTS / (len(library.labels) * library.num_classes)
    if fraction >= 1:
        return library
    part = stratified_split(arrays.to_numpy(library.labels), fraction, seed, library.ids)
    return library.select(torch.from_numpy(np.flatnonzero(part)))


def apply_temperature(probabilities: Array, temperature: float) -> Array:
    """Return p^(1/T), normalised, of probabilities [N, K].

    >>> apply_temperature(np.array([[0.6, 0.3, 0.1]]), 0.5).round(3)
    array([[0.783, 0.196, 0.022]])
    """
    return arrays.like_input(
        torch.as_tensor(to_probabilities(_logarithm(arrays.probabilities(probabilities)), temperature)), probabilities
    )


def fit_ensemble_temperature(probabilities: Array, labels: Labels) -> float:
    """Return the temperature T that minimises the NLL of p^(1/T), normalised.

    Args:
        probabilities: [N, K] of the ensemble.
        labels: [N] true classes.
    """
    logits = _logarithm(arrays.probabilities(probabilities))
    y = arrays.labels(labels, logits.shape[1], len(logits)).to(logits.device)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ZooWarning)  # a temperature at its bound is still the best one for these examples
        return fit_temperature(logits, y, name="ensemble").temperature


def _ece(probabilities: torch.Tensor, labels: torch.Tensor, temperature: float) -> float:
    confidence, predictions = torch.as_tensor(to_probabilities(_logarithm(probabilities), temperature)).max(1)
    return binned_error(bin_counts(confidence, predictions == labels))


def _logarithm(p: torch.Tensor) -> torch.Tensor:
    p = p if p.dtype == torch.float64 else p.float()
    return p.clamp_min(torch.finfo(torch.float32).tiny).log()
