"""What an ensemble gains over its members (Gontijo-Lopes et al. 2021, Section 4.2)."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from diversity.bootstrap import percentile_interval, resample
from diversity.pair_ensembles import outcomes
from diversity.tables import mcnemar
from ensembles.combination import Weights, combined_predictions
from ensembles.inputs import EnsembleInput, Kind, Labels, Name, check_counts
from ensembles.text_table import text_table, wrapped
from zoo.core import arrays
from zoo.core.arrays import Array
from zoo.core.units import compared, count, interval, percent, points
from zoo.errors import InputError
from zoo.outputs.outputs import Outputs

SIGNIFICANT = 0.05


@dataclass(frozen=True)
class Improvement:
    """An ensemble compared with its members. A fraction of an empty set of examples is NaN."""

    members: tuple[Name, ...]
    ensemble_accuracy: float
    accuracies: tuple[float, ...]  # of the members
    best_member: Name  # the most accurate on the same examples; ties go to the first
    gain_over_mean: float
    gain_over_best: float
    interval: tuple[float, float]  # 95% confidence interval of the gain over the best member (paired bootstrap)
    mcnemar: float  # p-value of McNemar's test that the ensemble and the best member are equally accurate
    inconsistency: float  # fraction of examples that some, but not all, members classify correctly
    conversion_rate: float  # fraction of these that the ensemble classifies correctly
    all_right_lost: float  # fraction of the examples all members classify correctly that the ensemble gets wrong
    all_wrong_gained: float  # fraction of the examples all members get wrong that the ensemble classifies correctly

    def to_dict(self) -> dict[str, Any]:
        """Return all fields in plain types."""
        return vars(self) | {"members": list(self.members), "accuracies": list(self.accuracies)}

    def __str__(self) -> str:
        ranked = sorted(zip(self.accuracies, self.members, strict=True), key=lambda one: -one[0])
        columns = {
            "model": [str(name) for _, name in ranked],
            "accuracy": [percent(accuracy) for accuracy, _ in ranked],
            "gain of the ensemble": [points(self.ensemble_accuracy - accuracy) for accuracy, _ in ranked],
        }
        return "\n".join([*text_table(columns), *self.summary()])

    def summary(self) -> list[str]:
        """Return the lines below the table: whether the ensemble is better than its best member."""
        significant = "" if self.mcnemar < SIGNIFICANT else " The difference is not significant."
        return wrapped(
            f"The ensemble of {count(len(self.members), 'model')}: {percent(self.ensemble_accuracy)} accuracy, "
            f"{compared(self.gain_over_best)} its best member, {self.best_member} ({interval(self.interval)}; McNemar "
            f"p = {self.mcnemar:.2g}).{significant}"
        )


def improvement(
    runs: EnsembleInput,
    labels: Labels = None,
    combine: Kind = "probabilities",
    weights: Weights = None,
    resamples: int = 1000,
    seed: int = 0,
) -> Improvement:
    """Return what the ensemble of these members gains: is it better than its best member?

    Args:
        runs: outputs of the members. Arrays are of the kind that `combine` names; Runs provide every kind, calibrated.
        labels: [N] class indices; default: the labels of the runs.
        combine: mean of `probabilities`, mean of `logits`, or majority vote of `predictions`.
        weights: the members' weights, as in `average`.
        resamples: bootstrap resamples for the confidence interval.
        seed: random seed of the bootstrap.

    >>> a, b = np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([[0.4, 0.6], [0.7, 0.3]])
    >>> found = improvement([a, b], [0, 0])
    >>> found.ensemble_accuracy, found.accuracies, found.best_member, found.conversion_rate
    (1.0, (1.0, 0.5), 0, 1.0)
    """
    check_counts(resamples=resamples)
    predicted, member_predictions, members = combined_predictions(runs, combine, weights)
    if labels is None:
        if members.runs is None:
            raise InputError(argument="labels", expected=f"class indices [N] if runs is an array of {combine}", found="none")
        labels = members.runs.labels
    y = arrays.labels(labels, rows=len(predicted)).to(predicted.device)
    correct = arrays.to_numpy(predicted == y)
    member_correct = np.stack([arrays.to_numpy(each == y) for each in member_predictions.values()])
    accuracies = member_correct.mean(1)
    best = member_correct[int(accuracies.argmax())]
    table = outcomes(correct, member_correct)
    # The gain over the best member is a mean of -1, 0 and 1, so a resample is the counts of these three.
    draws = resample([(best & ~correct).sum(), (best == correct).sum(), (correct & ~best).sum()], resamples, seed)
    low, high = percentile_interval((draws[:, 2] - draws[:, 0]) / len(correct))
    return Improvement(
        members=members.names,
        ensemble_accuracy=float(correct.mean()),
        accuracies=tuple(accuracies.tolist()),
        best_member=members.names[int(accuracies.argmax())],
        gain_over_mean=float(correct.mean() - accuracies.mean()),
        gain_over_best=float(correct.mean() - accuracies.max()),
        interval=(float(low), float(high)),
        mcnemar=mcnemar(correct.astype(np.int64), best.astype(np.int64), np.ones(len(best), np.int64)),
        inconsistency=float(table.inconsistency),
        conversion_rate=float(table.conversion_rate),
        all_right_lost=float(table.all_right_lost),
        all_wrong_gained=float(table.all_wrong_gained),
    )


def conversion_rate(first: Outputs | Array, second: Outputs | Array, labels: Labels = None) -> float:
    """Of the examples that exactly one of two models classifies correctly, return the fraction that their mean gets right.

    The result is NaN if there are no such examples.

    Args:
        first: outputs, or probabilities [N, K].
        second: outputs or probabilities of the other model.
        labels: [N] class indices; default: the labels of the outputs.

    >>> conversion_rate(np.array([[0.9, 0.1], [0.6, 0.4]]), np.array([[0.4, 0.6], [0.1, 0.9]]), [0, 0])
    0.5
    """
    return improvement([first, second], labels, resamples=1).conversion_rate
